//! The file beside a database that its processes share.

use std::fs::{File, OpenOptions};
use std::io;
use std::path::{Path, PathBuf};

/// Its name is that of the database and `-leader`, as SQLite's own are `-wal` and `-shm`; like those, whoever may open the
/// database may open it, too.
#[derive(Clone, Debug)]
pub(crate) struct Beside {
    database: PathBuf,
    file: PathBuf,
}

impl Beside {
    pub(crate) fn database(database: &Path) -> Self {
        let mut file = database.as_os_str().to_owned();
        file.push("-leader");
        Self { database: database.to_owned(), file: file.into() }
    }

    pub(super) fn path(&self) -> &Path {
        &self.file
    }

    /// Opens it for reading, if it is there.
    pub(super) fn read(&self) -> io::Result<File> {
        File::open(&self.file)
    }

    /// Opens it for writing and creates it if it is missing.
    pub(super) fn write(&self) -> io::Result<File> {
        let mut how = OpenOptions::new();
        // Not truncated: a file that is read at that moment would be empty.
        how.write(true).truncate(false);
        match how.open(&self.file) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            opened => return opened,
        }
        match how.clone().create_new(true).open(&self.file) {
            Ok(created) => {
                // The umask of whoever came first would keep others out.
                let _ = self.permit(&created);
                Ok(created)
            }
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => how.open(&self.file),
            Err(error) => Err(error),
        }
    }

    /// By the open file: by its name it could be another one by now, which somebody put there.
    fn permit(&self, created: &File) -> io::Result<()> {
        let database = std::fs::metadata(&self.database)?;
        created.set_permissions(database.permissions())?;
        #[cfg(unix)]
        {
            use std::os::unix::fs::{MetadataExt as _, fchown};
            // Each by itself: whoever may not give a file away may still belong to the group.
            fchown(created, None, Some(database.gid()))?;
            fchown(created, Some(database.uid()), None)?;
        }
        Ok(())
    }
}

#[cfg(all(test, unix))]
mod tests {
    use std::fs::Permissions;
    use std::os::unix::fs::PermissionsExt as _;

    use super::*;

    #[test]
    fn whoever_may_write_the_database_may_write_the_file_beside_it() {
        let folder = tempfile::tempdir().expect("a folder");
        for mode in [0o600, 0o664, 0o666] {
            let database = folder.path().join(format!("{mode:o}.db"));
            File::create(&database).expect("a file");
            std::fs::set_permissions(&database, Permissions::from_mode(mode)).expect("its owner may");
            let beside = Beside::database(&database);
            assert!(beside.read().is_err(), "not before somebody writes");
            beside.write().expect("it is created");
            beside.write().expect("it is there");
            let metadata = beside.read().and_then(|file| file.metadata()).expect("it is there");
            assert_eq!(metadata.permissions().mode() & 0o777, mode);
        }
    }

    #[test]
    fn a_folder_that_is_missing_is_an_error() {
        assert!(Beside::database(Path::new("/nowhere/at/all.db")).write().is_err());
    }
}

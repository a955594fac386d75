//! Small shells that clean up behind the test process, however it ends.

use std::io::{self, BufRead, BufReader, Write};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::sync::{LazyLock, Mutex};

use anyhow::{Context, ensure};

/// A directory under the temporary one and a server in it, both gone soon after the test process.
#[derive(Debug)]
pub(crate) struct Supervisor {
    shell: Child,
    // `None` once it was told to clean up.
    commands: Option<ChildStdin>,
    answers: BufReader<ChildStdout>,
    directory: PathBuf,
}

impl Supervisor {
    pub(crate) fn new(label: &str) -> anyhow::Result<Self> {
        let template = std::env::temp_dir().join(format!("leader-{label}-XXXXXX"));
        let mut shell = shell(include_str!("supervisor.sh")).arg(template).stdout(Stdio::piped()).spawn()?;
        let commands = shell.stdin.take();
        let answers = BufReader::new(shell.stdout.take().context("stdout is a pipe")?);
        let mut supervisor = Self { shell, commands, answers, directory: PathBuf::new() };
        supervisor.directory = supervisor.answer().context("no directory under the temporary one")?.into();
        Ok(supervisor)
    }

    pub(crate) fn directory(&self) -> &Path {
        &self.directory
    }

    pub(crate) fn log(&self) -> PathBuf {
        self.directory.join("log")
    }

    /// Runs a command to its end.
    pub(crate) fn run(&mut self, command: &str) -> anyhow::Result<()> {
        self.tell("run", command)?;
        let status = self.answer()?;
        ensure!(status == "0", "`{command}` ended with status {status}:\n{}", tail(&self.log()));
        Ok(())
    }

    /// Starts the server and returns its process id.
    pub(crate) fn start(&mut self, command: &str) -> anyhow::Result<i32> {
        self.tell("start", command)?;
        Ok(self.answer()?.parse()?)
    }

    /// Waits for the server to end and returns its exit status.
    pub(crate) fn wait(&mut self) -> anyhow::Result<String> {
        self.tell("wait", "")?;
        self.answer()
    }

    /// How to end the server in the end; the kill that follows is not gentle.
    pub(crate) fn finally(&mut self, command: &str) -> anyhow::Result<()> {
        self.tell("finally", command)
    }

    /// What to do when the server is gone, before its directory goes.
    pub(crate) fn after(&mut self, command: &str) -> anyhow::Result<()> {
        self.tell("after", command)
    }

    fn tell(&mut self, word: &str, command: &str) -> anyhow::Result<()> {
        let commands = self.commands.as_mut().context("the supervisor has cleaned up")?;
        writeln!(commands, "{word} {command}").context("the supervisor is gone")
    }

    fn answer(&mut self) -> anyhow::Result<String> {
        let mut line = String::new();
        self.answers.read_line(&mut line)?;
        ensure!(line.ends_with('\n'), "the supervisor is gone");
        Ok(line.trim_end().to_owned())
    }
}

impl Drop for Supervisor {
    fn drop(&mut self) {
        self.commands = None;
        let _ = self.shell.wait();
    }
}

/// The last lines of a file.
pub(crate) fn tail(file: &Path) -> String {
    let text = std::fs::read(file).unwrap_or_default();
    let text = String::from_utf8_lossy(&text);
    let lines: Vec<_> = text.lines().collect();
    lines[lines.len().saturating_sub(40)..].join("\n")
}

/// Quotes a word for the shell.
pub(crate) fn quote(word: impl AsRef<Path>) -> String {
    format!("'{}'", word.as_ref().display().to_string().replace('\'', r"'\''"))
}

/// Has a child killed when the test process ends without killing it, until [`forget`] is called.
pub(crate) fn guard(pid: u32) -> io::Result<()> {
    tell_guard('+', pid)
}

/// Takes a child off the guard's list, before its id can be used again.
pub(crate) fn forget(pid: u32) -> io::Result<()> {
    tell_guard('-', pid)
}

const GUARD: &str = r#"
pids=" "
while read -r word pid; do
    case $word in
    +) pids="$pids$pid " ;;
    -) pids="${pids%% $pid *} ${pids#* $pid }" ;;
    esac
done
[ "$pids" = " " ] || kill -KILL $pids 2>/dev/null
"#;

static GUARDED: LazyLock<Mutex<Child>> =
    LazyLock::new(|| Mutex::new(shell(GUARD).stdout(Stdio::null()).spawn().expect("`sh` starts")));

fn tell_guard(word: char, pid: u32) -> io::Result<()> {
    let mut guard = GUARDED.lock().expect("nothing panics while it holds this");
    writeln!(guard.stdin.as_mut().expect("stdin is a pipe"), "{word} {pid}")
}

/// A shell in a process group of its own: an interrupt at the terminal ends the tests, and must not end who cleans up.
fn shell(script: &str) -> Command {
    let mut command = Command::new("sh");
    // In a variable, so that `ps` shows one line.
    command
        .args(["-c", r#"eval "$LEADER_SUPERVISOR""#, "leader-supervisor"])
        .env("LEADER_SUPERVISOR", script);
    command.stdin(Stdio::piped()).stderr(Stdio::null()).process_group(0);
    command
}

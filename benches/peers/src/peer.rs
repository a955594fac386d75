//! Who is measured.

use std::path::Path;
use std::process::Command;

use clap::ValueEnum;

use crate::contend::{Options, contend};
use crate::{advisory, forge, rows};

/// Somebody who lets a work run on one replica.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Peer {
    /// A loop around PostgreSQL's advisory locks
    Advisory,
    /// A lease a row and a renewal a name, on PostgreSQL
    Rows,
    /// asyncpg-lock 0.0.3 with its defaults
    AsyncpgLock,
    /// The elections of forge-runtime 0.10 by their own loop, with its defaults
    Forge,
    /// The same as forge-runtime's runner of daemons uses them
    ForgeDaemon,
    /// etcd's elections through the crate `etcd-client`
    #[cfg(feature = "etcd")]
    Etcd,
}

impl Peer {
    /// Its name in options and tables.
    pub fn word(self) -> String {
        self.to_possible_value().map_or_else(String::new, |value| value.get_name().to_owned())
    }

    /// Whether it lets a work give its name back.
    pub fn hands_over(self) -> bool {
        // A function that returns is run again, on the same replica.
        self != Self::AsyncpgLock
    }

    /// How many names one replica can campaign for.
    pub fn most_names(self) -> usize {
        match self {
            // A connection each.
            Self::AsyncpgLock | Self::Forge | Self::ForgeDaemon => 10,
            _ => 1_000,
        }
    }

    /// Builds the program of a replica, if it is another than this one.
    pub fn build(self) -> anyhow::Result<()> {
        match self {
            Self::Forge | Self::ForgeDaemon => forge::build(),
            _ => Ok(()),
        }
    }

    /// The program of a replica.
    pub fn command(self, options: &Options) -> anyhow::Result<Command> {
        let mut command = match self {
            Self::AsyncpgLock => {
                let mut python = Command::new("python3");
                python.arg(Path::new(env!("CARGO_MANIFEST_DIR")).join("asyncpg_lock_replica.py"));
                python
            }
            Self::Forge => Command::new(forge::program()?),
            Self::ForgeDaemon => {
                let mut forge = Command::new(forge::program()?);
                forge.arg("--daemon");
                forge
            }
            _ => {
                let mut me = Command::new(std::env::current_exe()?);
                me.arg("contend").arg(self.word());
                me
            }
        };
        command.args(["--url", &options.url, "--prefix", &options.prefix]);
        command.args(["--names", &options.names.to_string()]);
        if let Some(hold) = options.hold {
            command.args(["--hold", &hold.to_string()]);
        }
        Ok(command)
    }

    /// What that program does.
    pub async fn contend(self, options: &Options) -> anyhow::Result<()> {
        match self {
            Self::Advisory => contend::<advisory::Advisory>(options).await,
            Self::Rows => contend::<rows::Rows>(options).await,
            Self::AsyncpgLock | Self::Forge | Self::ForgeDaemon => {
                anyhow::bail!("this one is a program of its own")
            }
            #[cfg(feature = "etcd")]
            Self::Etcd => crate::etcd::contend(options).await,
        }
    }
}

//! Replicas of peers as child processes, and what they say.

use std::process::Stdio;
use std::time::Duration;

use anyhow::Context;
use tokio::io::{AsyncBufReadExt, BufReader};
use tokio::process::{Child, Command};
use tokio::sync::mpsc;

use crate::contend::{self, Event, Line};
use crate::peer::Peer;

/// Some replicas of one deployment. Killed when dropped.
pub struct Members {
    children: Vec<Child>,
    say: mpsc::UnboundedSender<(usize, Line)>,
    said: mpsc::UnboundedReceiver<(usize, Line)>,
}

impl Members {
    /// None yet.
    pub fn new() -> Self {
        let (say, said) = mpsc::unbounded_channel();
        Self { children: Vec::new(), say, said }
    }

    /// One more, which campaigns when this returns. Its number.
    pub async fn add(&mut self, peer: Peer, options: &contend::Options) -> anyhow::Result<usize> {
        let number = self.children.len();
        let mut child = Command::from(peer.command(options)?)
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .kill_on_drop(true)
            .spawn()?;
        let stdout = child.stdout.take().context("a pipe")?;
        self.children.push(child);
        let say = self.say.clone();
        let (up, started) = tokio::sync::oneshot::channel();
        tokio::spawn(async move {
            let mut up = Some(up);
            let mut lines = BufReader::new(stdout).lines();
            while let Ok(Some(line)) = lines.next_line().await {
                let line = contend::read(&line).expect("replicas say nothing else");
                if line.event == Event::Started {
                    up.take().map(|up| up.send(()));
                } else if say.send((number, line)).is_err() {
                    return;
                }
            }
        });
        tokio::time::timeout(PATIENCE, started).await?.context("a replica ended before it campaigned")?;
        Ok(number)
    }

    /// What one of them says next, and its number.
    pub async fn next(&mut self) -> anyhow::Result<(usize, Line)> {
        let next = tokio::time::timeout(PATIENCE, self.said.recv()).await;
        next.with_context(|| format!("nobody was elected within {PATIENCE:?}"))?
            .context("this holds the sender")
    }

    /// Waits for so many elections. Who won the last.
    pub async fn elections(&mut self, names: usize) -> anyhow::Result<(usize, Line)> {
        let mut last = None;
        for _ in 0..names {
            let (member, line) = self.next().await?;
            anyhow::ensure!(line.event == Event::Elected, "an election comes first");
            last = Some((member, line));
        }
        last.context("at least one name")
    }

    /// Kills one (SIGKILL).
    pub fn kill(&mut self, member: usize) -> anyhow::Result<()> {
        Ok(self.children[member].start_kill()?)
    }
}

/// More than the longest lease, which is that of forge-runtime: a minute.
const PATIENCE: Duration = Duration::from_mins(2);

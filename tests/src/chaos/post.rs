//! The place of one replica: who stands there, what is done to him, and who comes after him.

use std::path::PathBuf;
use std::pin::pin;
use std::time::Duration;

use tokio::time::{Instant, sleep, sleep_until};

use super::history::{Process, STUBBORN, Span};
use super::schedule::{Fault, Timed};
use crate::harness::{Launch, Replica, now_ms};

/// One replica and its processes, one after the other.
pub(super) struct Post {
    replica: usize,
    instance: String,
    launch: Launch,
    logs: PathBuf,
    running: Option<Running>,
    past: Vec<Process>,
}

struct Running {
    replica: Replica,
    process: Process,
}

/// How often it is looked whether a process has ended.
const LOOK: Duration = Duration::from_millis(5);

/// What a replica is called.
pub(super) fn instance(replica: usize) -> String {
    format!("replica-{replica}")
}

impl Post {
    /// Starts the first process. All of them are started under one instance name.
    pub(super) fn new(replica: usize, launch: &Launch, logs: PathBuf) -> Self {
        let instance = instance(replica);
        let launch = launch.clone().instance(&instance);
        let mut post = Self { replica, instance, launch, logs, running: None, past: Vec::new() };
        post.start(replica > 0);
        post
    }

    /// Waits. Who ends by himself meanwhile has a successor of his kind half a second later.
    pub(super) async fn tend(&mut self, until: impl Future<Output = ()>) {
        const PAUSE: Duration = Duration::from_millis(500);

        let mut until = pin!(until);
        loop {
            tokio::select! {
                biased;
                () = &mut until => return,
                () = sleep(LOOK) => {}
            }
            if self.has_ended() {
                self.bury().await;
                sleep(PAUSE).await;
                self.start(self.past.last().is_some_and(|last| last.stubborn));
            }
        }
    }

    /// Does this to the process.
    pub(super) async fn apply(&mut self, timed: &Timed) {
        let until = Instant::now() + timed.length;
        let has_ended = self.has_ended();
        let Running { replica, process } = self.running.as_mut().expect("there is always somebody");
        if !has_ended {
            process.faults.push(timed.clone());
        }
        match timed.fault {
            Fault::Freeze { .. } => {
                let from = now_ms();
                replica.freeze();
                sleep_until(until).await;
                replica.wake();
                process.frozen.push(Span { from, until: now_ms() });
            }
            Fault::Kill { stubborn, .. } => {
                self.kill();
                self.bury().await;
                sleep_until(until).await;
                self.start(stubborn);
            }
            Fault::Term { stubborn, .. } => {
                self.ask();
                if !self.ends_before(until).await {
                    self.kill();
                }
                self.bury().await;
                sleep_until(until).await;
                self.start(stubborn);
            }
            _ => unreachable!("{:?} is not done to a process", timed.fault),
        }
    }

    /// Has the last process stop, and tells of all of them.
    pub(super) async fn dismiss(mut self) -> Vec<Process> {
        const PATIENCE: Duration = Duration::from_secs(10);
        /// Work that ignores its end is waited for by its replica, and by nobody else.
        const NONE: Duration = Duration::from_millis(500);

        if let Some(Running { process, .. }) = &self.running {
            let patience = if process.stubborn { NONE } else { PATIENCE };
            self.ask();
            if !self.ends_before(Instant::now() + patience).await {
                self.kill();
                if let Some(Running { process, .. }) = &mut self.running {
                    process.overdue = !process.stubborn;
                }
            }
            self.bury().await;
        }
        self.past
    }

    fn start(&mut self, stubborn: bool) {
        let log = self.logs.join(format!("{}-{}.log", self.instance, self.past.len() + 1));
        let mut launch = self.launch.clone().log_to(log.clone());
        if stubborn {
            launch = launch.work(STUBBORN, STUBBORN);
        }
        let from = now_ms();
        let process = Process {
            replica: self.replica,
            instance: self.instance.clone(),
            stubborn,
            alive: Span { from, until: from },
            events: Vec::new(),
            frozen: Vec::new(),
            asked: None,
            killed: None,
            overdue: false,
            status: None,
            panic: None,
            conflicts: 0,
            log: log.display().to_string(),
            faults: Vec::new(),
        };
        self.running = Some(Running { replica: launch.start(), process });
    }

    fn ask(&mut self) {
        if let Some(Running { replica, process }) = &mut self.running {
            process.asked = Some(now_ms());
            replica.term();
        }
    }

    fn kill(&mut self) {
        if let Some(Running { replica, process }) = &mut self.running {
            process.killed = Some(now_ms());
            replica.kill();
        }
    }

    fn has_ended(&self) -> bool {
        self.running.as_ref().is_none_or(|running| running.replica.exited().is_some())
    }

    async fn ends_before(&self, until: Instant) -> bool {
        while !self.has_ended() {
            if Instant::now() >= until {
                return false;
            }
            sleep(LOOK).await;
        }
        true
    }

    /// Waits for the end of the process and keeps what is known of it.
    async fn bury(&mut self) {
        let Some(Running { replica, mut process }) = self.running.take() else { return };
        while replica.exited().is_none() {
            sleep(LOOK).await;
        }
        process.alive.until = now_ms();
        process.status = replica.wait_exit().await;
        process.events = replica.events();
        let log = std::fs::read(&process.log).unwrap_or_default();
        let log = String::from_utf8_lossy(&log);
        let conflicts = ["could not serialize access", "Deadlock found"];
        let conflicts = log.lines().filter(|line| conflicts.iter().any(|conflict| line.contains(conflict)));
        process.conflicts = conflicts.count();
        process.panic = log.lines().find(|line| line.contains("panicked at")).map(ToOwned::to_owned);
        self.past.push(process);
    }
}

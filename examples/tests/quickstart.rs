//! The quickstart as a person runs it: one replica works, another stands by and takes over.

use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};

struct Quickstart {
    child: Child,
    lines: Receiver<String>,
    seen: Vec<String>,
}

impl Quickstart {
    fn start(directory: &Path) -> Self {
        let mut child = Command::new(env!("CARGO_BIN_EXE_quickstart"))
            .current_dir(directory)
            .env_remove("RUST_LOG")
            .env("NO_COLOR", "1")
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .spawn()
            .expect("the quickstart starts");
        let stdout = child.stdout.take().expect("a pipe");
        let (sender, lines) = channel();
        std::thread::spawn(move || {
            for line in BufReader::new(stdout).lines().map_while(Result::ok) {
                if sender.send(line).is_err() {
                    return;
                }
            }
        });
        Self { child, lines, seen: Vec::new() }
    }

    /// Waits for a line, and returns it.
    fn wait(&mut self, part: &str) -> String {
        let until = Instant::now() + Duration::from_secs(40);
        loop {
            match self.lines.recv_timeout(until.saturating_duration_since(Instant::now())) {
                Ok(line) => {
                    self.seen.push(line.clone());
                    if line.contains(part) {
                        return line;
                    }
                }
                Err(error) => panic!("no line with `{part}`: {error}; seen: {:#?}", self.seen),
            }
        }
    }

    fn signal(&self, signal: Signal) {
        kill_process(Pid::from_child(&self.child), signal).expect("the quickstart runs");
    }

    fn exit(mut self) -> ExitStatus {
        self.child.wait().expect("the quickstart ends")
    }
}

impl Drop for Quickstart {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// `tick 7 under term 1795998002569`
fn tick(line: &str) -> (u64, u64) {
    let words: Vec<&str> = line.split(' ').collect();
    (words[1].parse().expect("a number"), words[4].parse().expect("a term"))
}

#[test]
fn one_works_and_the_other_takes_over() {
    let directory = tempfile::tempdir().expect("a directory");
    let mut first = Quickstart::start(directory.path());
    first.wait("elected");
    let (_, first_term) = tick(&first.wait("tick 2"));

    let mut second = Quickstart::start(directory.path());
    second.wait("campaigning for ticker");
    first.wait("tick 4");
    first.signal(Signal::INT);
    first.wait("stepped down");
    let took_over = Instant::now();
    second.wait("elected");
    assert!(took_over.elapsed() < Duration::from_secs(2), "{:?}", took_over.elapsed());
    let (ticks, second_term) = tick(&second.wait("tick"));
    assert!(ticks > 4 && second_term > first_term);
    assert!(first.exit().success());
    assert!(!second.seen.iter().any(|line| line.contains("tick 4 ")), "it worked while it stood by");

    let mut third = Quickstart::start(directory.path());
    third.wait("campaigning for ticker");
    second.signal(Signal::KILL);
    third.wait("elected");
    let (_, third_term) = tick(&third.wait("tick"));
    assert!(third_term > second_term);
    third.signal(Signal::TERM);
    assert!(third.exit().success());
}

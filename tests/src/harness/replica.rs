//! The program `replica`, or any other, as a child process: what it prints, and how it is broken.

use std::fmt::{self, Write as _};
use std::fs::{File, OpenOptions};
use std::io::{BufRead, BufReader, Write as _};
use std::os::fd::AsRawFd;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStderr, Command, ExitStatus, Stdio};
use std::sync::{Arc, LazyLock, Mutex};
use std::time::Duration;

use leader::Timings;
use rustix::fs::OFlags;
use rustix::process::{Pid, Signal, WaitId, WaitIdOptions, kill_process, waitid};
use serde::{Deserialize, Serialize};
use tokio::sync::watch;

use super::{locked, supervisor};

/// How long a test waits for what must come, on the slowest of machines. Bounds of the promise are measured from the
/// events' own times, not by this.
pub const PATIENCE: Duration = Duration::from_secs(30);

/// A line that a replica printed.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, Serialize)]
pub struct Event {
    /// When, by the machine's wall clock.
    pub at_ms: i64,
    /// `started`, `elected`, `stepped_down`, `lost`, `overrun` or `stopped`.
    pub event: String,
    /// The work, if the event is about one.
    pub name: Option<String>,
    /// Its term.
    pub term: Option<i64>,
    /// The replica.
    pub instance: String,
    /// The tenure's trace.
    pub trace_id: Option<String>,
    /// Why the tenure ended.
    pub reason: Option<String>,
    /// What the work returned, or what went wrong.
    pub error: Option<String>,
}

impl Event {
    /// Whether it is an event of this kind.
    pub fn is(&self, event: &str) -> bool {
        self.event == event
    }

    /// Whether it is an event of this kind about this work.
    pub fn is_of(&self, event: &str, name: &str) -> bool {
        self.is(event) && self.name.as_deref() == Some(name)
    }

    /// The term of an event about a tenure.
    ///
    /// # Panics
    ///
    /// When the event has none.
    pub fn term(&self) -> i64 {
        self.term.unwrap_or_else(|| panic!("no term in {self:?}"))
    }
}

/// How a replica is started.
#[derive(Clone, Debug)]
pub struct Launch {
    program: PathBuf,
    arguments: Vec<String>,
    log: Log,
    verbose: bool,
}

#[derive(Clone, Debug)]
enum Log {
    Tail,
    Unread,
    File(PathBuf),
}

impl Launch {
    /// The timings of the tests, in about the proportions of the defaults.
    pub const TIMINGS: Timings = Timings {
        lease: Duration::from_secs(3),
        renew: Duration::from_millis(400),
        deadline: Duration::from_secs(2),
        attempt: None,
        grace: Duration::from_millis(700),
        margin: Duration::from_millis(200),
        campaign: Duration::from_secs(1),
        release: Duration::from_secs(5),
        look: Duration::from_millis(250),
    };

    /// A replica with the timings of the tests, and no work yet. `program` is `env!("CARGO_BIN_EXE_replica")`.
    pub fn new(program: impl AsRef<Path>, database_url: &str) -> Self {
        Self::bare(program).flag("--database-url", database_url).timings(&Self::TIMINGS)
    }

    /// A replica with no flag at all.
    pub fn bare(program: impl AsRef<Path>) -> Self {
        Self { program: program.as_ref().to_owned(), arguments: Vec::new(), log: Log::Tail, verbose: false }
    }

    /// One more work.
    #[must_use]
    pub fn work(self, name: &str, kind: &str) -> Self {
        self.flag("--work", &format!("{name}={kind}"))
    }

    /// What the replica is called in its events and in the tables.
    #[must_use]
    pub fn instance(self, instance: &str) -> Self {
        self.flag("--instance", instance)
    }

    /// How long its leases last, and all that goes with it.
    #[must_use]
    pub fn timings(self, timings: &Timings) -> Self {
        let attempt = timings.attempt();
        let Timings { lease, renew, deadline, attempt: _, grace, margin, campaign, release, look } = *timings;
        let given = [
            ("lease", lease),
            ("renew", renew),
            ("deadline", deadline),
            ("attempt", attempt),
            ("grace", grace),
            ("margin", margin),
            ("campaign", campaign),
            ("release", release),
            ("look", look),
        ];
        let given = given.map(|(name, duration)| format!("{name}={}ms", duration.as_millis()));
        self.flag("--timings", &given.join(","))
    }

    /// The pace of its works.
    #[must_use]
    pub fn every(self, every: Duration) -> Self {
        self.flag("--every", &every.as_millis().to_string())
    }

    /// Any other flag.
    #[must_use]
    pub fn flag(mut self, flag: &str, value: &str) -> Self {
        self.arguments.extend([flag.to_owned(), value.to_owned()]);
        self
    }

    /// Nobody reads its log, so that [`Replica::block_log`] can block it.
    #[must_use]
    pub fn log_unread(self) -> Self {
        Self { log: Log::Unread, ..self }
    }

    /// Its log goes to this file, and to nobody else.
    #[must_use]
    pub fn log_to(self, file: PathBuf) -> Self {
        Self { log: Log::File(file), ..self }
    }

    /// It logs each attempt.
    #[must_use]
    pub fn verbose(self) -> Self {
        Self { verbose: true, ..self }
    }

    /// Starts it.
    ///
    /// # Panics
    ///
    /// When the program cannot be run, or the file of its log not be made.
    pub fn start(&self) -> Replica {
        let log = match &self.log {
            Log::File(file) => File::create(file).expect("the file of a log").into(),
            Log::Tail | Log::Unread => Stdio::piped(),
        };
        let mut command = Command::new(&self.program);
        if self.verbose {
            command.env("RUST_LOG", "info,leader=debug");
        }
        let mut child = command
            // The log keeps its last lines, and a backtrace is longer.
            .env("RUST_BACKTRACE", "0")
            .args(&self.arguments)
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(log)
            .spawn()
            .unwrap_or_else(|error| panic!("{}: {error}", self.program.display()));
        supervisor::guard(child.id()).expect("the guard listens");
        let said = Arc::new(Said::default());
        let stdout = child.stdout.take().expect("a pipe");
        on_lines(stdout, Arc::clone(&said), Said::hear);
        let mut unread = child.stderr.take();
        if let Log::Tail = self.log {
            on_lines(unread.take().expect("a pipe"), Arc::clone(&said), Said::note);
        }
        Replica { pid: Pid::from_child(&child), child: Mutex::new(child), said, unread }
    }
}

/// A running replica. Killed when dropped.
pub struct Replica {
    pid: Pid,
    child: Mutex<Child>,
    said: Arc<Said>,
    /// The log, if nobody reads it.
    unread: Option<ChildStderr>,
}

impl Replica {
    /// What it printed so far.
    pub fn events(&self) -> Vec<Event> {
        locked(&self.said.events).clone()
    }

    /// Its process id.
    pub fn pid(&self) -> i32 {
        self.pid.as_raw_nonzero().get()
    }

    /// What it logged, and printed beside its events.
    pub fn log(&self) -> String {
        locked(&self.said.log).join("\n")
    }

    /// The first event that fits, printed already or to come.
    ///
    /// # Panics
    ///
    /// When none has come within [`PATIENCE`]: with all events and the last lines of the log.
    pub async fn wait(&self, what: &str, fits: impl Fn(&Event) -> bool) -> Event {
        first(&[self], what, fits).await.1
    }

    /// The first line of its log that holds this text, logged already or to come.
    ///
    /// # Panics
    ///
    /// When none has come within [`PATIENCE`]: with all events and the last lines of the log.
    pub async fn wait_line(&self, text: &str) -> String {
        self.wait_line_with(&[text]).await
    }

    /// The first line of its log that holds one of these texts, logged already or to come.
    ///
    /// # Panics
    ///
    /// As [`wait_line`](Self::wait_line).
    pub async fn wait_line_with(&self, texts: &[&str]) -> String {
        self.wait_line_that(&format!("{texts:?}"), |line| texts.iter().any(|text| line.contains(text))).await
    }

    /// The first line of its log that was written in the tenure of this term and holds this text, logged already or to
    /// come. What an earlier tenure left in the log is not taken for it.
    ///
    /// # Panics
    ///
    /// As [`wait_line`](Self::wait_line).
    pub async fn wait_line_of(&self, term: i64, text: &str) -> String {
        self.wait_line_that(&format!("`{text}` of term {term}"), |line| is_of(term, text, line)).await
    }

    /// Whether it has logged such a line.
    pub fn has_line_of(&self, term: i64, text: &str) -> bool {
        locked(&self.said.log).iter().any(|line| is_of(term, text, line))
    }

    async fn wait_line_that(&self, what: &str, fits: impl Fn(&str) -> bool) -> String {
        let line = || locked(&self.said.log).iter().find(|line| fits(line)).cloned();
        let found = tokio::time::timeout(PATIENCE, on_news(line)).await;
        found.unwrap_or_else(|_| panic!("waited {PATIENCE:?} in vain for {what} in the log of {self}"))
    }

    /// Asks it to stop (SIGTERM).
    pub fn term(&self) {
        self.signal(Signal::TERM);
    }

    /// Sends SIGINT, as a terminal does.
    ///
    /// # Panics
    ///
    /// When there is no such process.
    pub fn interrupt(&self) {
        self.signal(Signal::INT);
    }

    /// Kills it (SIGKILL).
    pub fn kill(&self) {
        self.signal(Signal::KILL);
    }

    /// Freezes it (SIGSTOP), and returns when not one of its threads runs any more.
    ///
    /// # Panics
    ///
    /// When the system does not tell.
    pub fn freeze(&self) {
        self.signal(Signal::STOP);
        // One thread takes the signal and stops the others, once it has a turn.
        while self.exited().is_none() && !self.is_stopped() {
            std::thread::sleep(Duration::from_millis(1));
        }
    }

    /// Wakes it (SIGCONT).
    pub fn wake(&self) {
        self.signal(Signal::CONT);
    }

    /// From now on whoever writes to its log waits for ever: the pipe is full.
    ///
    /// # Panics
    ///
    /// When it was not started with [`Launch::log_unread`].
    pub fn block_log(&self) {
        let unread = self.unread.as_ref().expect("a log that nobody reads");
        // The other end of the same pipe, of this process's own: the replica's must go on blocking.
        let mut end = OpenOptions::new()
            .write(true)
            .custom_flags(OFlags::NONBLOCK.bits().cast_signed())
            .open(format!("/proc/self/fd/{}", unread.as_raw_fd()))
            .expect("the pipe");
        // Byte by byte in the end, so that not the shortest line fits.
        for size in [4096, 1] {
            while end.write(&vec![b'\n'; size]).is_ok() {}
        }
    }

    /// How it ended, if it has.
    ///
    /// # Panics
    ///
    /// When the system does not tell.
    pub fn exited(&self) -> Option<ExitStatus> {
        locked(&self.child).try_wait().expect("a child of this process")
    }

    /// Waits for its end and returns the exit status, which is `None` when a signal ended it. All that it printed has
    /// been read then.
    ///
    /// # Panics
    ///
    /// When it still runs after [`PATIENCE`].
    pub async fn wait_exit(&self) -> Option<i32> {
        let exited = async {
            loop {
                if let Some(status) = self.exited()
                    && self.is_silent()
                {
                    return status.code();
                }
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
        };
        let code = tokio::time::timeout(PATIENCE, exited).await;
        code.unwrap_or_else(|_| panic!("waited {PATIENCE:?} in vain for the end of {self}"))
    }

    fn signal(&self, signal: Signal) {
        // The lock keeps the process from being reaped, and its id from being given to another, in between.
        let mut child = locked(&self.child);
        if let Ok(None) = child.try_wait() {
            kill_process(self.pid, signal).expect("a child of this process");
        }
    }

    fn is_stopped(&self) -> bool {
        let asked = WaitIdOptions::STOPPED | WaitIdOptions::NOHANG | WaitIdOptions::NOWAIT;
        waitid(WaitId::Pid(self.pid), asked).expect("a child of this process").is_some()
    }

    fn is_silent(&self) -> bool {
        // Each of the two reading threads holds one until its pipe ends.
        Arc::strong_count(&self.said) == 1
    }
}

impl Drop for Replica {
    fn drop(&mut self) {
        let mut child = locked(&self.child);
        let _ = child.kill();
        let _ = supervisor::forget(child.id());
        let _ = child.wait();
    }
}

impl fmt::Debug for Replica {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Replica").field("pid", &self.pid).finish_non_exhaustive()
    }
}

/// All events and the last lines of the log.
impl fmt::Display for Replica {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "replica {}:", self.pid())?;
        for event in self.events() {
            writeln!(f, "    {event:?}")?;
        }
        let log = locked(&self.said.log);
        for line in &log[log.len().saturating_sub(LAST_LINES)..] {
            writeln!(f, "    | {line}")?;
        }
        Ok(())
    }
}

/// The first event of any of these replicas that fits, and the index of the replica.
///
/// # Panics
///
/// When none has come within [`PATIENCE`]: with all events and the last lines of the logs.
pub async fn first(replicas: &[&Replica], what: &str, fits: impl Fn(&Event) -> bool) -> (usize, Event) {
    let earliest = || {
        let found = replicas.iter().enumerate().filter_map(|(index, replica)| {
            let events = locked(&replica.said.events);
            events.iter().find(|event| fits(event)).map(|event| (index, event.clone()))
        });
        found.min_by_key(|(_, event)| event.at_ms)
    };
    let found = tokio::time::timeout(PATIENCE, on_news(earliest)).await;
    found.unwrap_or_else(|_| {
        let mut all = String::new();
        for replica in replicas {
            let _ = write!(all, "\n{replica}");
        }
        panic!("waited {PATIENCE:?} in vain for {what}{all}")
    })
}

/// Asks now and with each line of any replica until the answer is there.
async fn on_news<T>(ask: impl Fn() -> Option<T>) -> T {
    let mut news = NEWS.subscribe();
    loop {
        news.mark_unchanged();
        if let Some(answer) = ask() {
            return answer;
        }
        news.changed().await.expect("the sender is never dropped");
    }
}

/// How much of a log is shown when a test fails.
const LAST_LINES: usize = 60;

/// What a replica has said.
#[derive(Default)]
struct Said {
    events: Mutex<Vec<Event>>,
    log: Mutex<Vec<String>>,
}

impl Said {
    fn hear(&self, line: &str) {
        match serde_json::from_str(line) {
            Ok(event) => locked(&self.events).push(event),
            // Other programs than `replica` print what they like.
            Err(_) => self.note(line),
        }
    }

    fn note(&self, line: &str) {
        locked(&self.log).push(line.to_owned());
    }
}

/// Rises with each line of any replica.
static NEWS: LazyLock<watch::Sender<u64>> = LazyLock::new(|| watch::Sender::new(0));

fn on_lines(pipe: impl std::io::Read + Send + 'static, said: Arc<Said>, take: fn(&Said, &str)) {
    std::thread::spawn(move || {
        for line in BufReader::new(pipe).split(b'\n') {
            let Ok(line) = line else { break };
            take(&said, &String::from_utf8_lossy(&line));
            NEWS.send_modify(|lines| *lines += 1);
        }
    });
}

/// Whether this line of a log was written in the tenure of this term, and holds this text.
fn is_of(term: i64, text: &str, line: &str) -> bool {
    line.contains(text) && line.contains(&format!("term={term} "))
}

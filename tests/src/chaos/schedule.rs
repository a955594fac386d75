//! What breaks when. The same seed makes the same schedule.

mod drawing;

use std::time::Duration;

use serde::Serialize;

use super::conditions::Route;
use super::history::TIMINGS;
use crate::harness::Kind;

/// How many replicas there are.
pub const REPLICAS: usize = 3;

/// Faults in the order of their begin.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Schedule {
    /// All of them.
    pub faults: Vec<Timed>,
}

/// A fault, when it begins and how long it lasts.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Timed {
    /// From the start of the run.
    pub at: Duration,
    /// Zero for what is done in a moment.
    pub length: Duration,
    /// What breaks.
    pub fault: Fault,
}

/// What breaks.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub enum Fault {
    /// SIGKILL, and a new process under the same instance name in the end.
    Kill {
        /// Whose.
        replica: usize,
        /// Whether the new process registers work that ignores its end as well.
        stubborn: bool,
    },
    /// The same after SIGTERM. Who has not ended by then is killed.
    Term {
        /// Whose.
        replica: usize,
        /// As of [`Kill`](Self::Kill).
        stubborn: bool,
    },
    /// SIGSTOP, and SIGCONT in the end.
    Freeze {
        /// Whose.
        replica: usize,
    },
    /// Between one replica and its server.
    Link {
        /// Whose.
        replica: usize,
        /// Which of its connections.
        whose: Whose,
        /// What happens on them.
        trouble: Trouble,
    },
    /// The server goes, and comes back in the end.
    Restart {
        /// Like a power cut, or as it is done by its administrator.
        power_cut: bool,
    },
    /// Every process of the server is frozen.
    FreezeServer,
    /// The server takes no writes. On PostgreSQL from those only who do not ask for a transaction that writes.
    ReadOnly,
    /// The server ends connections of replicas.
    KillBackends {
        /// How many.
        count: u32,
    },
    /// An operator deletes the sessions of a replica.
    DeleteSessions {
        /// Whose.
        replica: usize,
    },
    /// An operator deletes the row of a name.
    DeleteName {
        /// Which.
        name: &'static str,
    },
    /// An operator empties both tables.
    EmptyTables,
    /// An operator drops both tables.
    DropTables {
        /// And makes them anew at once. Otherwise that is left to the replicas.
        recreate: bool,
    },
    /// An operator takes a dump of both tables, and restores it in the end.
    RestoreTables,
    /// Somebody else holds the write lock of the file.
    Lock,
    /// Somebody else holds the lock of every row of a table.
    LockRows {
        /// Which.
        table: &'static str,
    },
    /// The standby of PostgreSQL falls behind, its primary is cut off in the end, and the standby is promoted: what it
    /// missed was acknowledged, and is lost.
    FailOver,
    /// PgBouncer is killed, and comes back in the end.
    KillPooler,
    /// PgBouncer is frozen.
    FreezePooler,
    /// From now on a replica comes by PgBouncer if it came directly, and the other way round: its connections are cut.
    Reroute {
        /// Whose.
        replica: usize,
    },
}

/// Connections of a replica.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
pub enum Whose {
    /// Every one.
    All,
    /// Those that have not committed a fenced transaction.
    Keeper,
    /// Those that have.
    Works,
}

/// What happens on a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub enum Trouble {
    /// What is sent arrives later.
    Late {
        /// By so much.
        by: Duration,
        /// Sent by whom.
        way: Way,
    },
    /// What is sent arrives when this is over.
    Held {
        /// Sent by whom.
        way: Way,
    },
    /// What is sent never arrives, nor does anything that follows it on this connection, and nobody hears of that.
    Swallowed {
        /// Sent by whom.
        way: Way,
    },
    /// What is sent arrives later, on each connection by another time: what was sent last may arrive first.
    Shuffled {
        /// By no more than this.
        by: Duration,
    },
    /// The connections that are used end, and so do new ones.
    Cut,
    /// The server fails one of so many statements in passing.
    Failing {
        /// With which error.
        code: &'static str,
        /// Of how many.
        every: usize,
    },
}

/// One direction, or both.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize)]
pub enum Way {
    /// Requests.
    ToServer,
    /// Answers.
    FromServer,
    /// Requests and answers.
    Both,
}

/// Faults of one lane come one after the other; lanes know nothing of each other.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Lane {
    /// The process of a replica.
    Process(usize),
    /// Connections of a replica.
    Link(usize, Whose),
    /// The server itself.
    Server,
    /// Its connections.
    Backends,
    /// People.
    Operator,
    /// Other processes that write.
    Lock,
    /// PgBouncer.
    Pooler,
    /// The route of a replica.
    Route(usize),
}

impl Schedule {
    /// Draws faults for a database that fill `length`; all of them are over then. A pooler on the route adds its own, and
    /// leaves the others as they are.
    pub fn random(kind: Kind, route: Route, seed: u64, length: Duration) -> Self {
        let mut faults = drawing::draw(kind, seed, length);
        faults.extend(drawing::draw_of_route(route, seed, length));
        faults.sort_by_key(|timed| timed.at);
        Self { faults }
    }

    /// The faults of each lane.
    pub fn lanes(&self) -> Vec<(Lane, Vec<Timed>)> {
        let mut lanes: Vec<(Lane, Vec<Timed>)> = Vec::new();
        for timed in &self.faults {
            let lane = timed.fault.lane();
            match lanes.iter_mut().find(|(of, _)| *of == lane) {
                Some((_, faults)) => faults.push(timed.clone()),
                None => lanes.push((lane, vec![timed.clone()])),
            }
        }
        lanes
    }
}

impl Timed {
    /// What it is counted as, whichever connections it is about.
    pub fn class(&self) -> String {
        match self.fault {
            Fault::Link { trouble, .. } => format!("link {}", trouble.name()),
            _ => self.label(),
        }
    }

    /// What it is counted as.
    pub fn label(&self) -> String {
        let label = match &self.fault {
            Fault::Kill { .. } => "kill -9",
            Fault::Term { .. } => "SIGTERM",
            Fault::Freeze { .. } if self.length < TIMINGS.renew => "frozen shortly",
            Fault::Freeze { .. } if self.length < TIMINGS.lease => "frozen to the deadline",
            Fault::Freeze { .. } => "frozen past the lease",
            Fault::Link { whose, trouble, .. } => return link_label(*whose, *trouble),
            Fault::Restart { power_cut: true } => "server cut off",
            Fault::Restart { power_cut: false } => "server restarted",
            Fault::FreezeServer => "server frozen",
            Fault::ReadOnly => "server read-only",
            Fault::KillBackends { .. } => "backends killed",
            Fault::DeleteSessions { .. } => "sessions deleted",
            Fault::DeleteName { .. } => "name deleted",
            Fault::EmptyTables => "tables emptied",
            Fault::DropTables { recreate: false } => "tables dropped",
            Fault::DropTables { recreate: true } => "tables dropped and recreated",
            Fault::RestoreTables => "old dump restored",
            Fault::Lock => "file locked",
            Fault::LockRows { .. } => "rows locked",
            Fault::FailOver => "failover",
            Fault::KillPooler => "pooler killed",
            Fault::FreezePooler => "pooler frozen",
            Fault::Reroute { .. } => "route changed",
        };
        label.to_owned()
    }
}

fn link_label(whose: Whose, trouble: Trouble) -> String {
    let way = match trouble {
        Trouble::Late { way: Way::ToServer, .. }
        | Trouble::Held { way: Way::ToServer }
        | Trouble::Swallowed { way: Way::ToServer } => " requests",
        Trouble::Late { way: Way::FromServer, .. }
        | Trouble::Held { way: Way::FromServer }
        | Trouble::Swallowed { way: Way::FromServer } => " answers",
        _ => "",
    };
    let whose = match whose {
        Whose::All => "",
        Whose::Keeper => " of the keeper",
        Whose::Works => " of works",
    };
    format!("link {}{way}{whose}", trouble.name())
}

impl Trouble {
    /// What messages that it met are counted as.
    pub fn name(self) -> &'static str {
        match self {
            Self::Late { .. } => "late",
            Self::Held { .. } => "held",
            Self::Swallowed { .. } => "swallowed",
            Self::Shuffled { .. } => "shuffled",
            Self::Cut => "cut",
            Self::Failing { code, .. } => code,
        }
    }
}

impl Fault {
    /// Which one it belongs to.
    pub fn lane(&self) -> Lane {
        match *self {
            Self::Kill { replica, .. } | Self::Term { replica, .. } | Self::Freeze { replica } => {
                Lane::Process(replica)
            }
            Self::Link { replica, whose, .. } => Lane::Link(replica, whose),
            Self::Restart { .. } | Self::FreezeServer | Self::ReadOnly | Self::FailOver => Lane::Server,
            Self::KillBackends { .. } => Lane::Backends,
            Self::DeleteSessions { .. }
            | Self::DeleteName { .. }
            | Self::EmptyTables
            | Self::DropTables { .. }
            | Self::RestoreTables => Lane::Operator,
            Self::Lock | Self::LockRows { .. } => Lane::Lock,
            Self::KillPooler | Self::FreezePooler => Lane::Pooler,
            Self::Reroute { replica } => Lane::Route(replica),
        }
    }
}

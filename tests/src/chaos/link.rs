//! The way of one replica to its server, with separate troubles for its keeper's connections and those of its works.

use std::collections::{BTreeMap, HashSet};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use fastrand::Rng;

use super::schedule::{Trouble, Way, Whose};
use crate::harness::proxy::Message;
use crate::harness::{Fate, Proxy, Statement, TestDatabase, To, locked};

/// A proxy that is told of troubles.
#[derive(Debug)]
pub(super) struct Link {
    proxy: Proxy,
    troubles: Mutex<Troubles>,
    known: Arc<Mutex<Known>>,
}

#[derive(Clone, Copy, Debug, Default)]
struct Troubles {
    keeper: Option<Trouble>,
    works: Option<Trouble>,
}

impl Link {
    pub(super) async fn to(database: &TestDatabase) -> Self {
        let link =
            Self { proxy: Proxy::to(database).await, troubles: Mutex::default(), known: Arc::default() };
        link.set(Whose::All, None);
        link
    }

    /// The URL of the database by this way.
    pub(super) fn url(&self) -> &str {
        self.proxy.url()
    }

    /// Connections that are dialled from now on lead there.
    pub(super) fn switch_to(&self, database: &TestDatabase) {
        self.proxy.switch_to(database);
    }

    /// Whatever is still sent on a connection that was dialled before now ends it.
    pub(super) fn cut_old(&self) {
        locked(&self.known).old = self.proxy.connections();
    }

    /// How many messages met each trouble so far.
    pub(super) fn met(&self) -> BTreeMap<String, usize> {
        let mut met = BTreeMap::new();
        for ((_, trouble), messages) in &locked(&self.known).met {
            *met.entry((*trouble).to_owned()).or_default() += messages;
        }
        met
    }

    /// How many of them on these connections.
    pub(super) fn met_of(&self, whose: Whose, trouble: Trouble) -> usize {
        let known = locked(&self.known);
        let of = |whose| known.met.get(&(whose, trouble.name())).copied().unwrap_or(0);
        match whose {
            Whose::All => of(Whose::Keeper) + of(Whose::Works),
            one => of(one),
        }
    }

    /// From now on this happens, or nothing.
    pub(super) fn set(&self, whose: Whose, trouble: Option<Trouble>) {
        let mut troubles = locked(&self.troubles);
        if whose != Whose::Works {
            troubles.keeper = trouble;
        }
        if whose != Whose::Keeper {
            troubles.works = trouble;
        }
        let (troubles, known) = (*troubles, Arc::clone(&self.known));
        self.proxy.rule(move |message| locked(&known).judge(message, troubles));
    }
}

/// What is known of connections.
#[derive(Debug, Default)]
struct Known {
    /// Connections up to this one are cut.
    old: usize,
    /// Those that have committed a fenced transaction. Keepers never do.
    of_works: HashSet<usize>,
    /// Where something was lost: what follows it does not arrive either.
    lost: HashSet<(usize, Way)>,
    /// Statements that failed already, by connection.
    failed: HashSet<(usize, Statement)>,
    /// How many messages met each trouble, those of keepers and of works.
    met: BTreeMap<(Whose, &'static str), usize>,
}

impl Known {
    fn judge(&mut self, message: &Message, troubles: Troubles) -> Fate {
        let Message { connection, statement, .. } = *message;
        if statement == Statement::Commit {
            self.of_works.insert(connection);
        }
        let way = if message.to == To::Server { Way::ToServer } else { Way::FromServer };
        let (whose, trouble) = if self.of_works.contains(&connection) {
            (Whose::Works, troubles.works)
        } else {
            (Whose::Keeper, troubles.keeper)
        };
        let concerned = |of| of == Way::Both || of == way;
        let fate = match trouble {
            _ if connection <= self.old => return Fate::Cut,
            _ if self.lost.contains(&(connection, way)) => return lose(message),
            Some(Trouble::Swallowed { way: of }) if concerned(of) => {
                self.lost.insert((connection, way));
                lose(message)
            }
            Some(Trouble::Late { by, way: of }) if concerned(of) => Fate::Delay(by),
            Some(Trouble::Held { way: of }) if concerned(of) => Fate::Hold,
            Some(Trouble::Shuffled { by }) => Fate::Delay(shuffled(connection, by)),
            Some(Trouble::Cut) => Fate::Cut,
            Some(Trouble::Failing { code, every }) if self.fails(message, every) => Fate::Fail(code),
            _ => return Fate::Pass,
        };
        if let Some(trouble) = trouble.filter(|_| !message.is_end) {
            *self.met.entry((whose, trouble.name())).or_default() += 1;
        }
        fate
    }

    /// By chance, as it were, and the first of each kind on a keeper's connection always: who dials again has no better
    /// luck than who tries again.
    fn fails(&mut self, message: &Message, every: usize) -> bool {
        let Message { connection, statement, number, .. } = *message;
        if !message.is_plain {
            return false;
        }
        let of_keeper = matches!(statement, Statement::Renew | Statement::Claim | Statement::Release);
        let first = of_keeper && self.failed.insert((connection, statement));
        first || Rng::with_seed((connection << 32 | number) as u64).usize(..every) == 0
    }
}

/// Of five connections that follow each other none has the delay of another, nor their order.
fn shuffled(connection: usize, by: Duration) -> Duration {
    let place = connection * 2 % 5;
    by / 4 * u32::try_from(place).expect("less than five")
}

fn lose(message: &Message) -> Fate {
    /// How long the other side is kept from hearing that a connection has ended. A server has only so many.
    const HALF_OPEN: Duration = Duration::from_secs(15);

    if message.is_end { Fate::Delay(HALF_OPEN) } else { Fate::Swallow }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn request(connection: usize, statement: Statement, is_plain: bool) -> Message {
        Message { connection, to: To::Server, statement, number: 1, is_end: false, is_plain }
    }

    #[test]
    fn only_what_meets_a_trouble_counts() {
        let failing = Some(Trouble::Failing { code: "40001", every: 1 });
        let troubles = Troubles { keeper: failing, works: Some(Trouble::Cut) };
        let mut known = Known::default();
        assert_eq!(known.judge(&request(1, Statement::Renew, false), troubles), Fate::Pass);
        assert!(known.met.is_empty(), "nothing can stand for it");
        assert_eq!(known.judge(&request(1, Statement::Renew, true), troubles), Fate::Fail("40001"));
        assert_eq!(known.judge(&request(2, Statement::Commit, true), troubles), Fate::Cut);
        let end = Message { is_end: true, ..request(2, Statement::Other, false) };
        assert_eq!(known.judge(&end, troubles), Fate::Cut);
        assert_eq!(known.met, [((Whose::Keeper, "40001"), 1), ((Whose::Works, "cut"), 1)].into());
    }
}

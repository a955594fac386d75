//! Tenures from their election to the release of their name, in electors inside the test.
//!
//! What needs no SQL also runs on the database in memory, under a clock that stands still until nothing is left to do.

mod again;
mod asking;
mod blocked;
mod outcomes;
mod overrun;
mod refused;
mod runtime;
mod stopping;
mod tasks;

use leader::Builder;
use leader::test_util::{Clock, Memory};
use leader_tests::harness::local::{Events, Led, elector};
use leader_tests::harness::{Kind, TestDatabase};

/// The same scenarios, each a test of its own for each database named.
macro_rules! scenarios {
    (real: $($scenario:ident),+ $(,)?) => {
        $( mod $scenario { crate::scenarios!(@ $scenario postgres Postgres mysql MySql sqlite Sqlite); } )+
    };
    (every world: $($scenario:ident),+ $(,)?) => {
        $(
            mod $scenario {
                crate::scenarios!(@ $scenario postgres Postgres mysql MySql sqlite Sqlite);

                #[tokio::test(start_paused = true)]
                async fn memory() {
                    super::$scenario(crate::World::in_memory()).await;
                }
            }
        )+
    };
    (@ $scenario:ident $($test:ident $kind:ident)+) => {
        $(
            #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
            async fn $test() {
                super::$scenario(crate::World::on(leader_tests::harness::Kind::$kind).await).await;
            }
        )+
    };
}
pub(crate) use scenarios;

/// The name that everybody campaigns for.
const NAME: &str = "mail";

/// Where electors of a test meet.
enum World {
    Real(TestDatabase),
    Memory(Memory),
}

impl World {
    async fn on(kind: Kind) -> Self {
        Self::Real(TestDatabase::create(kind).await)
    }

    fn in_memory() -> Self {
        Self::Memory(Memory::new(Clock::tokio()))
    }

    fn real(&self) -> &TestDatabase {
        match self {
            Self::Real(database) => database,
            Self::Memory(_) => panic!("not in memory"),
        }
    }

    fn elector(&self, instance: &str, events: &Events) -> Builder {
        match self {
            Self::Real(database) => elector(&database.url, instance, events),
            Self::Memory(memory) => elector(memory, instance, events),
        }
    }

    async fn lead(&self) -> Led {
        self.lead_with(|builder| builder).await
    }

    async fn lead_with(&self, with: impl FnOnce(Builder) -> Builder) -> Led {
        Led::by(|events, puppet| with(self.elector("first", events)).work(NAME, puppet.work())).await
    }

    /// Deletes every session by hand.
    async fn rob(&self) {
        match self {
            Self::Real(database) => assert!(database.delete_all_sessions().await > 0),
            Self::Memory(memory) => memory.delete_sessions(),
        }
    }
}

//! The conformance suite on every database, and on the one in memory under paused time.

use std::time::Duration;

use leader::test_util::{AnyStore, Clock, Memory, store};
use leader_tests::conformance::{self, Bench, INSTANCE};
use leader_tests::harness::{Kind, TestDatabase};

struct Real(TestDatabase);

impl Bench for Real {
    fn store(&self, namespace: &str, lease: Duration) -> AnyStore {
        store(&self.0.url, namespace, INSTANCE, lease).expect("a good URL")
    }
}

struct Simulated(Memory);

impl Bench for Simulated {
    fn store(&self, namespace: &str, lease: Duration) -> AnyStore {
        store(&self.0, namespace, INSTANCE, lease).expect("a database")
    }
}

macro_rules! on {
    ($module:ident, $kind:ident) => {
        mod $module {
            use super::*;

            macro_rules! case {
                ($name:ident) => {
                    #[tokio::test]
                    async fn $name() {
                        conformance::$name(&Real(TestDatabase::create(Kind::$kind).await)).await;
                    }
                };
            }
            leader_tests::conformance_cases!(case);
        }
    };
}

on!(postgres, Postgres);
on!(mysql, MySql);
on!(sqlite, Sqlite);

mod memory {
    use super::*;

    macro_rules! case {
        ($name:ident) => {
            #[tokio::test(start_paused = true)]
            async fn $name() {
                conformance::$name(&Simulated(Memory::new(Clock::tokio()))).await;
            }
        };
    }
    leader_tests::conformance_cases!(case);
}

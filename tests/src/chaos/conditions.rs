//! What a run takes place under, whatever breaks.

use std::fmt;

use clap::ValueEnum;
use fastrand::Rng;
use serde::Serialize;

use super::schedule::REPLICAS;
use crate::harness::{Isolation, Kind};

/// What a run takes place under, whatever breaks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Conditions {
    /// The level of transactions that ask for none. SQLite has no such default.
    pub isolation: Option<Isolation>,
    /// How replicas come to the database.
    pub route: Route,
}

/// How replicas come to the database.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, ValueEnum)]
pub enum Route {
    /// By connections of their own.
    Direct,
    /// By PgBouncer in transaction mode.
    Pooled,
    /// Some directly and some by PgBouncer, and each the other way now and then.
    Changing,
}

/// Conditions that were asked for. The others are drawn.
#[derive(Clone, Copy, Debug, Default)]
pub struct Asked {
    /// On servers.
    pub isolation: Option<Isolation>,
    /// On PostgreSQL.
    pub route: Option<Route>,
}

impl Conditions {
    /// The same seed, the same conditions, and none of the faults depends on the dice of these.
    pub fn random(kind: Kind, seed: u64, asked: Asked) -> Self {
        let mut dice = Rng::with_seed(!seed ^ (kind as u64) << 32);
        let isolation = Isolation::ALL[dice.usize(..Isolation::ALL.len())];
        let route = Route::value_variants()[dice.usize(..Route::value_variants().len())];
        Self {
            isolation: (kind != Kind::Sqlite).then(|| asked.isolation.unwrap_or(isolation)),
            route: if kind == Kind::Postgres { asked.route.unwrap_or(route) } else { Route::Direct },
        }
    }
}

impl Route {
    /// Whether there is a pooler in it.
    pub fn is_pooled(self) -> bool {
        self != Self::Direct
    }

    /// Which replicas come by the pooler at first.
    pub(super) fn first(self) -> [bool; REPLICAS] {
        match self {
            Self::Direct => [false; REPLICAS],
            Self::Pooled => [true; REPLICAS],
            Self::Changing => std::array::from_fn(|replica| replica % 2 == 1),
        }
    }
}

impl fmt::Display for Conditions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.isolation {
            Some(isolation) => write!(f, "{isolation} by default")?,
            None => f.write_str("no isolation level to choose")?,
        }
        f.write_str(match self.route {
            Route::Direct => "",
            Route::Pooled => ", by PgBouncer",
            Route::Changing => ", directly or by PgBouncer in turns",
        })
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn a_seed_makes_one_set_of_conditions_and_all_come() {
        let drawn = |kind| -> BTreeSet<String> {
            let draw = |seed| {
                let conditions = Conditions::random(kind, seed, Asked::default());
                assert_eq!(conditions, Conditions::random(kind, seed, Asked::default()));
                conditions.to_string()
            };
            (0..200).map(draw).collect()
        };
        assert_eq!(drawn(Kind::Postgres).len(), 4 * 3);
        assert_eq!(drawn(Kind::MySql).len(), 4);
        assert_eq!(drawn(Kind::Sqlite).len(), 1);
    }

    #[test]
    fn what_is_asked_for_changes_nothing_else() {
        let isolation = Some(Isolation::Serializable);
        for seed in 0..20 {
            let drawn = Conditions::random(Kind::Postgres, seed, Asked::default());
            let asked = Conditions::random(Kind::Postgres, seed, Asked { isolation, route: None });
            assert_eq!(asked, Conditions { isolation, ..drawn });
            let asked = Asked { isolation: None, route: Some(Route::Pooled) };
            let asked = Conditions::random(Kind::Postgres, seed, asked);
            assert_eq!(asked, Conditions { route: Route::Pooled, ..drawn });
        }
    }
}

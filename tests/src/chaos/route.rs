//! The route of each replica to the database, and whether whoever takes it finds the conditions of the run.

use std::sync::atomic::{AtomicBool, Ordering};

use super::conditions::Conditions;
use super::faults::Place;
use super::link::Link;
use super::schedule::REPLICAS;
use crate::harness::{Isolation, Kind, PATIENCE, PgBouncer, eventually};

/// Those of all replicas. There are none where there is no server.
pub(super) struct Routes {
    routes: Vec<ReplicaRoute>,
    pooler: Option<PgBouncer>,
}

struct ReplicaRoute {
    link: Link,
    is_pooled: AtomicBool,
}

impl Routes {
    /// Makes the conditions, and the routes.
    pub(super) async fn lay(conditions: Conditions, place: &Place) -> Self {
        let database = &place.database;
        if database.kind == Kind::Sqlite {
            return Self { routes: Vec::new(), pooler: None };
        }
        if let Some(level) = conditions.isolation {
            place.server().set_default_isolation(database.name(), level).await;
        }
        let mut pooler = None;
        if conditions.route.is_pooled() {
            pooler = Some(PgBouncer::before(place.server()).await);
        }
        let mut routes = Vec::with_capacity(REPLICAS);
        for is_pooled in conditions.route.first() {
            routes.push(ReplicaRoute { link: Link::to(database).await, is_pooled: is_pooled.into() });
        }
        let routes = Self { routes, pooler };
        routes.point(place);
        routes
    }

    pub(super) fn link(&self, replica: usize) -> &Link {
        &self.routes[replica].link
    }

    pub(super) fn links(&self) -> impl Iterator<Item = &Link> {
        self.routes.iter().map(|route| &route.link)
    }

    pub(super) fn pooler(&self) -> &PgBouncer {
        self.pooler.as_ref().expect("no fault of a pooler where there is none")
    }

    /// What a replica is given.
    pub(super) fn url(&self, replica: usize, place: &Place) -> String {
        self.routes
            .get(replica)
            .map_or_else(|| place.database.url.clone(), |route| route.link.url().to_owned())
    }

    /// All of them lead to the new place of the database.
    pub(super) fn fail_over(&self, place: &Place) {
        if let Some(pooler) = &self.pooler {
            pooler.redirect(place.server());
        }
        self.point(place);
    }

    /// That of a replica leads by the pooler if it did not, and the other way round.
    pub(super) fn change(&self, replica: usize, place: &Place) {
        let ReplicaRoute { link, is_pooled } = &self.routes[replica];
        is_pooled.fetch_xor(true, Ordering::Relaxed);
        self.point(place);
        link.cut_old();
    }

    /// What of the conditions somebody who dials now does not find. He must be alone.
    pub(super) async fn unmet(&self, conditions: Conditions, place: &Place) -> Vec<String> {
        let kind = place.database.kind;
        let mut unmet = Vec::new();
        for (replica, ReplicaRoute { link, is_pooled }) in self.routes.iter().enumerate() {
            if let Some(level) = conditions.isolation {
                let shown = async || Isolation::shown(kind, link.url()).await.ok();
                let shown = eventually("an isolation level", PATIENCE, shown).await;
                if shown != level.to_string() {
                    unmet.push(format!("{level}, but {shown}, on the route of replica {replica}"));
                }
            }
            if kind == Kind::Postgres {
                let found = async || PgBouncer::is_at(link.url()).await.ok();
                let found = eventually("two connections", PATIENCE, found).await;
                if found != is_pooled.load(Ordering::Relaxed) {
                    let what = if found { "a direct route" } else { "PgBouncer on the route" };
                    unmet.push(format!("{what} of replica {replica}"));
                }
            }
        }
        unmet
    }

    /// How many transactions the pooler has carried since its last start.
    pub(super) async fn pooled(&self, place: &Place) -> u64 {
        let Some(pooler) = &self.pooler else { return 0 };
        let counted = async || pooler.transactions(&place.database).await.ok();
        eventually("the figures of PgBouncer", PATIENCE, counted).await
    }

    fn point(&self, place: &Place) {
        for ReplicaRoute { link, is_pooled } in &self.routes {
            match &self.pooler {
                Some(pooler) if is_pooled.load(Ordering::Relaxed) => {
                    link.switch_to(&place.database.by_pooler(place.server(), pooler));
                }
                _ => link.switch_to(&place.database),
            }
        }
    }
}

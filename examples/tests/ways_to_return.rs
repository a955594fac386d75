//! Each way out of a work, by the log of the replicas that took it.

use leader_tests::harness::{Deployment, Kind, Launch, PATIENCE, Replica, TestDatabase, eventually};

#[tokio::test]
async fn postgres() {
    each_is_logged_as_the_design_says(Kind::Postgres).await;
}

#[tokio::test]
async fn sqlite() {
    each_is_logged_as_the_design_says(Kind::Sqlite).await;
}

/// Works that stay until their tenure ends, and how that is logged.
const UNTIL_THE_END: [(&str, [&str; 2]); 5] = [
    ("retried", ["INFO", "stepped down reason"]),
    ("ended", ["INFO", "stepped down reason"]),
    ("wrapped", ["INFO", "stepped down reason"]),
    ("joined", ["ERROR", "stepped down with an error reason"]),
    ("dropped", ["INFO", "stepped down reason"]),
];

async fn each_is_logged_as_the_design_says(kind: Kind) {
    let database = TestDatabase::create(kind).await;
    let launch = Launch::bare(env!("CARGO_BIN_EXE_ways_to_return"))
        .flag("--database-url", &database.url)
        .flag("--lease", "2");
    let replicas = Deployment::start(&database, launch, "ended", 3).await;
    let mut ways = Ways { replicas };

    ways.while_it_leads().await;
    ways.when_it_is_killed().await;
    ways.when_it_is_frozen().await;
    ways.when_it_is_stopped().await;
}

struct Ways<'d> {
    replicas: Deployment<'d>,
}

impl Ways<'_> {
    async fn while_it_leads(&self) {
        let done = self.line("done", &["stepped down"]).await;
        assert_logged(&done, &["INFO", "stepped down reason=\"work returned\""]);

        let failed = self.line("failed", &["stepped down"]).await;
        let error = "error=\"cannot fetch the rates: the line is busy\"";
        assert_logged(&failed, &["ERROR", "stepped down with an error reason=\"work returned\"", error]);

        let panicked = self.line("panicked", &["stepped down"]).await;
        let place = "error=panicked at examples/4_ways_to_return.rs:";
        assert_logged(&panicked, &["ERROR", "stepped down after a panic reason=\"work returned\"", place]);

        let retried = self.line("retried", &["trying again"]).await;
        assert_logged(&retried, &["WARN", "the call failed", "the line is busy"]);
        self.line("retried", &["the call came through", "attempt=4"]).await;

        for name in ["done", "failed", "panicked"] {
            self.had_turns(name).await;
        }
    }

    /// Nobody is left to log anything, and the name moves all the same.
    async fn when_it_is_killed(&mut self) {
        let leader = self.replicas.leader().await;
        self.replicas.kill(leader.pid).await;
        for (name, _) in UNTIL_THE_END {
            self.replicas.leader_of(name).await;
        }
    }

    /// Whoever wakes up after its lease has run out.
    async fn when_it_is_frozen(&mut self) {
        let frozen: Vec<_> = self.replicas.replicas().iter().map(Replica::pid).collect();
        for pid in &frozen {
            self.replicas.freeze(*pid).await;
        }
        self.replicas.add().await;
        let successor = self.replicas.replicas().last().expect("there are four").pid();
        for (name, _) in UNTIL_THE_END {
            let succeeds = async || (self.replicas.leader_of(name).await.pid == successor).then_some(());
            eventually("the successor of all", PATIENCE, succeeds).await;
        }
        for pid in &frozen {
            self.replicas.replica(*pid).wake();
        }
        for (name, as_expected) in UNTIL_THE_END {
            assert_logged(&self.line(name, &["stepped down", "\"lease lost\""]).await, &as_expected);
        }
        // One that was frozen in the middle of a panic may end before it has written down the backtrace.
        for pid in frozen {
            self.replicas.kill(pid).await;
        }
    }

    async fn when_it_is_stopped(&mut self) {
        self.replicas.replicas().iter().for_each(Replica::term);
        for (name, as_expected) in UNTIL_THE_END {
            assert_logged(&self.line(name, &["stepped down", "\"shutting down\""]).await, &as_expected);
        }
        for replica in self.replicas.replicas() {
            assert_eq!(replica.wait_exit().await, Some(0), "{replica}");
        }
    }

    /// Waits until two replicas have been elected to it, one after the other.
    async fn had_turns(&self, name: &str) {
        let elected = format!("elected name={name} ");
        let turns = async || {
            let replicas = self.replicas.replicas().iter();
            (replicas.filter(|replica| replica.log().contains(&elected)).count() > 1).then_some(())
        };
        eventually(&format!("another leader of `{name}`"), PATIENCE, turns).await;
    }

    /// The first line of any replica about a tenure of this work that holds these texts.
    async fn line(&self, name: &str, texts: &[&str]) -> String {
        let tenure = format!("tenure{{name=\"{name}\"");
        let fits = |line: &&str| line.contains(&tenure) && texts.iter().all(|text| line.contains(text));
        let found = async || {
            let logs = self.replicas.replicas().iter().map(Replica::log);
            logs.into_iter().find_map(|log| log.lines().find(fits).map(ToOwned::to_owned))
        };
        eventually(&format!("{texts:?} of `{name}`"), PATIENCE, found).await
    }
}

#[track_caller]
fn assert_logged(line: &str, texts: &[&str]) {
    for text in texts {
        assert!(line.contains(text), "no `{text}` in `{line}`");
    }
}

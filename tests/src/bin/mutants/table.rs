//! What keeps the promise, one thing a mutant, and the test that must turn red without it.

/// A change that breaks a guard.
pub(crate) struct Mutant {
    pub(crate) name: &'static str,
    /// From the top of the workspace.
    pub(crate) file: &'static str,
    /// Stands there once.
    pub(crate) guard: &'static str,
    pub(crate) without: &'static str,
    /// Arguments of `cargo test`: what must fail.
    pub(crate) test: &'static [&'static str],
}

const PROTOCOL: &str = "leader/src/protocol/campaign.rs";
const ANSWERS: &str = "leader/src/protocol/campaign/answers.rs";

macro_rules! unit {
    ($filter:literal) => {
        &["-p", "leader", "--all-features", "--lib", $filter]
    };
}
macro_rules! real {
    ($suite:literal, $filter:literal) => {
        &["-p", "leader-tests", "--test", $suite, $filter]
    };
}

pub(crate) const MUTANTS: &[Mutant] = &[
    Mutant {
        name: "no-share-lock-postgres",
        file: "leader/src/transaction/postgres.rs",
        guard: "n.session_id = '{session}' FOR SHARE",
        without: "n.session_id = '{session}'",
        test: real!("transactions", "held::nobody_is_elected_while_it_is_open::postgres"),
    },
    Mutant {
        name: "no-share-lock-mysql",
        file: "leader/src/transaction/mysql.rs",
        guard: "LOCK IN SHARE MODE /*trace_id",
        without: "/*trace_id",
        test: real!("transactions", "held::nobody_is_elected_while_it_is_open::mysql"),
    },
    Mutant {
        name: "no-write-lock-sqlite",
        file: "leader/src/transaction/sqlite.rs",
        guard: "BEGIN IMMEDIATE; SELECT json",
        without: "BEGIN DEFERRED; SELECT json",
        test: real!("transactions", "basics::"),
    },
    Mutant {
        name: "fence-without-term-postgres",
        file: "leader/src/transaction/postgres.rs",
        guard: "AND n.term = {term} \\",
        without: "AND {term} = {term} \\",
        test: real!("transactions", "stale::a_stale_term_is_refused::postgres"),
    },
    Mutant {
        name: "fence-without-session-postgres",
        file: "leader/src/transaction/postgres.rs",
        guard: "AND n.session_id = '{session}' FOR SHARE",
        without: "AND '{session}' <> '' FOR SHARE",
        test: real!("transactions", "stale::a_stale_session_is_refused::postgres"),
    },
    Mutant {
        name: "fence-without-term-mysql",
        file: "leader/src/transaction/mysql.rs",
        guard: "AND session_id = '{}' AND term = {} \\",
        without: "AND session_id = '{}' AND {} > 0 \\",
        test: real!("transactions", "stale::a_stale_term_is_refused::mysql"),
    },
    Mutant {
        name: "fence-without-term-sqlite",
        file: "leader/src/transaction/sqlite.rs",
        guard: "AND session_id = '{}' AND term = {}\",",
        without: "AND session_id = '{}' AND {} > 0\",",
        test: real!("transactions", "stale::a_stale_term_is_refused::sqlite"),
    },
    Mutant {
        name: "claim-of-what-is-not-gone-postgres",
        file: "leader/src/store/postgres.rs",
        guard: "AND {these} AND {free} \\",
        without: "AND {these} AND ({free} OR true) \\",
        test: real!("conformance", "postgres::a_name_moves_only_from_the_session_that_is_gone"),
    },
    Mutant {
        name: "commit-of-any-transaction-postgres",
        file: "leader/src/transaction/postgres.rs",
        guard: "SELECT current_setting('leader.transaction')::int; COMMIT; BEGIN",
        without: "SELECT 1; COMMIT; BEGIN",
        test: real!("transactions", "rolled_back::a_rollback_of_the_works_own::postgres"),
    },
    Mutant {
        name: "commit-of-any-transaction-sqlite",
        file: "leader/src/transaction/sqlite.rs",
        guard: "\"RELEASE SAVEPOINT leader_fence; COMMIT; BEGIN\"",
        without: "\"COMMIT; BEGIN\"",
        test: real!("transactions", "rolled_back::a_rollback_of_the_works_own::sqlite"),
    },
    Mutant {
        name: "savepoints-are-judged-too-soon-sqlite",
        file: "leader/src/transaction/sqlite.rs",
        guard: "const DEPTH_LAGS: bool = true;",
        without: "const DEPTH_LAGS: bool = false;",
        test: real!("transactions", "basics::a_savepoint_that_is_dropped_is_rolled_back::sqlite"),
    },
    Mutant {
        name: "full-queues-keep-names-postgres",
        file: "leader/src/store/postgres.rs",
        guard: "Err(error) if error.source.downcast_ref().is_some_and(takes_no_notification) => {",
        without: "Err(error) if error.source.downcast_ref().is_some_and(takes_no_notification) && false => {",
        test: real!("faults", "releases::a_server_that_takes_no_more_notifications::postgres"),
    },
    Mutant {
        name: "expiry-is-enough",
        file: ANSWERS,
        guard: "Some(Holder::Expired(id)) => Some(id),",
        without: "Some(Holder::Expired(id)) => {\n                    plan.gone.insert(id);\n                    Some(id)\n                }",
        test: unit!("an_expired_session_is_reaped_before_its_names_are_claimed"),
    },
    Mutant {
        name: "reap-without-expiry-postgres",
        file: "leader/src/store/postgres.rs",
        guard: "AND expires_at_ms <= {NOW} FOR UPDATE SKIP LOCKED",
        without: "AND {NOW} > 0 FOR UPDATE SKIP LOCKED",
        test: real!("conformance", "postgres"),
    },
    Mutant {
        name: "late-answers-are-used",
        file: ANSWERS,
        guard: "if now > attempt.give_up {",
        without: "if false {",
        test: unit!("an_answer_that_came_too_late_changes_nothing"),
    },
    Mutant {
        name: "answers-of-lost-sessions-are-used",
        file: ANSWERS,
        guard: "if of.is_some() && of != self.session.map(|session| session.id) {",
        without: "if false {",
        test: unit!("an_answer_of_a_lost_session_changes_nothing"),
    },
    Mutant {
        name: "trust-from-the-answer",
        file: ANSWERS,
        guard: "session.renewed(started);",
        without: "session.renewed(now);",
        test: unit!("trust_is_counted_from_the_start_of_the_renewal"),
    },
    Mutant {
        name: "digest-ignored",
        file: ANSWERS,
        guard: "if self.reconcile || *digest != self.expected(id) {",
        without: "if self.reconcile {",
        test: unit!("a_digest_that_differs_ends_what_is_not_held_and_nothing_else"),
    },
    Mutant {
        name: "unknown-claims-are-not-looked-for",
        file: ANSWERS,
        guard: "self.reconcile = true;\n            self.fall_back(now);\n            self.scan_due",
        without: "self.fall_back(now);\n            self.scan_due",
        test: unit!("a_claim_whose_answer_was_lost_is_released_and_never_adopted"),
    },
    Mutant {
        name: "lost-work-is-campaigned-for",
        file: PROTOCOL,
        guard: "*standing = Standing::Lost { session: held, term };",
        without: "*standing = Standing::Standby { from };",
        test: unit!("simulation"),
    },
    Mutant {
        name: "lost-sessions-are-not-closed",
        file: PROTOCOL,
        guard: "self.lost.push(session.id);",
        without: "",
        test: unit!("a_lost_session_is_closed_once_its_works_have_ended"),
    },
    Mutant {
        name: "fenced-names-wait-for-ever",
        file: PROTOCOL,
        guard: "        self.end_fenced(now)\n",
        without: "        self.end_fenced(now).filter(|_| false)\n",
        test: real!("transactions", "is_ended::postgres"),
    },
    Mutant {
        name: "no-early-exit",
        file: "leader/src/tenure.rs",
        guard: "self.good() + self.timings.lease - self.timings.margin",
        without: "self.good() + self.timings.lease + self.timings.lease",
        test: real!("tenures", "overrun::before_the_lease_expires"),
    },
    Mutant {
        name: "commit-without-check",
        file: "leader/src/transaction.rs",
        guard: "        self.tenure.check()?;\n        let tenure = self.tenure.clone();",
        without: "        let tenure = self.tenure.clone();",
        test: real!("transactions", "endings::refused_after_the_loss"),
    },
    Mutant {
        name: "no-shield",
        file: "leader/src/transaction.rs",
        guard: "drop(connection.detach());",
        without: "drop(connection);",
        test: real!("transactions", "cancelled::"),
    },
    Mutant {
        name: "begin-without-shield",
        file: "leader/src/transaction.rs",
        guard: "let begun = DB::begin(transaction.connection()?, &key).await;",
        without: "let mut bare = transaction.connection.take().expect(\"open\");\n        \
             let begun = DB::begin(&mut bare, &key).await;\n        transaction.connection = Some(bare);",
        test: real!("transactions", "cancelled::dropped_anywhere::postgres"),
    },
    Mutant {
        name: "check-without-clock",
        file: "leader/src/tenure.rs",
        guard: "if now < self.0.trust.deadline() {",
        without: "if now >= Moment::after_origin(Duration::ZERO) {",
        test: real!("simulated", "who_wakes_up_late"),
    },
    Mutant {
        name: "keeper-on-the-runtime-of-works",
        file: "leader/src/elector.rs",
        guard: ".spawn(move || runtime.block_on(keeper.keep(ready)))\n        .map(drop)",
        without: ".spawn(move || drop(runtime))\n        .map(drop)?;\n    tokio::spawn(keeper.keep(ready));\n    Ok(())",
        test: real!("tenures", "blocked::blocked_runtimes_cost_no_lease"),
    },
    Mutant {
        name: "lost-replicas-stay-away",
        file: PROTOCOL,
        guard: "*standing = Standing::Standby { from };\n                // Nothing is left",
        without: "*standing = Standing::Standby { from: from + Duration::from_hours(1) };\n                // Nothing is left",
        test: real!("tenures", "again::every_replica_that_is_robbed_wins_again::sqlite"),
    },
    Mutant {
        name: "index-on-the-expiry-postgres",
        file: "leader/src/store/postgres.sql",
        guard: ");\nCREATE TABLE IF NOT EXISTS leader_names",
        without: ");\nCREATE INDEX IF NOT EXISTS leader_expiry ON leader_sessions (expires_at_ms);\n\
             CREATE TABLE IF NOT EXISTS leader_names",
        test: real!("cost", "ten_thousand_renewals_leave_nothing_behind_on_postgres"),
    },
    Mutant {
        name: "no-gate",
        file: "leader/src/transaction/sqlite.rs",
        guard: "Turnstile::beside(pool.connect_options().get_filename()).pass().await;",
        without: "",
        test: real!("transactions", "held::renewals_pass_between_transactions_back_to_back"),
    },
    Mutant {
        name: "turnstile-never-closed",
        file: "leader/src/store/sqlite.rs",
        guard: "held = self.turnstile.close();",
        without: "held = self.turnstile.close().filter(|_| false);",
        test: real!("processes", "one_file::transactions_back_to_back_starve_no_other_process"),
    },
    Mutant {
        name: "names-are-released-under-their-tasks",
        file: "leader/src/tenure.rs",
        guard: "self.0.tasks.gone().await;",
        without: "",
        test: real!("tenures", "tasks::a_task_counts_as_the_work_until_it_is_gone"),
    },
    Mutant {
        name: "every-freeze-leaves-the-margin",
        file: "leader/src/watchdog.rs",
        guard: "if frozen < entry.tenure.exit_at() && entry.tenure.0.trust.expiry() <= woken",
        without: "if entry.tenure.0.trust.expiry() <= woken",
        test: unit!("a_second_freeze_leaves_nothing"),
    },
    Mutant {
        name: "freezes-before-the-expiry-leave-the-margin",
        file: "leader/src/watchdog.rs",
        guard: "if frozen < entry.tenure.exit_at() && entry.tenure.0.trust.expiry() <= woken",
        without: "if frozen < entry.tenure.exit_at() && entry.tenure.exit_at() <= woken",
        test: unit!("a_freeze_that_ends_before_the_lease_can_expire_moves_nothing"),
    },
    Mutant {
        name: "tasks-count-until-their-destructors",
        file: "leader/src/tasks.rs",
        guard: "        #[pin]\n        future: F,\n        _counted: watch::Receiver<()>,\n",
        without: "        _counted: watch::Receiver<()>,\n        #[pin]\n        future: F,\n",
        test: unit!("what_is_being_dropped_still_counts"),
    },
    Mutant {
        name: "refused-commits-are-run-again-postgres",
        file: "leader/src/transaction/postgres.rs",
        guard: "(0, Some(error))",
        without: "(_, Some(error))",
        test: real!("faults", "commits::the_commit_is_refused_by_a_trigger::postgres"),
    },
    Mutant {
        name: "memory-by-its-name-sqlite",
        file: "leader/src/store/sqlite.rs",
        guard: "is_none_or(|file| file.is_empty())",
        without: "is_none_or(|_| in_memory(self.options.get_filename()))",
        test: real!("start", "a_database_in_memory_is_refused"),
    },
    Mutant {
        name: "orphans-are-kept",
        file: ANSWERS,
        guard: "self.orphans = holds.into_iter().collect();",
        without: "self.orphans.clear();",
        test: real!("faults", "claims::a_claim_whose_answer_was_lost::mysql"),
    },
    Mutant {
        name: "read-only-connections-are-kept",
        file: "leader/src/keeper.rs",
        guard: "                self.store.hang_up();\n                Err(Failure::Unknown)\n            }\n            None",
        without: "                Err(Failure::Unknown)\n            }\n            None",
        test: real!("faults", "servers::connections_that_are_read_only_are_left::postgres"),
    },
    Mutant {
        name: "clock-of-the-zone-mysql",
        file: "leader/src/store/mysql.rs",
        guard: "\"(TIMESTAMPDIFF(MICROSECOND, '1970-01-01', UTC_TIMESTAMP(6)) DIV 1000)\"",
        without: "\"CAST(UNIX_TIMESTAMP(NOW(6)) * 1000 AS SIGNED)\"",
        test: real!("faults", "clock::daylight_saving::mysql"),
    },
    Mutant {
        name: "terms-without-clock-sqlite",
        file: "leader/src/store/sqlite.rs",
        guard: "term = max(term + 1, \",",
        without: "term = max(term + 1, 0 * \",",
        test: real!("faults", "operator::tables_are_emptied::sqlite"),
    },
    Mutant {
        name: "deadlocks-are-failures-postgres",
        file: "leader/src/store/postgres.rs",
        guard: "Some(\"40001\" | \"40P01\" | \"55P03\")",
        without: "Some(\"40001\" | \"55P03\")",
        test: real!("faults", "errors::deadlocks::postgres"),
    },
    Mutant {
        name: "listeners-trust-silence",
        file: "leader/src/store/postgres/listener.rs",
        guard: "const QUIET: Duration = Duration::from_secs(30);",
        without: "const QUIET: Duration = Duration::from_hours(30);",
        test: real!("faults", "connections::a_listening_connection_that_died_is_noticed"),
    },
    Mutant {
        name: "listeners-fall-in-step",
        file: "leader/src/store/postgres/listener.rs",
        guard: "pause.mul_f64(0.25 + 1.5 * rng.f64())",
        without: "{\n            rng.f64();\n            pause\n        }",
        test: real!("faults", "at_once::fifty_replicas_do_not_fall_in_step::postgres"),
    },
];

//! What the programs do.

/// Starts on a database in memory and waits until every work has run, or says why it does not start. A macro, as each
/// version of `leader` has types of its own.
#[macro_export]
macro_rules! run {
    ($leader:ident, $builder:expr) => {
        async {
            let (stopped, mut stops) = tokio::sync::mpsc::unbounded_channel();
            let started = $builder
                .database($leader::test_util::Memory::new($leader::test_util::Clock::tokio()))
                .on_event(move |event| {
                    if event.kind == $leader::EventKind::SteppedDown {
                        let _ = stopped.send(());
                    }
                })
                .start()
                .await;
            match started {
                Ok(running) => {
                    for _ in running.status().works {
                        let stop = tokio::time::timeout(std::time::Duration::from_secs(60), stops.recv());
                        stop.await.expect("every work runs");
                    }
                    running.shutdown().await.expect("shut down");
                }
                Err(error) => println!("{error}"),
            }
        }
    };
}

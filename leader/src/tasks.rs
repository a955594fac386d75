//! The tasks of a tenure, counted.

use std::pin::Pin;
use std::task::{Context, Poll};

use pin_project_lite::pin_project;
use tokio::sync::watch;

/// Knows whether any of its tasks is still there, by the receivers that each holds one of.
pub(crate) struct Tasks(watch::Sender<()>);

impl Tasks {
    pub(crate) fn new() -> Self {
        Self(watch::Sender::new(()))
    }

    /// Counts a future from now on until it is dropped.
    pub(crate) fn count<F: Future>(&self, future: F) -> Counted<F> {
        Counted { future, _counted: self.0.subscribe() }
    }

    /// Waits until none is left.
    ///
    /// Cancel safe.
    pub(crate) async fn gone(&self) {
        self.0.closed().await;
    }
}

pin_project! {
    /// A future of [`Tasks`].
    pub(crate) struct Counted<F> {
        // Before the other field: it counts until it is dropped, its destructors included.
        #[pin]
        future: F,
        _counted: watch::Receiver<()>,
    }
}

impl<F: Future> Future for Counted<F> {
    type Output = F::Output;

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<F::Output> {
        self.project().future.poll(context)
    }
}

#[cfg(test)]
mod tests {
    use std::future::{pending, ready};
    use std::sync::mpsc;
    use std::time::Duration;

    use super::*;

    #[tokio::test]
    async fn it_waits_for_all_of_them() {
        let tasks = Tasks::new();
        tasks.gone().await;
        let done = tokio::spawn(tasks.count(ready(())));
        let hangs = tokio::spawn(tasks.count(pending::<()>()));
        let never_polled = tasks.count(ready(()));
        done.await.expect("it is done");
        let is_gone = async || tokio::time::timeout(Duration::from_millis(20), tasks.gone()).await.is_ok();
        assert!(!is_gone().await);
        hangs.abort();
        assert!(!is_gone().await);
        drop(never_polled);
        tasks.gone().await;
    }

    #[test]
    fn what_is_being_dropped_still_counts() {
        struct Slow(mpsc::Sender<()>, mpsc::Receiver<()>);

        impl Drop for Slow {
            fn drop(&mut self) {
                let _ = self.0.send(());
                let _ = self.1.recv();
            }
        }

        let tasks = Tasks::new();
        let (begun, begins) = mpsc::channel();
        let (go_on, goes_on) = mpsc::channel();
        let slow = Slow(begun, goes_on);
        let future = tasks.count(async move {
            let _slow = slow;
        });
        let dropping = std::thread::spawn(move || drop(future));
        begins.recv().expect("it begins");
        assert_eq!(tasks.0.receiver_count(), 1);
        go_on.send(()).expect("it waits");
        dropping.join().expect("it is dropped");
        assert_eq!(tasks.0.receiver_count(), 0);
    }
}

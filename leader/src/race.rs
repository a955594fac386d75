//! Which of two futures is done first.

use std::pin::Pin;
use std::task::{Context, Poll};

use pin_project_lite::pin_project;

/// What a [`race`] says.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum First<A, B> {
    One(A),
    Other(B),
}

/// Runs both until one is done. Where both are done at once, it is `one`: it is asked first each time.
///
/// `tokio::select!` does the same, and whoever depends on this crate would compile tokio's macros for it. No `async fn`: that
/// would hold both twice, as its arguments and while they run.
pub(crate) fn race<A: Future, B: Future>(one: A, other: B) -> Race<A, B> {
    Race { one, other }
}

pin_project! {
    /// The future of [`race`].
    pub(crate) struct Race<A, B> {
        #[pin]
        one: A,
        #[pin]
        other: B,
    }
}

impl<A: Future, B: Future> Future for Race<A, B> {
    type Output = First<A::Output, B::Output>;

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        let this = self.project();
        match this.one.poll(context) {
            Poll::Ready(output) => Poll::Ready(First::One(output)),
            Poll::Pending => this.other.poll(context).map(First::Other),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::future::{pending, ready};

    use super::*;

    #[tokio::test]
    async fn the_first_to_be_done_wins() {
        assert_eq!(race(ready(1), pending::<u8>()).await, First::One(1));
        assert_eq!(race(pending::<u8>(), ready(2)).await, First::Other(2));
        assert_eq!(race(ready(1), ready(2)).await, First::One(1));
    }

    #[test]
    fn it_is_no_larger_than_both() {
        let both = || (async { tokio::time::sleep(std::time::Duration::ZERO).await }, pending::<u64>());
        let (one, other) = both();
        assert_eq!(size_of_val(&race(one, other)), size_of_val(&both()));
    }

    #[tokio::test]
    async fn either_wakes_it() {
        for first in [true, false] {
            let (say, one) = tokio::sync::oneshot::channel();
            let (tell, other) = tokio::sync::oneshot::channel();
            let task = tokio::spawn(race(one, other));
            tokio::task::yield_now().await;
            if first {
                say.send(1).expect("it waits");
                assert_eq!(task.await.expect("it returns"), First::One(Ok(1)));
            } else {
                tell.send(2).expect("it waits");
                assert_eq!(task.await.expect("it returns"), First::Other(Ok(2)));
            }
        }
    }
}

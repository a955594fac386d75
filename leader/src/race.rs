//! Which of two futures is done first.

use std::future::poll_fn;
use std::pin::pin;
use std::task::Poll;

/// What [`race`] says.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum First<A, B> {
    One(A),
    Other(B),
}

/// Runs both until one is done and drops the other. Where both are done at once, it is `one`: it is asked first each time.
///
/// `tokio::select!` does the same, and whoever depends on this crate would compile tokio's macros for it.
pub(crate) async fn race<A: Future, B: Future>(one: A, other: B) -> First<A::Output, B::Output> {
    let (mut one, mut other) = (pin!(one), pin!(other));
    poll_fn(|context| match one.as_mut().poll(context) {
        Poll::Ready(output) => Poll::Ready(First::One(output)),
        Poll::Pending => other.as_mut().poll(context).map(First::Other),
    })
    .await
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

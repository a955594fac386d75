//! Panics of the application's code, as errors.

use std::any::Any;
use std::backtrace::Backtrace;
use std::cell::{Cell, RefCell};
use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::Pin;
use std::sync::Once;
use std::task::{Context, Poll};

/// A future whose panics come out as errors, those of its destructor included.
pub(crate) struct Guarded<F>(Option<Pin<Box<F>>>);

impl<F: Future> Guarded<F> {
    pub(crate) fn new(future: F) -> Self {
        Self(Some(Box::pin(future)))
    }

    /// Drops the future.
    pub(crate) fn discard(&mut self) -> Result<(), Panic> {
        let future = self.0.take();
        catch(|| drop(future))
    }
}

impl<F: Future> Future for Guarded<F> {
    type Output = Result<F::Output, Panic>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        let future = self.0.as_mut().expect("a future that has ended is not polled again");
        match catch(|| future.as_mut().poll(context)) {
            Ok(Poll::Pending) => Poll::Pending,
            Ok(Poll::Ready(output)) => Poll::Ready(self.discard().map(|()| output)),
            Err(panic) => {
                // The first panic is the one to tell of.
                let _ = self.discard();
                Poll::Ready(Err(panic))
            }
        }
    }
}

impl<F> Drop for Guarded<F> {
    fn drop(&mut self) {
        let future = self.0.take();
        if let Err(panic) = catch(|| drop(future)) {
            tracing::error!(%panic, "a future panicked while it was dropped");
        }
    }
}

/// A caught panic, with the place it came from.
pub(crate) struct Panic {
    pub(crate) payload: Box<dyn Any + Send>,
    pub(crate) site: Option<Site>,
}

pub(crate) struct Site {
    location: String,
    pub(crate) backtrace: Backtrace,
    message: Option<String>,
}

impl Panic {
    pub(crate) fn new(payload: Box<dyn Any + Send>) -> Self {
        // The last panic on this thread may be one that the work caught itself, before `resume_unwind`, which calls no
        // hook.
        let site = SITE.with_borrow_mut(Option::take);
        let site = site.filter(|site| site.message.as_deref() == message(&*payload));
        Self { payload, site }
    }
}

fn message(payload: &(dyn Any + Send)) -> Option<&str> {
    let literal = payload.downcast_ref::<&str>().copied();
    literal.or_else(|| payload.downcast_ref::<String>().map(String::as_str))
}

impl fmt::Display for Panic {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let message = message(&*self.payload).unwrap_or("a payload that is no text");
        match &self.site {
            Some(site) => write!(f, "panicked at {}: {message}", site.location),
            None => write!(f, "panicked: {message}"),
        }
    }
}

impl fmt::Debug for Panic {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

thread_local! {
    /// How many guarded calls are on this thread's stack.
    static GUARDED: Cell<usize> = const { Cell::new(0) };
    /// The place of the last panic in one of them.
    static SITE: RefCell<Option<Site>> = const { RefCell::new(None) };
}

pub(crate) fn catch<T>(call: impl FnOnce() -> T) -> Result<T, Panic> {
    GUARDED.set(GUARDED.get() + 1);
    let result = catch_unwind(AssertUnwindSafe(call));
    GUARDED.set(GUARDED.get() - 1);
    result.map_err(Panic::new)
}

/// Only the panic hook knows the place and the backtrace. The previous hook is always called.
pub(crate) fn install_hook() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        let previous = std::panic::take_hook();
        std::panic::set_hook(Box::new(move |info| {
            if GUARDED.get() > 0 {
                let site = Site {
                    location: info.location().map(ToString::to_string).unwrap_or_default(),
                    backtrace: Backtrace::force_capture(),
                    message: message(info.payload()).map(ToOwned::to_owned),
                };
                SITE.with_borrow_mut(|slot| *slot = Some(site));
            }
            previous(info);
        }));
    });
}

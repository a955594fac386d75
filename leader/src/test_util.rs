//! Tenures without a database, a database in memory, and the seam between protocol and databases. For tests.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::mpsc;

pub use crate::clock::{Clock, Moment};
pub use crate::protocol::Statement;
#[doc(hidden)]
pub use crate::protocol::{Digest, Hint, Hold, Holder, Scan, SessionId, Vacancy};
pub use crate::store::memory::{Delivery, Fence, Memory};
#[doc(hidden)]
pub use crate::store::{AnyStore, Companion, Store, StoreError};

use crate::database::Database;
use crate::error::Error;
use crate::event::Reporter;
use crate::name::{Namespace, WorkName};
use crate::protocol::Ending;
use crate::protocol::Term;
use crate::store::Scope;
use crate::tenure::{Founding, Tenure, Trust};
use crate::timings::Timings;
use crate::trace::Trace;

/// A tenure that no database knows of, to call a work as the ordinary function it is.
///
/// It lasts until [`TestTenure::end`]. A fenced transaction under it is refused with
/// [`TransactionError::Unknown`](crate::TransactionError::Unknown), as nobody elected it: to test a work that opens one,
/// start an elector on a test database and let it run the work.
///
/// ```
/// use leader::{Ending, Tenure, test_util};
///
/// #[leader::work("sweeper")]
/// async fn sweeper(tenure: Tenure) {
///     assert_eq!(tenure.ended().await, Ending::ShuttingDown);
/// }
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() {
/// let (tenure, test) = test_util::tenure("sweeper");
/// test.end(Ending::ShuttingDown);
/// sweeper(tenure).await;
/// # }
/// ```
///
/// # Panics
///
/// If the name is not a [`WorkName`].
pub fn tenure(name: &str) -> (Tenure, TestTenure) {
    let (keeper, _) = mpsc::unbounded_channel();
    let timings =
        Timings { lease: Duration::from_hours(10), deadline: Duration::from_hours(9), ..Timings::default() };
    let clock = Clock::machine();
    let trust = Trust::new(clock.now(), clock, timings);
    let name = WorkName::new(name).expect("the name of a test tenure follows the rules of names");
    let term = Term::new(1);
    let namespace = Namespace::new("test").expect("a namespace");
    let tenure = Tenure::new(Founding {
        trace_id: Trace::begin(&name, term).id,
        name,
        term,
        session: SessionId::new(1),
        namespace: namespace.clone(),
        trust: Arc::new(trust),
        keeper,
        reporter: Arc::new(Reporter::new("test".into(), namespace, None)),
    });
    let test = TestTenure { tenure: tenure.clone() };
    (tenure, test)
}

/// Ends a test tenure.
#[derive(Debug)]
pub struct TestTenure {
    tenure: Tenure,
}

impl TestTenure {
    /// Ends the tenure, as its elector would.
    pub fn end(&self, ending: Ending) {
        self.tenure.end(ending);
    }
}

/// The operations of the protocol on a database, as a keeper's.
///
/// # Errors
///
/// If the URL cannot be read.
pub fn store(
    database: impl Into<Database>,
    namespace: &str,
    instance: &str,
    lease: Duration,
) -> Result<AnyStore, Error> {
    let namespace = Namespace::new(namespace)
        .map_err(|why| Error::Config(format!("the namespace {namespace:?} cannot be used: {why}")))?;
    let target = database.into().resolve("the test needs")?;
    Ok(target.open(Scope {
        namespace: namespace.clone(),
        instance: instance.to_owned(),
        lease,
        attempt: Duration::from_secs(5),
        look: Timings::default().look,
    }))
}

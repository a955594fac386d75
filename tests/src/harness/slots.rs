//! How many tests may load the machine at once, so that their time bounds mean something.

use std::sync::LazyLock;
use std::thread::available_parallelism;

use tokio::sync::{Semaphore, SemaphorePermit};

/// A test's share of the machine, given back when dropped.
pub(crate) type Slot = SemaphorePermit<'static>;

/// A core for one test, as it were.
pub(crate) async fn one() -> Slot {
    take(1).await
}

/// The whole machine, for a test that would disturb others.
pub(crate) async fn all() -> Slot {
    take(*CORES).await
}

static CORES: LazyLock<u32> = LazyLock::new(|| {
    available_parallelism().ok().and_then(|cores| u32::try_from(cores.get()).ok()).unwrap_or(1)
});

static SLOTS: LazyLock<Semaphore> = LazyLock::new(|| Semaphore::new(*CORES as usize));

async fn take(slots: u32) -> Slot {
    SLOTS.acquire_many(slots).await.expect("never closed")
}

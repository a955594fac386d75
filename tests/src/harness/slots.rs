//! How many tests may load the machine at once, so that their time bounds mean something.

use std::sync::LazyLock;
use std::thread::available_parallelism;

use tokio::sync::{Semaphore, SemaphorePermit};

/// A test's share of the machine, given back when dropped.
pub(crate) type Slot = SemaphorePermit<'static>;

/// Half a core for one test, as it were: they wait for databases and moments as well.
pub(crate) async fn one() -> Slot {
    take(PARTS / 2).await
}

/// A part of a core, for a test that waits most of the time.
pub(crate) async fn part() -> Slot {
    take(1).await
}

/// Leaves a test that had more with a part of a core.
pub(crate) fn shrink(slot: &mut Slot) {
    drop(slot.split(slot.num_permits() - 1));
}

/// The whole machine, for a test that would disturb others.
pub(crate) async fn all() -> Slot {
    take(*CORES * PARTS).await
}

/// The tests that wait and fit where one other does.
const PARTS: u32 = 4;

static CORES: LazyLock<u32> = LazyLock::new(|| {
    available_parallelism().ok().and_then(|cores| u32::try_from(cores.get()).ok()).unwrap_or(1)
});

static SLOTS: LazyLock<Semaphore> = LazyLock::new(|| Semaphore::new((*CORES * PARTS) as usize));

async fn take(slots: u32) -> Slot {
    SLOTS.acquire_many(slots).await.expect("never closed")
}

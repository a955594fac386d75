//! The same figures of `leader`.

use leader_benches::figures::{cost, crash, handover};
use leader_benches::floor::FloorTimes;
use leader_benches::place::Place;
use leader_benches::replicas::{Pace, Program};

use crate::measure::{Amount, Figures};

/// Measures `leader` by its own benches, and what the machine takes at least.
pub async fn measure(
    place: &Place,
    program: &Program,
    amount: &Amount,
) -> anyhow::Result<(Figures, FloorTimes)> {
    let options =
        handover::Options { n: usize::try_from(amount.handovers)?, replicas: 2, names: 64, pause: 300 };
    let handover = handover::measure(place, &options).await?;
    let options = crash::Options {
        n: Some(amount.crashes),
        timings: Pace::Default,
        beside: amount.crashes,
        program: program.clone(),
    };
    let crash = crash::measure(place, &options).await?;
    let options = cost::Options { names: amount.names.clone(), replicas: vec![3], seconds: amount.seconds };
    let cost = cost::measure(place, &options).await?;
    let figures = Figures {
        whose: "leader".to_owned(),
        handover: Some(handover.handover),
        crash: Some(crash.takeover),
        cost: cost.cells.iter().map(|cell| (cell.names, cell.all)).collect(),
    };
    Ok((figures, handover.floor))
}

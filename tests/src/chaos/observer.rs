//! Somebody who looks at the ledger all the time, so that it is known when a row was not there yet.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use tokio::time::sleep;
use tokio_util::sync::CancellationToken;

use super::faults::Site;
use super::history::{Row, Span};
use crate::harness::database::LedgerRow;
use crate::harness::now_ms;

/// What was seen.
#[derive(Default)]
pub(super) struct Seen {
    pub(super) rows: BTreeMap<i64, Row>,
    /// Rows that were there once. A failover loses some, and what is written then may have their ids.
    pub(super) vanished: Vec<Row>,
    /// From which id on the last look was, and when it began.
    last: Option<(i64, i64)>,
}

/// Looks again and again, and for the last time when it is enough.
pub(super) async fn observe(site: Arc<Site>, enough: CancellationToken) -> Seen {
    const PAUSE: Duration = Duration::from_millis(40);

    let mut seen = Seen::default();
    let mut place = 0;
    loop {
        let last = enough.is_cancelled();
        let (now, there) = site.place();
        let first = if last || now != place { 0 } else { seen.first() };
        let looked = now_ms();
        if let Ok(found) = there.database.try_ledger(first).await {
            seen.look(first, Span { from: looked, until: now_ms() }, found);
            place = now;
            if last {
                return seen;
            }
        }
        sleep(PAUSE).await;
    }
}

impl Seen {
    /// A transaction that is still open has taken its id already, so the last ids are looked at again.
    fn first(&self) -> i64 {
        const AGAIN: i64 = 500;

        self.rows.last_key_value().map_or(0, |(highest, _)| (highest - AGAIN).max(0))
    }

    /// Takes down all rows that there are from this id on.
    fn look(&mut self, first: i64, looked: Span, found: Vec<(i64, LedgerRow)>) {
        let mut before = self.rows.split_off(&first);
        for (id, row) in found {
            let known = before.remove(&id).filter(|known| {
                let stays = known.row == row;
                if !stays {
                    self.vanished.push(known.clone());
                }
                stays
            });
            let unseen = self.last.filter(|(first, _)| id >= *first).map(|(_, looked)| looked);
            self.rows.insert(id, known.unwrap_or(Row { id, row, unseen, seen: looked.until }));
        }
        self.vanished.extend(before.into_values());
        self.last = Some((first, looked.from));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(term: i64) -> LedgerRow {
        LedgerRow { name: "ledger".to_owned(), term, instance: String::new(), seq: 0, at_ms: 0 }
    }

    fn at(looked: i64) -> Span {
        Span { from: looked, until: looked + 5 }
    }

    #[test]
    fn a_row_was_committed_after_the_last_look_without_it() {
        let mut seen = Seen::default();
        seen.look(0, at(10), vec![(1, row(5))]);
        seen.look(0, at(20), vec![(1, row(5)), (2, row(5))]);
        // Nobody looked so far back.
        seen.look(2, at(30), vec![(2, row(5))]);
        seen.look(1, at(40), vec![(1, row(5)), (2, row(5)), (3, row(5))]);
        let unseen: Vec<_> = seen.rows.values().map(|row| row.unseen).collect();
        assert_eq!(unseen, [None, Some(10), Some(30)]);
        let first: Vec<_> = seen.rows.values().map(|row| row.seen).collect();
        assert_eq!(first, [15, 25, 45]);
        assert!(seen.vanished.is_empty());
    }

    #[test]
    fn a_row_may_vanish_and_another_have_its_id() {
        let mut seen = Seen::default();
        seen.look(0, at(10), vec![(1, row(5)), (2, row(5)), (3, row(5))]);
        seen.look(0, at(20), vec![(1, row(5)), (2, row(6))]);
        let left: Vec<_> = seen.rows.values().map(|row| (row.id, row.row.term, row.unseen)).collect();
        assert_eq!(left, [(1, 5, None), (2, 6, Some(10))]);
        let vanished: Vec<_> = seen.vanished.iter().map(|row| row.id).collect();
        assert_eq!(vanished, [2, 3]);
    }
}

//! Queries that fail in place of others. It is the server that fails them, so that both sides agree on what became of a
//! transaction.

use crate::harness::database::Kind;

/// Whether its last message is a plain query.
pub(super) fn is_plain(kind: Kind, request: &[u8]) -> bool {
    let last = last_message(kind, request).map(|last| &request[last..]);
    match kind {
        Kind::Postgres => matches!(last, Some([b'Q', ..])),
        Kind::MySql => matches!(last, Some([_, _, _, _, 0x03, ..])),
        Kind::Sqlite => false,
    }
}

/// The request with a query that fails with this code in place of its last one, if that is a plain query.
pub(super) fn request(kind: Kind, request: &[u8], code: &str) -> Option<Vec<u8>> {
    // A rollback that was put off comes before.
    let last = last_message(kind, request)?;
    let (before, message) = request.split_at(last);
    let query = match (kind, message) {
        (Kind::Postgres, [b'Q', ..]) => {
            let query =
                format!("DO $$ BEGIN RAISE EXCEPTION 'on purpose' USING ERRCODE = '{code}'; END $$\0");
            let length = u32::try_from(query.len() + 4).ok()?.to_be_bytes();
            [b"Q", &length[..], query.as_bytes()].concat()
        }
        (Kind::MySql, [_, _, _, sequence, 0x03, ..]) => {
            // After a deadlock, and where a row has changed, the whole transaction is gone.
            let end = if code == "1205" { "" } else { "ROLLBACK; " };
            let fail =
                format!("SIGNAL SQLSTATE 'HY000' SET MYSQL_ERRNO = {code}, MESSAGE_TEXT = 'on purpose'");
            let query = format!("\x03{end}{fail}");
            let [a, b, c, _] = u32::try_from(query.len()).ok()?.to_le_bytes();
            [&[a, b, c, *sequence], query.as_bytes()].concat()
        }
        _ => return None,
    };
    Some([before, &query].concat())
}

/// Where the last of the messages begins, if all of them are complete.
fn last_message(kind: Kind, request: &[u8]) -> Option<usize> {
    let mut at = 0;
    loop {
        let length = match (kind, &request[at..]) {
            (Kind::Postgres, [_, a, b, c, d, ..]) => u32::from_be_bytes([*a, *b, *c, *d]) as usize + 1,
            (Kind::MySql, [a, b, c, _, ..]) => u32::from_le_bytes([*a, *b, *c, 0]) as usize + 4,
            _ => return None,
        };
        match at.checked_add(length)? {
            next if next == request.len() => return Some(at),
            next if next < request.len() => at = next,
            _ => return None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_plain_query_is_another() {
        let rollback = b"Q\0\0\0\x0dROLLBACK\0".as_slice();
        let both = [rollback, b"Q\0\0\0\x0bCOMMIT\0"].concat();
        assert!(is_plain(Kind::Postgres, &both));
        let failing = request(Kind::Postgres, &both, "40001").unwrap();
        let rest = failing.strip_prefix(rollback).unwrap();
        assert_eq!(last_message(Kind::Postgres, &failing), Some(rollback.len()));
        assert!(rest.starts_with(b"Q") && rest.ends_with(b"'40001'; END $$\0"), "{rest:?}");

        assert!(is_plain(Kind::MySql, b"\x07\0\0\0\x03COMMIT"));
        let failing = request(Kind::MySql, b"\x07\0\0\0\x03COMMIT", "1213").unwrap();
        assert_eq!(last_message(Kind::MySql, &failing), Some(0));
        assert!(failing[4..].starts_with(b"\x03ROLLBACK; SIGNAL"), "{failing:?}");
    }

    #[test]
    fn whatever_else_stays_as_it_is() {
        for bytes in [b"P\0\0\0\x04".as_slice(), b"Q\0\0\0\x0bCOMM", b"Q", b""] {
            assert_eq!(request(Kind::Postgres, bytes, "40001"), None, "{bytes:?}");
            assert!(!is_plain(Kind::Postgres, bytes), "{bytes:?}");
        }
        for bytes in [b"\x02\0\0\0\x16S".as_slice(), b"\x07\0\0\0\x03COM", b""] {
            assert_eq!(request(Kind::MySql, bytes, "1213"), None, "{bytes:?}");
            assert!(!is_plain(Kind::MySql, bytes), "{bytes:?}");
        }
    }
}

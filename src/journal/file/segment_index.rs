//! Which entries a closed stretch of the log has of a connector and an outcome.
//!
//! `journal/file/segments.rs` writes a mark for each connector and outcome of a stretch when it closes it, and one for each outcome
//! but accepted over all connectors. Pages read them newest first (`journal/file/page.rs`). Entries that are in no closed
//! stretch yet are looked through.
//!
//! **Invariant**: the marks of a stretch name every entry of it; entries that they name and that are gone lie below all
//! that are there.

use std::ops::Range;

use rusqlite::{Connection, Error};

use crate::log::Outcome;
use base::order::Seq;
use sqlite::SqlText;

/// Stands for all connectors: no connector has this name.
pub(super) const EVERY: &str = "*";
/// The last position of the closed stretches, 0 if there is none.
pub(super) const CLOSED: &str = "coalesce((SELECT last_seq FROM log_spans WHERE first_seq = (SELECT max(first_seq) FROM log_spans)), 0)";
/// How positions are written: each in two bytes, or a bit for each that there could be.
const LIST: u8 = 0;
const BITS: u8 = 1;

/// Writes one, inside the writer's transaction. The places are those behind the first position, in their order.
pub(super) fn write(
    connection: &Connection,
    connector: &str,
    outcome: Outcome,
    first_seq: Seq,
    places: &[u16],
) -> Result<(), Error> {
    let Some(last) = places.last() else {
        return Ok(());
    };
    connection
        .prepare_cached(
            "INSERT OR REPLACE INTO log_marks (connector, outcome, first_seq, last_seq, positions) VALUES (?1, ?2, ?3, ?4, ?5)",
        )?
        .execute(rusqlite::params![
            connector,
            outcome.code(),
            first_seq.to_column(),
            (first_seq + u64::from(*last)).to_column(),
            pack(places),
        ])?;
    Ok(())
}

/// In the shorter of the two ways. A rare connector has few positions, and a busy one nearly all.
fn pack(places: &[u16]) -> Vec<u8> {
    let bits = usize::from(places.last().copied().unwrap_or(0) / 8) + 1;
    if places.len() * 2 <= bits {
        let list = places.iter().flat_map(|place| place.to_le_bytes());
        return std::iter::once(LIST).chain(list).collect();
    }
    let mut bytes = vec![0; bits + 1];
    bytes[0] = BITS;
    for place in places {
        bytes[1 + usize::from(place / 8)] |= 1 << (place % 8);
    }
    bytes
}

/// What cannot be read names nothing. A page of the log must not fail because of one mark.
fn unpack(bytes: &[u8]) -> Vec<u16> {
    match bytes.split_first() {
        Some((&LIST, list)) => {
            let (list, _) = list.as_chunks::<2>();
            list.iter().copied().map(u16::from_le_bytes).collect()
        }
        Some((&BITS, bits)) => (0..=u16::MAX)
            .take(bits.len() * 8)
            .filter(|place| bits[usize::from(place / 8)] & (1 << (place % 8)) != 0)
            .collect(),
        _ => Vec::new(),
    }
}

/// The statement that finds entries of a connector, or of all, with one of these outcomes: a position and no bytes, or the
/// first position of a stretch and a mark's bytes. In the order of positions, which SQLite merges as they come.
pub(super) fn query(
    connector: Option<&str>,
    outcomes: &[Outcome],
    range: &Range<Seq>,
    newest_first: bool,
) -> SqlText {
    let (start, end) = (range.start.to_column(), range.end.to_column());
    let mut query = SqlText::default();
    for outcome in outcomes {
        query
            .push("SELECT first_seq AS at, positions FROM log_marks WHERE connector = ")
            .push_value(connector.unwrap_or(EVERY).to_owned())
            .push(" AND outcome = ")
            .push_value(outcome.code())
            .push(" AND first_seq < ")
            .push_value(end)
            .push(" AND first_seq >= coalesce((SELECT max(first_seq) FROM log_spans WHERE first_seq <= ")
            .push_value(start)
            .push("), 0) UNION ALL ");
    }
    query
        .push("SELECT seq, NULL FROM requests WHERE seq > ")
        .push(CLOSED)
        .push(" AND seq >= ")
        .push_value(start)
        .push(" AND seq < ")
        .push_value(end);
    if let Some(connector) = connector {
        query
            .push(" AND connector = ")
            .push_value(connector.to_owned());
    }
    if outcomes.len() < Outcome::ALL.len() {
        let codes: Vec<String> = outcomes.iter().map(|it| it.code().to_string()).collect();
        query.push(&format!(" AND outcome IN ({})", codes.join(", ")));
    }
    query.push(if newest_first {
        " ORDER BY at DESC"
    } else {
        " ORDER BY at"
    });
    query
}

/// Positions of entries of a connector, or of all, with one of these outcomes; some may be gone. At most so many, those
/// that come first. Of all connectors together those that were accepted cannot be asked for.
pub(super) fn find(
    connection: &Connection,
    connector: Option<&str>,
    outcomes: &[Outcome],
    range: &Range<Seq>,
    newest_first: bool,
    limit: usize,
) -> Result<Vec<Seq>, Error> {
    let mut found = Found {
        newest_first,
        ..Found::default()
    };
    let query = query(connector, outcomes, range, newest_first);
    query.each(connection, |row| -> Result<bool, Error> {
        let at = Seq::from_column(row.get(0)?);
        found.begin(at);
        match row.get_ref(1)?.as_bytes_or_null()? {
            None => found.stretch.push(at),
            Some(bytes) => {
                let seqs = unpack(bytes).into_iter().map(|place| at + u64::from(place));
                found.stretch.extend(seqs.filter(|seq| range.contains(seq)));
            }
        }
        Ok(found.whole.len() < limit)
    })?;
    if found.whole.len() < limit {
        found.end();
    }
    found.whole.truncate(limit);
    Ok(found.whole)
}

/// What was found so far.
#[derive(Default)]
struct Found {
    newest_first: bool,
    /// In order.
    whole: Vec<Seq>,
    /// Of the stretch that begins there; other outcomes of it may follow.
    at: Option<Seq>,
    stretch: Vec<Seq>,
}

impl Found {
    fn begin(&mut self, at: Seq) {
        if self.at.replace(at) != Some(at) {
            self.end();
        }
    }

    fn end(&mut self) {
        self.stretch.sort_unstable();
        if self.newest_first {
            self.stretch.reverse();
        }
        self.whole.append(&mut self.stretch);
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn what_is_packed_is_read_back(places in proptest::collection::btree_set(0_u16..1_000, 0..1_000)) {
            let places: Vec<u16> = places.into_iter().collect();
            let bytes = pack(&places);
            prop_assert!(bytes.len() <= 126, "{}", bytes.len());
            prop_assert!(places.is_empty() || bytes.len() <= 1 + 2 * places.len());
            prop_assert_eq!(unpack(&bytes), places);
        }

        #[test]
        fn whatever_is_read_is_read(bytes in proptest::collection::vec(any::<u8>(), 0..9_000)) {
            prop_assert!(unpack(&bytes).len() <= 65_536);
        }
    }

    #[test]
    fn places_reach_as_far_as_two_bytes() {
        for places in [
            vec![u16::MAX],
            (0..=u16::MAX).collect(),
            vec![0, 9, u16::MAX],
        ] {
            assert_eq!(unpack(&pack(&places)), places);
        }
    }
}

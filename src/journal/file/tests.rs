//! How far a cursor is behind.

use super::lag;
use base::order::Seq;

#[test]
fn skipped_numbers_are_no_lag() {
    let skipped = [(10, 1_010), (2_000, 3_000)];
    let skipped = skipped.map(|(start, end)| Seq::new(start)..Seq::new(end));
    for (cursor, newest, expected) in [
        (5, 9, 4),
        (5, 1_011, 6),
        (10, 10, 0),
        (10, 1_012, 2),
        (1_010, 1_012, 2),
        (1_012, 10, 0),
        (0, 3_001, 1_001),
    ] {
        assert_eq!(
            lag(Seq::new(cursor), Seq::new(newest), &skipped),
            expected,
            "{cursor} {newest}"
        );
    }
}

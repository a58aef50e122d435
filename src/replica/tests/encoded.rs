//! The bytes of entries: what is read of them, and that nothing hostile gets further than an error.

use super::*;
use crate::encoding::check_part;

/// An entry with rows of every kind, of both files.
fn sample() -> (Pair, Vec<u8>) {
    let mut pair = Pair::new(ReplicaFile::Pool);
    pair.sync(|connection| {
        let done = connection
            .execute_batch("INSERT INTO cursors (sink, seq, start) VALUES ('gone', 1, 1)");
        done.expect("it writes");
    });
    let change = pair.commit(|connection| {
        let done = connection.execute_batch(
            "DELETE FROM cursors; INSERT INTO sink_state VALUES ('a', 'b', x'00ff'), ('a', 'c', 1.5), ('a', 'd', -9223372036854775808);
             CREATE TABLE made (a INTEGER PRIMARY KEY AUTOINCREMENT, b); CREATE INDEX made_by_b ON made (b);
             INSERT INTO made VALUES (7, NULL); DROP TABLE stale; UPDATE history SET floor = 3",
        );
        done.expect("it writes");
    });
    (pair, change.expect("an entry"))
}

#[test]
fn what_is_written_is_read() {
    let (mut pair, change) = sample();
    assert_eq!(check_change(&change), Ok(6));
    let touched = pair.follow(&change).expect("it fits");
    assert_eq!(touched.len(), 4, "{touched:?}");
    pair.assert_equal();
    let part = part_of(&change, ReplicaFile::Pool)
        .expect("it reads")
        .expect("a part");
    assert_eq!(part_of(&change, ReplicaFile::Catalog), Ok(None));
    let part = FileChange(part.to_vec());
    let both = super::change(&[
        (ReplicaFile::Catalog, part.clone()),
        (ReplicaFile::Pool, part.clone()),
    ]);
    assert_eq!(part_of(&both, ReplicaFile::Pool), Ok(Some(&part.0[..])));
    assert_eq!(check_change(&both), Ok(12));
    let twice = super::change(&[(ReplicaFile::Pool, part.clone()), (ReplicaFile::Pool, part)]);
    assert!(part_of(&twice, ReplicaFile::Catalog).is_err());
}

#[test]
fn an_entry_that_is_cut_or_goes_on_is_refused() {
    let (mut pair, change) = sample();
    let before = content(&pair.copy);
    // What names no file is an entry that changes nothing.
    for length in (0..change.len()).filter(|length| *length != 1) {
        assert!(check_change(&change[..length]).is_err(), "{length}");
        assert!(pair.follow(&change[..length]).is_err(), "{length}");
    }
    let mut longer = change.clone();
    longer.push(0);
    assert!(pair.follow(&longer).is_err());
    assert_eq!(content(&pair.copy), before);
    pair.follow(&change).expect("it fits");
}

#[test]
fn damage_never_panics_and_an_entry_is_refused_or_whole() {
    let mut numbers = Numbers::new();
    let (mut pair, change) = sample();
    for _ in 0..3_000 {
        let mut damaged = change.clone();
        for _ in 0..=numbers.below(3) {
            let at = numbers.below(damaged.len());
            match numbers.below(3) {
                0 => damaged[at] = numbers.below(256) as u8,
                1 => damaged[at] ^= 1 << numbers.below(8),
                _ => drop(damaged.remove(at)),
            }
        }
        let part = part_of(&damaged, ReplicaFile::Pool);
        let readable = part.is_ok_and(|part| part.is_none_or(|part| check_part(part).is_ok()));
        // What is readable may fit, with other values; what is not never does.
        sqlite::begin(&pair.copy).expect("it begins");
        let next = pair.copy_place.after(&damaged);
        let entry = LogEntry {
            place: next,
            change: &damaged,
        };
        let applied = pair
            .copy_recorder
            .apply(&pair.copy, pair.copy_place, &entry);
        assert!(readable || applied.is_err());
        sqlite::roll_back(&pair.copy).expect("it rolls back");
    }
    pair.follow(&change).expect("it fits");
    pair.assert_equal();
}

#[test]
fn statements_of_an_entry_make_tables_and_indexes_and_nothing_else() {
    for sql in [
        "DROP TABLE items",
        "CREATE TRIGGER a AFTER INSERT ON items BEGIN DELETE FROM items; END",
        "CREATE TABLE a (b); DROP TABLE items",
        "CREATE TABLE ",
        "PRAGMA user_version = 7",
    ] {
        let mut pair = Pair::new(ReplicaFile::Pool);
        let mut writer = crate::encoding::ChangeWriter::default();
        writer.number(sqlite::format(&pair.copy).expect("a format").unsigned_abs());
        writer.number(0);
        writer.number(1);
        writer.name(sql);
        writer.number(0);
        let before = content(&pair.copy);
        let entry = change(&[(ReplicaFile::Pool, FileChange(writer.0))]);
        let refused = pair.follow(&entry);
        assert!(
            matches!(refused, Err(ApplyError::DoesNotFit(_))),
            "{sql}: {refused:?}"
        );
        assert_eq!(content(&pair.copy), before);
    }
}

//! Unit tests of `tally.rs`.

use super::*;

#[test]
fn a_tally_is_of_the_rows_and_of_where_they_begin_and_end() {
    let of = |rows: &[&[ValueRef<'_>]]| {
        let mut counter = TallyCounter::default();
        for row in rows {
            counter.add(row.iter().copied());
        }
        counter.end()
    };
    let (a, b, ab) = (
        ValueRef::Text(b"a"),
        ValueRef::Text(b"b"),
        ValueRef::Text(b"ab"),
    );
    let nothing = ValueRef::Text(b"");
    let tallies = [
        of(&[]),
        of(&[&[a, b]]),
        of(&[&[a], &[b]]),
        of(&[&[ab, nothing]]),
        of(&[&[nothing, ab]]),
        of(&[&[ValueRef::Blob(b"a"), b]]),
        of(&[&[ValueRef::Null, b]]),
        of(&[&[ValueRef::Integer(97), b]]),
    ];
    for (at, one) in tallies.iter().enumerate() {
        for other in &tallies[at + 1..] {
            assert_ne!(one.digest, other.digest);
        }
    }
    assert_eq!((tallies[1].rows, tallies[2].rows), (1, 2));
    assert_eq!(of(&[&[a, b]]), tallies[1]);
    let read = Tally::stored(1, &tallies[1].digest);
    assert_eq!(read, Some(tallies[1]));
    assert_eq!(Tally::stored(1, b"short"), None);
}

#[test]
fn a_file_and_its_copy_have_one_tally_and_a_row_makes_another() {
    let folder = tempfile::tempdir().expect("a folder");
    let (path, copied) = (folder.path().join("a.db"), folder.path().join("b.db"));
    pool::copy::make(&path).expect("a pool");
    let open =
        |path: &Path| sqlite::open_writer(path, sqlite::Synchronous::Normal).expect("it opens");
    let insert = |path: &Path, sink: &str| {
        let sql = "INSERT INTO cursors (sink, seq, start) VALUES (?1, 7, 0)";
        open(path).execute(sql, [sink]).expect("it is inserted");
    };
    insert(&path, "b");
    insert(&path, "a");
    sqlite::copy_at_rest(&path, &copied.to_string_lossy()).expect("a copy");
    let tally = |path: &Path| Tally::of_file(path).expect("it reads");
    assert_eq!(tally(&path), tally(&copied));
    assert!(!is_copy(&copied).expect("it reads"));
    crate::Recorder::attach(&open(&copied), crate::ReplicaFile::Pool).expect("a table");
    assert!(is_copy(&copied).expect("it reads"));
    assert_eq!(
        tally(&path),
        tally(&copied),
        "where it is in a log is none of it"
    );
    insert(&copied, "c");
    assert_ne!(tally(&path), tally(&copied));
}

//! A transaction that is rolled back, and a start that is broken off, leave nothing behind.

use super::*;

/// Writes entries as a group does.
fn write(file: &Connection, spans: &mut Segments, random: &mut Random, from: u64, entries: u64) {
    for seq in from..from + entries {
        let at = Unix::from_ms(3_600_000 + seq * 10);
        let late = if random.below(200) == 0 {
            HOUR
        } else {
            Duration::ZERO
        };
        let outcome = Outcome::ALL[random.below(6) as usize];
        let connector = ["a", "b", "c"][random.below(3) as usize];
        let mut entry = LogEntry::of(
            random.id(at - late),
            at,
            connector.into(),
            "s".into(),
            outcome,
        );
        entry.sent_again_from = (random.below(100) == 0).then(|| random.id(at));
        let sql = "INSERT INTO requests (seq, request_id, received_ms, connector, stream, outcome, endpoint, http_status, items,
             bytes, key, client, sent_again_from) VALUES (?1, ?2, ?3, ?4, 's', ?5, 0, 202, 1, 1, '', '', ?6)";
        let row = rusqlite::params![
            seq.cast_signed(),
            &entry.request_id.as_bytes()[..],
            at.to_column(),
            connector,
            outcome.code(),
            entry.sent_again_from.map(|id| id.as_bytes().to_vec()),
        ];
        file.prepare_cached(sql)
            .expect("the log")
            .execute(row)
            .expect("an entry");
        spans
            .add(file, Seq::new(seq), &entry, "")
            .expect("it is added");
    }
}

/// What is made of the log, table by table.
fn dump(file: &Connection) -> BTreeMap<&'static str, Vec<String>> {
    let dump = |table| {
        let mut statement = file
            .prepare(&format!("SELECT * FROM {table}"))
            .expect("a table");
        let columns = statement.column_count();
        let rows = statement.query_map([], |row| {
            let values = (0..columns).map(|at| row.get::<_, rusqlite::types::Value>(at));
            let values = values.collect::<Result<Vec<_>, _>>()?;
            // The order of the names of marks says nothing.
            let shown = values.into_iter().map(|value| match value {
                rusqlite::types::Value::Text(text) if text.starts_with("[[") => {
                    let mut named: Vec<(String, i64)> = serde_json::from_str(&text).expect("marks");
                    named.sort();
                    format!("{named:?}")
                }
                other => format!("{other:?}"),
            });
            Ok(shown.collect::<Vec<_>>().join(" "))
        });
        let rows = rows.expect("rows").map(|row| row.expect("a row"));
        (table, rows.collect::<Vec<_>>())
    };
    schema::OF_LOG.into_iter().map(dump).collect()
}

#[test]
fn what_is_rolled_back_leaves_nothing_and_a_start_reads_what_was_written() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("journal.db");
    let file = schema::open_writer(&path, Durability::Os).expect("it opens");
    let mut spans = Segments::open(&file).expect("an empty log");
    let mut random = Random(5);
    let mut seq = 1;
    for _ in 0..60 {
        let entries = 1 + random.below(300);
        sqlite::begin(&file).expect("it begins");
        write(&file, &mut spans, &mut random, seq, entries);
        match random.below(3) {
            0 => {
                sqlite::roll_back(&file).expect("it is taken back");
                spans.rolled_back();
            }
            1 => {
                sqlite::commit(&file).expect("it commits");
                spans = Segments::open(&file).expect("it reads");
                seq += entries;
            }
            _ => {
                sqlite::commit(&file).expect("it commits");
                seq += entries;
            }
        }
    }
    let written = dump(&file);
    assert!(written.values().all(|rows| rows.len() > 3), "{written:?}");
    schema::forget_spans(&file).expect("they are forgotten");
    assert!(dump(&file).values().all(Vec::is_empty));
    drop(Segments::open(&file).expect("it reads"));
    assert_eq!(dump(&file), written);
    // In parts, and by starts that are broken off.
    schema::forget_spans(&file).expect("they are forgotten");
    sqlite::begin(&file).expect("it begins");
    OpenSegment::read(&file, i64::MAX, 3_456).expect("it reads");
    sqlite::commit(&file).expect("it commits");
    sqlite::begin(&file).expect("it begins");
    OpenSegment::read(&file, i64::MAX, 2_222).expect("it reads");
    sqlite::roll_back(&file).expect("it is taken back");
    drop(Segments::open_in_parts(&file, 1_001).expect("it reads"));
    assert_eq!(dump(&file), written);
}

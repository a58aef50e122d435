//! Thousands of random statements over every table of the real formats, with rollbacks: copies stay equal.

use super::*;

/// A table, as a random statement sees it.
pub(crate) struct Target {
    name: String,
    columns: Vec<(String, String, bool, bool)>,
}

pub(crate) fn targets(connection: &Connection) -> Vec<Target> {
    let names = table_names(connection);
    let names = names.into_iter();
    let targets = names.map(|name| {
        let sql = "SELECT name, lower(type), \"notnull\", pk > 0 FROM pragma_table_info(?1)";
        let mut statement = connection.prepare(sql).expect("a statement");
        let rows = statement.query_map([&name], |row| {
            Ok((row.get(0)?, row.get(1)?, row.get(2)?, row.get(3)?))
        });
        let columns = rows.expect("rows").map(|row| row.expect("a row")).collect();
        Target { name, columns }
    });
    targets.collect()
}

/// Few different values, so that rows meet each other.
fn value(numbers: &mut Numbers, kind: &str, may_be_missing: bool) -> Value {
    if may_be_missing && numbers.below(4) == 0 {
        return Value::Null;
    }
    let number = numbers.below(6);
    match kind {
        "integer" => Value::Integer([0, 1, -1, 7, i64::MAX, i64::MIN][number]),
        "blob" => Value::Blob(vec![7; [0, 1, 3, 16, 200, 4_000][number]]),
        _ => Value::Text(["", "a", "A", "ä\u{0}x", "two words", "{\"a\":1}"][number].to_owned()),
    }
}

/// One statement. That it may break a rule of the table is part of it.
pub(crate) fn change_something(connection: &Connection, numbers: &mut Numbers, targets: &[Target]) {
    let target = &targets[numbers.below(targets.len())];
    let name = &target.name;
    let columns: Vec<String> = target
        .columns
        .iter()
        .map(|one| format!("\"{}\"", one.0))
        .collect();
    let mut values: Vec<Value> = (target.columns.iter())
        .map(|(_, kind, needed, is_key)| value(numbers, kind, !needed && !is_key))
        .collect();
    let key: Vec<&String> = (target.columns.iter().zip(&columns))
        .filter_map(|(one, quoted)| one.3.then_some(quoted))
        .collect();
    let places = vec!["?"; columns.len()].join(", ");
    let insert = format!("INTO \"{name}\" ({}) VALUES ({places})", columns.join(", "));
    let at = numbers.below(columns.len());
    let sql = match numbers.below(9) {
        0 => format!("INSERT {insert}"),
        1 => format!("INSERT OR IGNORE {insert}"),
        2 | 3 => format!("INSERT OR REPLACE {insert}"),
        4 if !key.is_empty() => {
            let key: Vec<&str> = key.iter().map(|one| one.as_str()).collect();
            let set: Vec<String> = columns
                .iter()
                .map(|one| format!("{one} = excluded.{one}"))
                .collect();
            let (key, set) = (key.join(", "), set.join(", "));
            format!("INSERT {insert} ON CONFLICT ({key}) DO UPDATE SET {set}")
        }
        5 | 6 => {
            values = vec![values[at].clone()];
            let limit = numbers.below(3);
            let rule = ["", "OR REPLACE", "OR IGNORE"][limit];
            let column = &columns[at];
            format!("UPDATE {rule} \"{name}\" SET {column} = ? WHERE abs(random()) % 3 = 0")
        }
        7 => {
            values = vec![values[at].clone()];
            format!("DELETE FROM \"{name}\" WHERE {} IS ?", columns[at])
        }
        _ if numbers.below(40) == 0 => {
            values.clear();
            format!("DELETE FROM \"{name}\"")
        }
        _ => format!("INSERT OR REPLACE {insert}"),
    };
    let mut statement = connection.prepare_cached(&sql).expect("a statement");
    let _ = statement.execute(rusqlite::params_from_iter(values));
}

fn run(pair: &mut Pair, numbers: &mut Numbers, transactions: usize) {
    let targets = targets(&pair.original);
    for _ in 0..transactions {
        let statements = numbers.below(12);
        if numbers.below(5) == 0 {
            // Nothing of it is in the next entry.
            sqlite::begin(&pair.original).expect("it begins");
            for _ in 0..statements {
                change_something(&pair.original, numbers, &targets);
            }
            sqlite::roll_back(&pair.original).expect("it rolls back");
            continue;
        }
        pair.sync(|connection| {
            for at in 0..statements {
                // A part of a transaction may be taken back, too.
                let taken_back = at % 4 == 3;
                if taken_back {
                    connection
                        .execute_batch("SAVEPOINT part")
                        .expect("a savepoint");
                }
                change_something(connection, numbers, &targets);
                if taken_back {
                    connection
                        .execute_batch("ROLLBACK TO part; RELEASE part")
                        .expect("it rolls back");
                }
            }
        });
    }
}

#[test]
fn copies_of_both_files_stay_equal_through_random_changes_of_every_table() {
    let mut numbers = Numbers::new();
    for file in ReplicaFile::ALL {
        let mut pair = Pair::new(file);
        for _ in 0..10 {
            run(&mut pair, &mut numbers, 150);
            pair.assert_equal();
        }
        let filled: Vec<String> = table_names(&pair.original)
            .into_iter()
            .filter(|name| {
                let sql = format!("SELECT count(*) FROM \"{name}\"");
                let count: i64 = pair
                    .copy
                    .query_row(&sql, [], |row| row.get(0))
                    .expect("a count");
                count > 0
            })
            .collect();
        assert!(
            filled.len() * 3 > table_names(&pair.original).len() * 2,
            "only {filled:?}"
        );
    }
}

/// What a forgotten trigger would be: the comparison sees it.
#[test]
fn a_table_that_is_left_out_makes_copies_differ() {
    for file in ReplicaFile::ALL {
        for name in table_names(&Pair::new(file).original) {
            let mut numbers = Numbers::new();
            let mut pair = Pair::new(file);
            let id = pair.recorder.schema.tables[&name].id;
            for event in ["INSERT", "UPDATE", "DELETE"] {
                let sql = format!("DROP TRIGGER temp.replica_{event}_{id}");
                pair.original.execute_batch(&sql).expect("a trigger");
            }
            let targets: Vec<Target> = targets(&pair.original)
                .into_iter()
                .filter(|target| target.name == name)
                .collect();
            let before = content(&pair.original);
            while content(&pair.original) == before {
                pair.sync(|connection| change_something(connection, &mut numbers, &targets));
            }
            let difference = pair.difference().unwrap_or_default();
            assert!(
                difference.contains(&format!("{name}: ")),
                "{name}: {difference}"
            );
        }
    }
}

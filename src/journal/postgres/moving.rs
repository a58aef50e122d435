//! The rows of the journal in the database, stored in a move into a cluster, or read for a move out of one.
//!
//! **Invariant**: numbers that were moved in lie below all that the cluster gives, in generations of their own.

use rusqlite::types::Value;
use sqlx::postgres::{PgArguments, PgRow, Postgres};
use sqlx::query::Query;
use sqlx::{AssertSqlSafe, PgConnection, Row as _};

use super::text::{read, stored};
use crate::moving::{BYTES_MAX, CLAIMS_LIVE_MS, Kind, Part, Place, ROWS_MAX, Row};
use ::postgres::DatabaseError;
use base::clock::{Lived, Unix};
use base::order::Seq;

/// More transactions than a daemon that is started again on the moved directory can give numbers to: no number stands for a
/// request of both.
const NUMBERS_SKIPPED: i64 = 1 << 28;

/// Makes the generations of what is stored next, and has the cluster go on behind them: in time, and in numbers.
/// Generations are made as old as what they get, so that it goes when it would have gone.
pub(crate) async fn begin_in(
    connection: &mut PgConnection,
    place: &Place,
) -> Result<(), DatabaseError> {
    let mut current = 1_i32;
    for (first, lived) in &place.spans {
        sqlx::query("CALL shelf($1)")
            .bind(current)
            .execute(&mut *connection)
            .await?;
        let sql = "INSERT INTO generations VALUES ($1, $2, $3)
             ON CONFLICT (g) DO UPDATE SET first_seq = excluded.first_seq, lived_ms = excluded.lived_ms";
        sqlx::query(sql)
            .bind(current)
            .bind(first.to_column())
            .bind(lived.to_column())
            .execute(&mut *connection)
            .await?;
        current += 1;
    }
    for ahead in current..current + 3 {
        sqlx::query("CALL shelf($1)")
            .bind(ahead)
            .execute(&mut *connection)
            .await?;
    }
    let sql =
        "UPDATE cluster SET g = $1, lived_ms = $2, trusted_lived_ms = $3, trusted_unix_ms = $4,
         xid_base = greatest(xid_base, ($5 >> 12) + $6 - pg_current_xact_id()::text::bigint)";
    let (lived, unix) = place.trusted.unzip();
    sqlx::query(sql)
        .bind(current)
        .bind(place.lived.to_column())
        .bind(lived.map(Lived::to_column))
        .bind(unix.map(Unix::to_column))
        .bind(place.last.to_column())
        .bind(NUMBERS_SKIPPED)
        .execute(&mut *connection)
        .await?;
    let sql = "INSERT INTO generations
         SELECT g, (pg_current_xact_id()::text::bigint + xid_base) << 12, lived_ms FROM cluster";
    sqlx::query(sql).execute(connection).await?;
    Ok(())
}

/// Stores rows of a part.
pub(crate) async fn store(
    connection: &mut PgConnection,
    part: Part,
    rows: Vec<Row>,
) -> Result<(), DatabaseError> {
    let sql = insert(part);
    let mut query = sqlx::query(AssertSqlSafe(sql));
    let mut columns: Vec<Vec<Value>> = vec![Vec::with_capacity(rows.len()); part.columns().len()];
    for row in rows {
        for (column, value) in columns.iter_mut().zip(row) {
            column.push(value);
        }
    }
    for (column, values) in part.columns().iter().zip(columns) {
        query = bind(query, column.kind, values);
    }
    query.execute(connection).await?;
    Ok(())
}

/// Stores what its parameters have, an array for each column.
fn insert(part: Part) -> String {
    let columns = part.columns();
    let list = |of: &dyn Fn(usize) -> String| {
        let all: Vec<String> = (0..columns.len()).map(of).collect();
        all.join(", ")
    };
    let names = list(&|at| columns[at].name.to_owned());
    let values = list(&|at| match columns[at].kind {
        Kind::Small => format!("u.{}::smallint", columns[at].name),
        Kind::Medium => format!("u.{}::int", columns[at].name),
        _ => format!("u.{}", columns[at].name),
    });
    let arrays = list(&|at| {
        let of = match columns[at].kind {
            Kind::Number | Kind::Small | Kind::Medium | Kind::Digest => "bigint",
            Kind::Flag => "bool",
            Kind::Text => "text",
            Kind::Id => "uuid",
            Kind::Bytes => "bytea",
        };
        format!("${}::{of}[]", at + 1)
    });
    let generation = match part {
        Part::Requests | Part::Payloads => {
            Some("(SELECT max(n.g) FROM generations n WHERE n.first_seq <= u.seq)")
        }
        // The newest of those that were moved in: it is asked for as long as a claim can hold.
        Part::Claims => Some("(SELECT c.g - 1 FROM cluster c)"),
        Part::Bodies | Part::Quarantine => None,
    };
    let (g, generation) = match generation {
        Some(generation) => ("g, ", format!("{generation}, ")),
        None => ("", String::new()),
    };
    format!(
        "INSERT INTO {} ({g}{names}) SELECT {generation}{values} FROM unnest({arrays}) AS u({names})",
        part.table()
    )
}

fn bind<'q>(
    query: Query<'q, Postgres, PgArguments>,
    kind: Kind,
    values: Vec<Value>,
) -> Query<'q, Postgres, PgArguments> {
    let values = values.into_iter();
    match kind {
        Kind::Number | Kind::Small | Kind::Medium => {
            let numbers = values.map(|value| number(&value));
            query.bind(numbers.collect::<Vec<_>>())
        }
        Kind::Digest => {
            let digest = |value| {
                let bytes = bytes(value)?.try_into().ok()?;
                Some(i64::from_be_bytes(bytes))
            };
            query.bind(values.map(digest).collect::<Vec<_>>())
        }
        Kind::Flag => {
            let flags = values.map(|value| number(&value).map(|number| number != 0));
            query.bind(flags.collect::<Vec<_>>())
        }
        Kind::Text => {
            let text = |value| match value {
                Value::Text(text) => Some(stored(&text).into_owned()),
                _ => None,
            };
            query.bind(values.map(text).collect::<Vec<_>>())
        }
        Kind::Id => {
            let id = |value| uuid::Uuid::from_slice(&bytes(value)?).ok();
            query.bind(values.map(id).collect::<Vec<_>>())
        }
        Kind::Bytes => query.bind(values.map(bytes).collect::<Vec<_>>()),
    }
}

fn number(value: &Value) -> Option<i64> {
    match value {
        Value::Integer(number) => Some(*number),
        _ => None,
    }
}

fn bytes(value: Value) -> Option<Vec<u8>> {
    match value {
        Value::Blob(bytes) => Some(bytes),
        _ => None,
    }
}

/// The next rows of a part behind a key.
pub(crate) async fn after(
    connection: &mut PgConnection,
    part: Part,
    key: &Value,
) -> Result<Vec<Row>, DatabaseError> {
    let columns = part.columns();
    let names: Vec<String> = (columns.iter())
        .map(|column| match column.kind {
            Kind::Small | Kind::Medium => format!("{}::bigint", column.name),
            _ => column.name.to_owned(),
        })
        .collect();
    let sql = format!("SELECT {} FROM {}", names.join(", "), source(part));
    let query = sqlx::query(AssertSqlSafe(sql));
    let query = match key {
        Value::Blob(bytes) => query.bind(uuid::Uuid::from_slice(bytes).unwrap_or_default()),
        key => query.bind(number(key)),
    };
    let found = query
        .bind(i64::from(ROWS_MAX))
        .fetch_all(connection)
        .await?;
    found.iter().map(|row| values(part, row)).collect()
}

/// What rows are read from: a bounded number behind `$1`, in order. Bytes are bounded, too, because one batch of large
/// payloads would fill the memory.
fn source(part: Part) -> String {
    let table = part.table();
    match part.large() {
        Some(large) => format!(
            "(SELECT *, sum(octet_length({large})) OVER (ORDER BY seq) - octet_length({large}) AS before
              FROM (SELECT * FROM {table} WHERE seq > $1 ORDER BY seq LIMIT $2) AS next) AS part
             WHERE before < {BYTES_MAX} ORDER BY seq"
        ),
        None if part == Part::Claims => format!(
            "(SELECT DISTINCT ON (scope) * FROM claims
              WHERE scope > $1 AND lived_ms > (SELECT lived_ms - {CLAIMS_LIVE_MS} FROM cluster)
              ORDER BY scope, lived_ms DESC LIMIT $2) AS live ORDER BY scope"
        ),
        None => format!("{table} WHERE seq > $1 ORDER BY seq LIMIT $2"),
    }
}

fn values(part: Part, row: &PgRow) -> Result<Row, DatabaseError> {
    let value = |(at, kind): (usize, Kind)| -> Result<Value, sqlx::Error> {
        let value = match kind {
            Kind::Number | Kind::Small | Kind::Medium => {
                row.try_get::<Option<i64>, _>(at)?.map(Value::Integer)
            }
            Kind::Digest => (row.try_get::<Option<i64>, _>(at)?)
                .map(|number| Value::Blob(number.to_be_bytes().to_vec())),
            Kind::Flag => {
                (row.try_get::<Option<bool>, _>(at)?).map(|flag| Value::Integer(i64::from(flag)))
            }
            Kind::Text => {
                (row.try_get::<Option<String>, _>(at)?).map(|text| Value::Text(read(text)))
            }
            Kind::Id => (row.try_get::<Option<uuid::Uuid>, _>(at)?)
                .map(|id| Value::Blob(id.as_bytes().to_vec())),
            Kind::Bytes => row.try_get::<Option<Vec<u8>>, _>(at)?.map(Value::Blob),
        };
        Ok(value.unwrap_or(Value::Null))
    };
    let kinds = part.columns().iter().map(|column| column.kind).enumerate();
    Ok(kinds.map(value).collect::<Result<_, _>>()?)
}

/// Where the journal stands.
pub(crate) async fn place(connection: &mut PgConnection) -> Result<Place, DatabaseError> {
    type Found = (i64, Option<i64>, Option<i64>, i64, Option<i64>);
    // Numbers that are given now are above what is there, and below what will be.
    let sql = "SELECT c.lived_ms, c.trusted_lived_ms, c.trusted_unix_ms,
             greatest((SELECT max(seq) FROM requests), (SELECT max(first_seq) FROM generations),
                 (pg_snapshot_xmax(pg_current_snapshot())::text::bigint + c.xid_base) << 12),
             (SELECT min(seq) FROM payloads)
         FROM cluster c";
    let found: Found = sqlx::query_as(sql).fetch_one(&mut *connection).await?;
    let (lived, trusted_lived, trusted_unix, last, oldest) = found;
    let sql = "SELECT first_seq, lived_ms FROM generations ORDER BY g";
    let spans: Vec<(i64, i64)> = sqlx::query_as(sql).fetch_all(connection).await?;
    let trusted = trusted_lived.map(Lived::from_column);
    Ok(Place {
        last: Seq::from_column(last),
        lived: Lived::from_column(lived),
        trusted: trusted.zip(trusted_unix.map(Unix::from_column)),
        spans: spans
            .into_iter()
            .map(|(first, at)| (Seq::from_column(first), Lived::from_column(at)))
            .collect(),
        oldest: oldest.map(Seq::from_column),
    })
}

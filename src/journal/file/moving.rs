//! The rows of `journal.db`, read for a move into a cluster, or written in a move out of one.
//!
//! **Invariant**: a file is read without a change. One that is written is a journal as the writer leaves it: what is made of
//! the log is made at the next start.

use std::path::Path;
use std::sync::Arc;

use rusqlite::functions::FunctionFlags;
use rusqlite::types::{Value, ValueRef};
use rusqlite::{Connection, params, params_from_iter};
use uuid::Uuid;

use super::claims::{self, Held};
use super::copy::NUMBERS_SKIPPED;
use super::{payloads, schema, timeline};
use crate::log::Outcome;
use crate::moving::{
    BYTES_MAX, CLAIMS_LIVE_MS, Gaps, Kind, Part, Place, Points, ROWS_MAX, Row, spans, unreadable,
};
use crate::origin::Origin;
use crate::{Durability, StorageError};
use base::clock::{Lived, Unix};
use base::order::Seq;

/// Of each key the newest claim, of those that have not run out. A table in memory, because claims of the log and of
/// runs are one list in the order of their keys.
const LIVE_CLAIMS: &str = "CREATE TEMP TABLE live_claims (
         scope BLOB PRIMARY KEY, request_id BLOB NOT NULL, payload BLOB NOT NULL, at_ms INTEGER NOT NULL, items INTEGER NOT NULL
     ) WITHOUT ROWID";
const FILL_CLAIMS: &str = "INSERT OR REPLACE INTO temp.live_claims
     SELECT scope, request_id, payload, at_ms, items FROM (
         SELECT scope, request_id, payload, at_ms, items FROM claim_log
         UNION ALL SELECT scope, request_id, payload, at_ms, items FROM claims)
     WHERE at_ms > (SELECT max(lived_ms) FROM timeline) - ?1 ORDER BY at_ms";

/// Rows behind a key: in the order of [`Part::columns`].
fn select(part: Part) -> String {
    let reached = |seq: &str| timeline::REACHED.replace("?1", seq);
    match part {
        Part::Requests => "SELECT seq, request_id, received_ms, connector, stream, outcome, endpoint, http_status, items, bytes, key, client,
                 item_key, idempotency_key, duplicate_of, errors, headers, sent_again_from, sender,
                 iif(json_valid(sender), sender ->> '$.delivery', NULL)
             FROM requests WHERE seq > ?1 ORDER BY seq LIMIT ?2".to_owned(),
        Part::Payloads => format!(
            "SELECT p.seq, p.crc32, r.outcome, r.received_ms, r.request_id, r.stream, p.items, ({}), p.request
             FROM payloads p JOIN requests r ON r.seq = p.seq WHERE p.seq > ?1 ORDER BY p.seq LIMIT ?2",
            reached("p.seq")
        ),
        Part::Claims => "SELECT scope, request_id, payload, at_ms, items FROM temp.live_claims
             WHERE scope > ?1 ORDER BY scope LIMIT ?2".to_owned(),
        Part::Bodies => format!(
            "SELECT b.seq, b.bytes, b.test, b.stream, b.content_type, b.item_key, b.idempotency_key, b.headers, b.body,
                 coalesce(r.connector, ''), ({})
             FROM bodies b LEFT JOIN requests r ON r.seq = b.seq WHERE b.seq > ?1 ORDER BY b.seq LIMIT ?2",
            reached("b.seq")
        ),
        Part::Quarantine => "SELECT q.seq, q.reason, coalesce(q.crc32, 0), coalesce(q.items, x''), coalesce(r.stream, ''), coalesce(r.outcome, 0)
             FROM quarantine q LEFT JOIN requests r ON r.seq = q.seq WHERE q.seq > ?1 ORDER BY q.seq LIMIT ?2".to_owned(),
    }
}

/// Stores the first columns of a row: those that the file has. The log entry of a request is there before.
fn insert(part: Part) -> &'static str {
    match part {
        Part::Requests => {
            "INSERT INTO requests (seq, request_id, received_ms, connector, stream, outcome, endpoint, http_status, items, bytes, key, client,
                 item_key, idempotency_key, duplicate_of, errors, headers, sent_again_from, sender)
             VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14, ?15, ?16, ?17, ?18, ?19)"
        }
        Part::Payloads => {
            "INSERT INTO payloads (seq, crc32, items, request)
             VALUES (?1, ?2, ?7, (SELECT origin(outcome, received_ms, request_id, connector, stream) FROM requests WHERE seq = ?1))"
        }
        Part::Claims => "",
        Part::Bodies => {
            "INSERT INTO bodies (seq, received_ms, bytes, test, stream, content_type, item_key, idempotency_key, headers, body)
             VALUES (?1, coalesce((SELECT received_ms FROM requests WHERE seq = ?1), 0), ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9)"
        }
        Part::Quarantine => {
            "INSERT INTO quarantine (seq, reason, crc32, items, request)
             VALUES (?1, ?2, ?3, ?4, (SELECT origin(outcome, received_ms, request_id, connector, stream) FROM requests WHERE seq = ?1))"
        }
    }
}

/// A journal that nobody writes.
pub(crate) struct FileRows {
    connection: Connection,
}

impl FileRows {
    /// Opens it to read.
    pub(crate) fn open(path: &Path) -> Result<Self, StorageError> {
        let connection = sqlite::open_reader(path, &Arc::default())?;
        connection.execute_batch(LIVE_CLAIMS)?;
        connection.execute(FILL_CLAIMS, [CLAIMS_LIVE_MS])?;
        Ok(Self { connection })
    }

    /// Whether nothing of an older version is left to be done. An older file is to be upgraded by a start first,
    /// because only the writer can do that.
    pub(crate) fn is_current(path: &Path) -> Result<bool, StorageError> {
        let connection = sqlite::open_reader(path, &Arc::default())?;
        if sqlite::format(&connection)? != schema::FORMAT {
            return Ok(false);
        }
        let sql = "SELECT EXISTS (SELECT 1 FROM timeline) AND NOT EXISTS (
             SELECT 1 FROM sqlite_schema WHERE type = 'table' AND name GLOB 'claims_[0-9]*')";
        Ok(connection.query_row(sql, [], |row| row.get(0))?)
    }

    /// Where it stands.
    pub(crate) fn place(&self) -> Result<Place, StorageError> {
        let sql = "SELECT lived_ms, seq FROM timeline ORDER BY lived_ms";
        let mut statement = self.connection.prepare(sql)?;
        let points = statement.query_map([], |row| {
            Ok((
                Lived::from_column(row.get(0)?),
                Seq::from_column(row.get(1)?),
            ))
        })?;
        let points: Vec<(Lived, Seq)> = points.collect::<Result<_, _>>()?;
        let lived = points.last().map_or(Lived::MIN, |(lived, _)| *lived);
        let oldest = payloads::first(&self.connection, Seq::MIN)?;
        Ok(Place {
            last: schema::last_seq(&self.connection)?,
            lived,
            trusted: timeline::trusted_last(&self.connection)?,
            spans: spans(&points, lived),
            oldest,
        })
    }

    /// The next rows of a part behind a key.
    pub(crate) fn after(&self, part: Part, key: &Value) -> Result<Vec<Row>, StorageError> {
        let mut statement = self.connection.prepare_cached(&select(part))?;
        let mut found = statement.query(params![key, ROWS_MAX])?;
        let (mut rows, mut bytes) = (Vec::new(), 0);
        while let Some(row) = found.next()? {
            let mut values = Row::new();
            for (at, column) in part.columns().iter().enumerate() {
                let value = row.get_ref(at)?;
                if let ValueRef::Blob(blob) | ValueRef::Text(blob) = value {
                    bytes += blob.len();
                }
                let typed = typed(column.kind, value);
                let value = typed.ok_or_else(|| {
                    let key = values.first().cloned().unwrap_or(Value::Null);
                    unreadable(part, &key, column.name)
                })?;
                values.push(value);
            }
            match (part, &values[..]) {
                (Part::Payloads, [_, Value::Integer(crc32), ..]) if payloads::is_group(*crc32) => {
                    let directory: Option<Vec<u8>> = row.get(values.len())?;
                    let group = separate(&values, &directory.unwrap_or_default());
                    rows.extend(group.ok_or_else(|| unreadable(part, &values[0], "request"))?);
                }
                _ => rows.push(values),
            }
            if bytes >= BYTES_MAX || rows.len() >= ROWS_MAX as usize {
                break;
            }
        }
        Ok(rows)
    }
}

/// The rows of the payloads of a group, in the order of [`Part::columns`]. None: its directory is damaged. The cluster
/// has a row for each payload.
fn separate(row: &Row, directory: &[u8]) -> Option<Vec<Row>> {
    let [
        _,
        Value::Integer(crc32),
        _,
        _,
        _,
        _,
        Value::Blob(items),
        lived,
    ] = &row[..]
    else {
        return None;
    };
    let records = payloads::records(*crc32, directory)?;
    let rows = records.iter().map(|record| {
        let origin = Origin::unpack(record.origin)?;
        let items = items.get(record.at.clone()).unwrap_or_default();
        Some(vec![
            Value::Integer(record.seq.to_column()),
            Value::Integer(record.crc32.into()),
            Value::Integer(origin.outcome.code()),
            Value::Integer(origin.received_at.to_column()),
            Value::Blob(origin.request_id.as_bytes().to_vec()),
            Value::Text(origin.stream),
            Value::Blob(items.to_vec()),
            lived.clone(),
        ])
    });
    rows.collect()
}

/// The value, if it is of this kind. SQLite stores any type in any column, and PostgreSQL does not.
fn typed(kind: Kind, value: ValueRef<'_>) -> Option<Value> {
    let is_of_kind = match (kind, value) {
        (_, ValueRef::Null) => true,
        (Kind::Number | Kind::Small | Kind::Medium, ValueRef::Integer(_)) => true,
        (Kind::Flag, ValueRef::Integer(number)) => {
            return Some(Value::Integer(i64::from(number != 0)));
        }
        (Kind::Text, ValueRef::Text(text)) => std::str::from_utf8(text).is_ok(),
        (Kind::Id, ValueRef::Blob(bytes)) => bytes.len() == 16,
        (Kind::Digest, ValueRef::Blob(bytes)) => bytes.len() == 8,
        (Kind::Bytes, ValueRef::Blob(_)) => true,
        _ => false,
    };
    is_of_kind.then(|| Value::try_from(value).ok())?
}

/// A journal that is being written.
pub(crate) struct NewFile {
    connection: Connection,
    points: Points,
    gaps: Gaps,
    claims: Vec<([u8; 16], Held)>,
    oldest: Option<Seq>,
}

impl NewFile {
    /// Makes an empty one. `oldest`: the oldest request that waits.
    pub(crate) fn make(path: &Path, oldest: Option<Seq>) -> Result<Self, StorageError> {
        let connection = schema::open_writer(path, Durability::Os)?;
        connection.pragma_update(None, "wal_autocheckpoint", 4_000)?;
        let flags = FunctionFlags::SQLITE_UTF8 | FunctionFlags::SQLITE_DETERMINISTIC;
        connection.create_scalar_function("origin", 5, flags, |context| {
            let bytes = context.get_raw(2).as_blob().unwrap_or_default();
            let mut packed = Vec::new();
            Origin {
                request_id: Uuid::from_slice(bytes).unwrap_or_default(),
                received_at: Unix::from_column(context.get(1)?),
                outcome: Outcome::from_code(context.get(0)?),
                connector: context.get(3)?,
                stream: context.get(4)?,
            }
            .write(&mut packed);
            Ok(packed)
        })?;
        Ok(Self {
            connection,
            points: Points::default(),
            gaps: Gaps::default(),
            claims: Vec::new(),
            oldest,
        })
    }

    /// Stores rows of a part in one transaction. They come in the order of their keys, and the parts in theirs.
    pub(crate) fn store(&mut self, part: Part, rows: Vec<Row>) -> Result<(), StorageError> {
        if part == Part::Claims {
            return self.store_claims(&rows);
        }
        sqlite::begin(&self.connection)?;
        {
            let mut statement = self.connection.prepare_cached(insert(part))?;
            let columns = statement.parameter_count();
            for row in &rows {
                statement.execute(params_from_iter(&row[..columns]))?;
            }
        }
        sqlite::commit(&self.connection)?;
        for row in &rows {
            self.note(part, row);
        }
        Ok(())
    }

    /// What is known of time and numbers by a row.
    fn note(&mut self, part: Part, row: &Row) {
        let Value::Integer(seq) = row[0] else { return };
        let seq = Seq::from_column(seq);
        match (part, row.last()) {
            (Part::Requests, _) if self.oldest.is_some_and(|oldest| seq >= oldest) => {
                self.gaps.request(seq);
            }
            (Part::Payloads, Some(Value::Integer(at))) => {
                self.points.arrived(seq, Lived::from_column(*at));
            }
            (Part::Bodies, Some(Value::Integer(at))) => {
                self.points.given(seq, Lived::from_column(*at));
            }
            _ => {}
        }
    }

    fn store_claims(&mut self, rows: &[Row]) -> Result<(), StorageError> {
        for row in rows {
            let [
                Value::Blob(scope),
                Value::Blob(request_id),
                Value::Blob(payload),
                Value::Integer(at),
                Value::Integer(items),
            ] = &row[..]
            else {
                continue;
            };
            let (Ok(scope), Ok(payload)) = (scope[..].try_into(), payload[..].try_into()) else {
                continue;
            };
            let held = Held {
                request_id: Uuid::from_slice(request_id).unwrap_or_default(),
                items: u32::try_from(*items).unwrap_or(u32::MAX),
                payload,
                at: Lived::from_column(*at),
            };
            self.claims.push((scope, held));
        }
        if self.claims.len() >= claims::RUN_CLAIMS {
            self.end_run()?;
        }
        Ok(())
    }

    fn end_run(&mut self) -> Result<(), StorageError> {
        let claims = std::mem::take(&mut self.claims);
        if claims.is_empty() {
            return Ok(());
        }
        sqlite::begin(&self.connection)?;
        claims::append_run(&self.connection, claims)?;
        Ok(sqlite::commit(&self.connection)?)
    }

    /// Ends it: time goes on from where the cluster was, and numbers far above those that the cluster gives. The
    /// numbers are skipped, because the cluster may go on and give them to other requests.
    pub(crate) fn end(mut self, place: &Place) -> Result<(), StorageError> {
        self.end_run()?;
        for (first, lived) in &place.spans {
            self.points.given(*first - 1, *lived);
        }
        self.points.given(place.last, place.lived);
        sqlite::begin(&self.connection)?;
        for (lived, seq) in std::mem::take(&mut self.points).rising() {
            self.connection.execute(
                "INSERT INTO timeline (lived_ms, seq) VALUES (?1, ?2)",
                [lived.to_column(), seq.to_column()],
            )?;
        }
        if let Some((lived, unix)) = place.trusted {
            self.connection.execute_batch(timeline::CLOCK)?;
            self.connection.execute(
                "INSERT OR REPLACE INTO clock VALUES (1, ?1, ?2)",
                [lived.to_column(), unix.to_column()],
            )?;
        }
        for numbers in std::mem::take(&mut self.gaps).ranges() {
            schema::skip(&self.connection, numbers)?;
        }
        let last = place.last;
        schema::skip(&self.connection, last..last + NUMBERS_SKIPPED)?;
        Ok(sqlite::commit(&self.connection)?)
    }
}

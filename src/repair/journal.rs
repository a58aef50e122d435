//! A journal that was salvaged becomes a journal again.
//!
//! **Invariant**: no number is given to a second request, and a request whose payload is lost is told of by every sink
//! that needs it: it stands in `quarantine`.

use std::collections::HashMap;
use std::path::Path;
use std::time::Duration;

use rusqlite::types::Value;
use rusqlite::{Connection, OptionalExtension, params};
use uuid::Uuid;

use super::report::Repair;
use super::salvage::Salvaged;
use super::{POOL, RepairError};
use ::journal::{Origin, Outcome, copy};
use base::clock::Unix;
use base::order::Seq;
use item::Items;

/// More requests than can have stood in what cannot be read.
const NUMBERS_SKIPPED: u64 = 1 << 20;
const LOST: &str = "the payload was damaged on the disk";
const NAMELESS: &str =
    "the log entry was damaged on the disk: nobody knows which stream this was for";

pub(super) fn settle(
    path: &Path,
    salvaged: &Salvaged,
    repair: &mut Repair,
) -> Result<(), RepairError> {
    let connection = &salvaged.connection;
    let damaged = |table| salvaged.is_stale || salvaged.is_damaged(table);
    let highest = highest(connection)?;
    if !salvaged.is_older {
        begin(connection, repair)?;
    }
    let mut above = highest;
    if damaged("requests") {
        let restored = match salvaged.is_older {
            true => {
                let (restored, seen) = restore_of_indexes(connection, salvaged)?;
                above = above.max(seen);
                restored
            }
            false => restore_of_payloads(connection)?,
        };
        note_restored(repair, restored);
        let nameless = connection.execute(
            "INSERT OR IGNORE INTO quarantine (seq, reason, crc32, items)
                 SELECT seq, ?1, crc32, items FROM payloads p
                 WHERE NOT EXISTS (SELECT 1 FROM requests r WHERE r.seq = p.seq)",
            [NAMELESS],
        )?;
        connection.execute(
            "DELETE FROM payloads WHERE NOT EXISTS (SELECT 1 FROM requests r WHERE r.seq = payloads.seq)",
            [],
        )?;
        if nameless > 0 {
            repair.notes.push(format!(
                "{nameless} payloads are in the table quarantine because nobody knows what stream they were for"
            ));
        }
    }
    if damaged("requests") || damaged("payloads") || damaged("quarantine") {
        let lost = list_lost(path, connection)?;
        if lost > 0 {
            repair.notes.push(format!(
                "the payloads of {lost} accepted requests are lost: they become dead letters of the sinks that need them"
            ));
        }
        let last: Option<i64> =
            connection.query_row("SELECT max(seq) FROM requests", [], |row| row.get(0))?;
        let last = last.map_or(Seq::MIN, Seq::from_column);
        copy::skip(connection, last..above.max(last) + NUMBERS_SKIPPED)?;
    }
    if salvaged.schema_is_damaged {
        repair
            .notes
            .push("idempotency keys that were used before may be taken as new".to_owned());
    }
    Ok(())
}

/// What a journal of this format needs before anything is asked of its rows.
fn begin(connection: &Connection, repair: &mut Repair) -> Result<(), rusqlite::Error> {
    copy::forget_spans(connection)?;
    copy::list_runs(connection)?;
    // From here on each payload is a row, and what is asked of each row is asked of each payload.
    let more = copy::separate_payloads(connection)?;
    if let Some(payloads) = repair.table_mut("payloads") {
        payloads.kept += more;
    }
    Ok(())
}

fn note_restored(repair: &mut Repair, restored: u64) {
    if restored == 0 {
        return;
    }
    if let Some(log) = repair.table_mut("requests") {
        log.kept += restored;
        log.lost = log.lost.map(|lost| lost.saturating_sub(restored));
    }
    repair.notes.push(format!(
        "{restored} entries of the request log are restored of what else knows of them, without what only they held"
    ));
}

/// Puts the accepted requests whose payloads are gone into quarantine, as far as a sink may need them; their number.
fn list_lost(path: &Path, connection: &Connection) -> Result<usize, RepairError> {
    let Some(after) = needed_after(path).or(lowest_payload(connection)?) else {
        return Ok(0);
    };
    let lost = connection.execute(
        "INSERT OR IGNORE INTO quarantine (seq, reason) SELECT seq, ?1 FROM requests r
             WHERE (outcome = 0 OR (outcome = 4 AND http_status = 202)) AND seq > ?2
                 AND NOT EXISTS (SELECT 1 FROM payloads p WHERE p.seq = r.seq)",
        params![LOST, after.to_column()],
    )?;
    Ok(lost)
}

/// The highest number that stands anywhere. A file of an older format may lack a table.
fn highest(connection: &Connection) -> Result<Seq, RepairError> {
    let mut highest = 0;
    for (table, column) in [
        ("requests", "seq"),
        ("payloads", "seq"),
        ("quarantine", "seq"),
        ("bodies", "seq"),
        ("log_spans", "last_seq"),
    ] {
        if sqlite::has_table(connection, table)? {
            let sql = format!("SELECT coalesce(max({column}), 0) FROM {table}");
            let found: i64 = connection.query_row(&sql, [], |row| row.get(0))?;
            highest = highest.max(found);
        }
    }
    Ok(Seq::from_column(highest))
}

/// Every sink has the requests up to here, as far as the pool knows.
fn needed_after(path: &Path) -> Option<Seq> {
    let pool = path.with_file_name(POOL);
    let meta = sqlite::open_reader(&pool, &std::sync::Arc::default())
        .and_then(|connection| ::pool::copy::copy_state(&connection));
    let meta = meta.ok()?;
    (!meta.cursors.is_empty()).then_some(meta.low_water)
}

fn lowest_payload(connection: &Connection) -> Result<Option<Seq>, rusqlite::Error> {
    let lowest: Option<i64> =
        connection.query_row("SELECT min(seq) FROM payloads", [], |row| row.get(0))?;
    Ok(lowest.map(Seq::from_column))
}

/// Log entries whose rows are lost, of what stands beside their payloads, in place or in quarantine. How many.
fn restore_of_payloads(connection: &Connection) -> Result<u64, RepairError> {
    let mut statement = connection.prepare(
        "SELECT seq, request, items FROM payloads UNION ALL SELECT seq, request, items FROM quarantine",
    )?;
    let mut rows = statement.query([])?;
    let mut restored = 0;
    while let Some(row) = rows.next()? {
        let seq: i64 = row.get(0)?;
        let known = "SELECT EXISTS (SELECT 1 FROM requests WHERE seq = ?1)";
        if super::exists(connection, known, seq)? {
            continue;
        }
        let request: Option<Vec<u8>> = row.get(1)?;
        let Some(origin) = request.and_then(|request| Origin::unpack(&request)) else {
            continue;
        };
        let restore = Restore {
            seq,
            request_id: origin.request_id.as_bytes(),
            received_at: origin.received_at,
            connector: &origin.connector,
            stream: &origin.stream,
            outcome: if origin.outcome == Outcome::Removed {
                4
            } else {
                0
            },
            http_status: 202,
            payload: row.get(2)?,
        };
        restored += restore.into_log(connection)?;
    }
    Ok(restored)
}

/// What is known of a log entry whose row is lost.
struct Restore<'a> {
    seq: i64,
    request_id: &'a [u8],
    received_at: Unix,
    connector: &'a str,
    stream: &'a str,
    outcome: i64,
    http_status: u16,
    payload: Option<Vec<u8>>,
}

impl Restore<'_> {
    /// How many entries that makes: none if there is one of this number.
    fn into_log(self, connection: &Connection) -> Result<u64, rusqlite::Error> {
        let bytes = self.payload.as_ref().map_or(0, Vec::len).cast_signed() as i64;
        let items = (self.payload).and_then(|items| Items::from_bytes(items.into()).ok());
        let items = items.map_or(0, |items| items.len()).cast_signed() as i64;
        let made = connection
            .prepare_cached(
                "INSERT OR IGNORE INTO requests (seq, request_id, received_ms, connector, stream, outcome, endpoint,
                     http_status, items, bytes, key, client, errors)
                 VALUES (?1, ?2, ?3, ?4, ?5, ?6, 0, ?7, ?8, ?9, '', '', 'this entry of the log was damaged, and is restored in part')",
            )?
            .execute(params![
                self.seq,
                self.request_id,
                self.received_at.to_column(),
                self.connector,
                self.stream,
                self.outcome,
                self.http_status,
                items,
                bytes,
            ])?;
        Ok(made as u64)
    }
}

/// What the indexes of an older format know of a log entry.
#[derive(Default)]
struct Known {
    request_id: Option<Vec<u8>>,
    connector: Option<(String, i64)>,
}

/// Log entries whose rows are lost, of what the indexes know of them. How many, and the highest number that was seen.
fn restore_of_indexes(
    connection: &Connection,
    salvaged: &Salvaged,
) -> Result<(u64, Seq), RepairError> {
    let (lost, highest) = known_to_indexes(connection, salvaged)?;
    let mut streams: HashMap<String, Option<String>> = HashMap::new();
    let mut restored = 0;
    for (seq, known) in lost {
        let (Some(id), Some((connector, outcome))) = (known.request_id, known.connector) else {
            continue;
        };
        let stream = match streams.get(&connector) {
            Some(stream) => stream.clone(),
            None => {
                let stream = only_stream(connection, &connector)?;
                streams.insert(connector.clone(), stream.clone());
                stream
            }
        };
        let payload: Option<Vec<u8>> = connection
            .prepare_cached("SELECT items FROM payloads WHERE seq = ?1")?
            .query_row([seq], |row| row.get(0))
            .optional()?;
        if payload.is_some() && stream.is_none() {
            continue;
        }
        let restore = Restore {
            seq,
            request_id: &id,
            received_at: received_at(&id),
            connector: &connector,
            stream: &stream.unwrap_or_default(),
            outcome,
            http_status: if matches!(outcome, 0 | 2 | 3) { 202 } else { 0 },
            payload,
        };
        restored += restore.into_log(connection)?;
    }
    Ok((restored, highest))
}

/// What the indexes know of entries whose rows are lost, by their numbers; and the highest number that was seen.
fn known_to_indexes(
    connection: &Connection,
    salvaged: &Salvaged,
) -> Result<(HashMap<i64, Known>, Seq), RepairError> {
    let mut lost: HashMap<i64, Known> = HashMap::new();
    let mut highest = 0;
    for (index, entries) in &salvaged.indexes {
        for entry in entries {
            let Some(Value::Integer(seq)) = entry.last() else {
                continue;
            };
            highest = highest.max(*seq);
            let known = "SELECT EXISTS (SELECT 1 FROM requests WHERE seq = ?1)";
            if !lost.contains_key(seq) && super::exists(connection, known, seq)? {
                continue;
            }
            match (&**index, &**entry) {
                ("requests_by_id", [Value::Blob(id), _]) => {
                    lost.entry(*seq).or_default().request_id = Some(id.clone());
                }
                ("requests_by_connector", [Value::Text(name), Value::Integer(outcome), _]) => {
                    lost.entry(*seq).or_default().connector = Some((name.clone(), *outcome));
                }
                _ => {}
            }
        }
    }
    Ok((lost, Seq::from_column(highest)))
}

/// The stream that a connector's requests are for, if it is always the same.
fn only_stream(
    connection: &Connection,
    connector: &str,
) -> Result<Option<String>, rusqlite::Error> {
    let sql = "SELECT min(stream), max(stream) FROM requests WHERE connector = ?1 AND outcome = 0";
    let (low, high): (Option<String>, Option<String>) =
        connection.query_row(sql, [connector], |row| Ok((row.get(0)?, row.get(1)?)))?;
    Ok(low.filter(|low| Some(low) == high.as_ref()))
}

/// When a request arrived stands in its id.
fn received_at(id: &[u8]) -> Unix {
    let time = Uuid::from_slice(id).ok().and_then(|id| id.get_timestamp());
    time.map_or(Unix::MIN, |time| {
        let (seconds, nanoseconds) = time.to_unix();
        Unix::MIN + Duration::new(seconds, nanoseconds)
    })
}

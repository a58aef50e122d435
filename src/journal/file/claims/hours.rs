//! Claims of files of format 3, which had a table for each hour.
//!
//! **Invariant**: an hour becomes runs in one transaction.

use rusqlite::{Connection, ErrorCode};

use base::clock::Lived;

/// Makes runs of each hour, of so many claims at most.
pub(super) fn adopt(connection: &Connection, run_claims: usize) -> Result<(), rusqlite::Error> {
    let mut statement = connection.prepare(
        "SELECT name FROM sqlite_schema WHERE type = 'table' AND name GLOB 'claims_[0-9]*'",
    )?;
    let names = statement.query_map([], |row| row.get::<_, String>(0))?;
    let mut hours = Vec::new();
    for name in names {
        let name = name?;
        let hour = name.strip_prefix("claims_");
        hours.extend(hour.and_then(|hour| hour.parse::<u64>().ok()));
    }
    drop(statement);
    hours.sort_unstable();
    for hour in hours {
        match adopt_hour(connection, hour, run_claims) {
            Ok(()) => connection.query_row("PRAGMA wal_checkpoint(TRUNCATE)", [], |_| Ok(()))?,
            // Its definition is damaged.
            Err(error) if error.sqlite_error_code() == Some(ErrorCode::Unknown) => {
                tracing::warn!(%error, hour, "idempotency keys of one hour cannot be read: they are treated as new");
            }
            Err(error) => return Err(error),
        }
    }
    Ok(())
}

/// Its claims count as made at the end of the hour, so that none expires early.
fn adopt_hour(
    connection: &Connection,
    hour: u64,
    run_claims: usize,
) -> Result<(), rusqlite::Error> {
    let end = hour.saturating_add(1).saturating_mul(3_600_000);
    let ends_at = Lived::from_ms(end).to_column();
    sqlite::begin(connection)?;
    let adopted = connection.execute_batch(&format!(
        "INSERT INTO claims (run, scope, request_id, items, payload, at_ms)
             SELECT (SELECT coalesce(max(run), 0) + 1 FROM claim_runs) + (row_number() OVER (ORDER BY scope) - 1) / {run_claims},
                 scope, request_id, items, payload, at_ms FROM claims_{hour} ORDER BY scope;
         INSERT INTO claim_runs (run, newest_ms, log_through)
             SELECT DISTINCT run, {ends_at}, 0 FROM claims WHERE run > (SELECT coalesce(max(run), 0) FROM claim_runs);
         DROP TABLE claims_{hour};
         COMMIT;"
    ));
    if adopted.is_err() {
        sqlite::roll_back(connection)?;
    }
    adopted
}

//! Claims of files of format 3, which had a table for each hour.
//!
//! **Invariant**: an hour becomes a run in one transaction.

use rusqlite::Connection;

use super::HOUR_MS;
use crate::sqlite;

/// Makes a run of each hour.
pub(super) fn adopt(connection: &Connection) -> Result<(), rusqlite::Error> {
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
        adopt_hour(connection, hour)?;
    }
    Ok(())
}

fn adopt_hour(connection: &Connection, hour: u64) -> Result<(), rusqlite::Error> {
    let end_ms = hour.saturating_add(1).saturating_mul(HOUR_MS);
    sqlite::begin(connection)?;
    let adopted = connection.execute_batch(&format!(
        "INSERT INTO claim_runs SELECT coalesce(max(run), 0) + 1, {end_ms}, coalesce(max(log_through), 0), NULL FROM claim_runs;
         INSERT INTO claims (run, scope, request_id, items, payload, at_ms)
             SELECT (SELECT max(run) FROM claim_runs), scope, request_id, items, payload, at_ms FROM claims_{hour} ORDER BY scope;
         DROP TABLE claims_{hour};
         COMMIT;"
    ));
    if adopted.is_err() {
        sqlite::roll_back(connection)?;
    }
    adopted
}

//! Answers of acts that may come again under the same `Idempotency-Key`.
//!
//! **Invariant**: of one operator and stream, a key stands for one act for 24 hours, also if it was undone since.

use std::time::Duration;

use rusqlite::{Connection, OptionalExtension, params};
use uuid::Uuid;

use super::{ActRefused, Acted, Call, Fault, Outcome};
use base::clock::Lived;
use base::order::ChangeSeq;

/// So long the first answer is given again: as long as the journal holds an idempotency key, because a caller repeats
/// acts and requests alike.
const KEPT: Duration = Duration::from_hours(24);

/// The first answer to this call, if it was made before. So a caller that lost the answer can repeat the call and
/// changes nothing twice.
pub(super) fn earlier(connection: &Connection, call: &Call<'_>) -> Result<Option<Acted>, Fault> {
    let Some(repeatable) = call.repeatable else {
        return Ok(None);
    };
    let oldest = (Lived::now() - KEPT).to_column();
    let found = connection
        .prepare_cached(
            "SELECT digest, request_id, seq, answer FROM act_answers
             WHERE stream = ?1 AND operator = ?2 AND idempotency_key = ?3 AND lived_ms > ?4",
        )?
        .query_row(
            params![&**call.stream, &*call.by.operator, repeatable.key, oldest],
            |row| {
                let digest: Vec<u8> = row.get(0)?;
                let request_id: String = row.get(1)?;
                let acted = Acted {
                    request_id: Uuid::parse_str(&request_id).unwrap_or_default(),
                    seq: ChangeSeq::from_column(row.get(2)?),
                    outcome: outcome(row.get_ref(3)?.as_str()?),
                    replayed: true,
                };
                Ok((digest, acted))
            },
        )
        .optional()?;
    match found {
        Some((digest, _)) if digest != repeatable.digest => Err(ActRefused::KeyReused.into()),
        Some((_, acted)) => Ok(Some(acted)),
        None => Ok(None),
    }
}

fn outcome(json: &str) -> Outcome {
    serde_json::from_str(json).unwrap_or_default()
}

/// Keeps the answer, and forgets some that are too old: not all of them, so that no act pays for many others.
pub(super) fn keep(connection: &Connection, call: &Call<'_>, acted: &Acted) -> Result<(), Fault> {
    let Some(repeatable) = call.repeatable else {
        return Ok(());
    };
    let now = Lived::now();
    let answer = serde_json::to_string(&acted.outcome).unwrap_or_default();
    connection
        .prepare_cached(
            "INSERT OR REPLACE INTO act_answers (stream, operator, idempotency_key, digest, request_id, seq, answer, lived_ms)
             VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8)",
        )?
        .execute(params![
            &**call.stream,
            &*call.by.operator,
            repeatable.key,
            repeatable.digest,
            acted.request_id.to_string(),
            acted.seq.to_column(),
            answer,
            now.to_column(),
        ])?;
    connection
        .prepare_cached("DELETE FROM act_answers WHERE rowid IN (SELECT rowid FROM act_answers WHERE lived_ms <= ?1 LIMIT 20)")?
        .execute([(now - KEPT).to_column()])?;
    Ok(())
}

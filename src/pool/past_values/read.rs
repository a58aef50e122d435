//! Reading past values of an item, with what operators wrote over them.
//!
//! **Invariant**: the newest come first; of one change those of the request that was accepted last.

use rusqlite::Row;

use crate::acts::{Until, json_name};
use crate::{Pool, PoolError};
use base::clock::Unix;
use base::order::ChangeSeq;
use item::field_name;

/// Values of sources that count, and all writes of operators that are kept.
const ALL: &str =
    "SELECT field, past_values.seq, accepted_seq, position, value, iif(removed, 'removed', iif(value IS NULL, 'gone', 'value')) AS kind,
            at_ms, request_id, NULL AS by_name, NULL AS until_lived, NULL AS until_wall
     FROM past_values JOIN recorded_streams AS of ON of.stream = past_values.stream AND past_values.seq > of.since
     WHERE past_values.stream = ?1 AND key = ?2 AND (?3 IS NULL OR field = ?3)
       AND n > (SELECT max(n) FROM past_values AS other
                WHERE other.stream = ?1 AND other.key = ?2 AND other.field = past_values.field) - of.keep
     UNION ALL
     SELECT field, writes.n, 0, 0, nullif(value, ''), iif(op = 0, 'release', iif(op = 1, 'override', 'add')),
            writes.at_ms, coalesce(request_id, ''), writes.by_name, until_lived, until_wall
     FROM writes LEFT JOIN acts ON acts.n = writes.n
     WHERE writes.stream = ?1 AND key = ?2 AND (?3 IS NULL OR field = ?3)";

/// A value that a field had.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PastValue {
    pub field: String,
    /// As JSON; none: the field ended, or an override of it.
    pub value: Option<String>,
    pub kind: PastKind,
    /// When the request that wrote it arrived, or the operator acted.
    pub at: Unix,
    /// Empty: an act of which only what it wrote is kept.
    pub request_id: String,
    /// The next page begins behind it, because one change can have several values.
    pub place: PastPlace,
}

/// What a past value is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum PastKind {
    /// The source wrote it.
    Value,
    /// The source's update had the field no more.
    Gone,
    /// The item was removed.
    Removed,
    /// An operator wrote over it: `override`, `add` or `release`.
    Act {
        verb: String,
        by: String,
        until: Option<Unix>,
    },
}

impl PastKind {
    /// As answers have it.
    pub fn as_str(&self) -> &str {
        match self {
            Self::Value => "value",
            Self::Gone => "gone",
            Self::Removed => "removed",
            Self::Act { verb, .. } => verb,
        }
    }
}

/// Where a value stands among those of its item.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PastPlace {
    pub seq: ChangeSeq,
    accepted: i64,
    position: i64,
    /// As JSON writes it.
    field: String,
}

impl std::fmt::Display for PastPlace {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let (seq, field) = (self.seq.get(), &self.field);
        write!(out, "{seq}.{}.{}.{field}", self.accepted, self.position)
    }
}

impl std::str::FromStr for PastPlace {
    type Err = ();

    fn from_str(text: &str) -> Result<Self, ()> {
        let mut parts = text.splitn(4, '.');
        let mut number = || {
            parts
                .next()?
                .parse::<i64>()
                .ok()
                .filter(|number| *number >= 0)
        };
        let numbers = (number(), number(), number());
        let (Some(seq), Some(accepted), Some(position)) = numbers else {
            return Err(());
        };
        Ok(Self {
            seq: ChangeSeq::from_column(seq),
            accepted,
            position,
            field: parts.next().ok_or(())?.to_owned(),
        })
    }
}

impl PastValue {
    fn read(row: &Row<'_>) -> Result<Self, rusqlite::Error> {
        let field: String = row.get("field")?;
        let until = Until::of_columns(row.get("until_lived")?, row.get("until_wall")?);
        let kind = match row.get_ref("kind")?.as_str()? {
            "value" => PastKind::Value,
            "gone" => PastKind::Gone,
            "removed" => PastKind::Removed,
            verb => PastKind::Act {
                verb: verb.to_owned(),
                by: row.get("by_name")?,
                until: until.map(Until::time),
            },
        };
        Ok(Self {
            value: row.get("value")?,
            kind,
            at: Unix::from_column(row.get("at_ms")?),
            request_id: row.get("request_id")?,
            place: PastPlace {
                seq: ChangeSeq::from_column(row.get("seq")?),
                accepted: row.get("accepted_seq")?,
                position: row.get("position")?,
                field: field.clone(),
            },
            field: field_name(&field).into_owned(),
        })
    }
}

impl Pool {
    /// At most `limit` past values of an item, or of one of its fields; those after a place. Empty: nothing is kept of it.
    ///
    /// # Errors
    /// SQLite's.
    pub async fn past_values(
        &self,
        stream: &str,
        key: &str,
        field: Option<&str>,
        after: Option<&PastPlace>,
        limit: u32,
    ) -> Result<Vec<PastValue>, PoolError> {
        let after = after.cloned().unwrap_or(PastPlace {
            seq: ChangeSeq::MAX,
            accepted: 0,
            position: 0,
            field: String::new(),
        });
        let sql = format!(
            "SELECT * FROM ({ALL}) WHERE (seq, accepted_seq, position) < (?4, ?5, ?6)
                OR (seq, accepted_seq, position) = (?4, ?5, ?6) AND field > ?7
             ORDER BY seq DESC, accepted_seq DESC, position DESC, field LIMIT ?8"
        );
        let values = (
            stream.to_owned(),
            key.to_owned(),
            field.map(json_name),
            after.seq.to_column(),
            after.accepted,
            after.position,
            after.field,
            limit,
        );
        Ok(self.reads.rows(sql, values, PastValue::read).await?)
    }
}

//! PUTs and their undos that are under way: what their act needs, until their data is known to be stored.
//!
//! The data of a PUT is in the journal, and its act is here: two transactions. What the act needs is stored before the data
//! is submitted, and deleted by the transaction that records the act. The daemon records what the caller cannot any more:
//! `Operator::finish_puts`.
//!
//! **Invariant**: data is submitted only while its intent is stored. An act is recorded by the transaction that deletes its
//! intent, so several that finish the same one record it once.

use std::sync::Arc;

use rusqlite::{Connection, OptionalExtension as _, Row, params};
use uuid::Uuid;

use super::{ActRefused, Acted, Author, Call, Fault, Made, PUT, Repeatable, answers};
use crate::{Pool, PoolError};
use base::order::ChangeSeq;
use sqlite::has_table;

pub(crate) const INTENTS: &str = "CREATE TABLE IF NOT EXISTS act_intents (
    request_id TEXT NOT NULL PRIMARY KEY,
    stream TEXT NOT NULL,
    key TEXT NOT NULL,
    fields TEXT,
    before TEXT,
    undoes INTEGER,
    operator TEXT NOT NULL,
    by_name TEXT NOT NULL,
    client TEXT NOT NULL,
    idempotency_key TEXT,
    digest BLOB
);";
const COLUMNS: &str = "request_id, stream, key, fields, before, undoes, operator, by_name, client, idempotency_key, digest";

/// Data that is to be submitted once, whoever submits it: a PUT, or the undo of one. Then say so with [`Pool::submitted`].
#[derive(Debug, Clone)]
pub struct PutIntent {
    pub stream: Arc<str>,
    pub key: String,
    /// The JSON text of the flat object; none: the item is to be removed.
    pub fields: Option<String>,
    /// What a PUT replaces; none: there was no item. It is kept now, because the data overwrites it before the act is
    /// recorded.
    pub(super) before: Option<String>,
    /// The number of the PUT that is undone; none: it is a PUT.
    pub(super) undoes: Option<ChangeSeq>,
    pub(super) by: Author,
    pub(super) repeatable: Option<Repeatable>,
}

impl PutIntent {
    /// Of the call that came first, which names the intent.
    pub fn request_id(&self) -> Uuid {
        self.by.request_id
    }

    fn verb(&self) -> &'static str {
        match self.undoes {
            None => PUT,
            Some(_) => "undo",
        }
    }

    pub(super) fn store(&self, connection: &Connection) -> Result<(), rusqlite::Error> {
        connection.execute_batch(INTENTS)?;
        let sql = format!(
            "INSERT INTO act_intents ({COLUMNS}) VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11)"
        );
        connection.execute(
            &sql,
            params![
                self.request_id().to_string(),
                &*self.stream,
                self.key,
                self.fields,
                self.before,
                self.undoes.map(ChangeSeq::to_column),
                &*self.by.operator,
                &*self.by.name,
                self.by.client,
                self.repeatable.as_ref().map(|call| &call.key),
                self.repeatable.as_ref().map(|call| call.digest),
            ],
        )?;
        Ok(())
    }

    /// Deletes it. False: somebody else has. The transaction that deletes it records the act, so that two callers
    /// record it once.
    fn delete(&self, connection: &Connection) -> Result<bool, rusqlite::Error> {
        let sql = "DELETE FROM act_intents WHERE request_id = ?1";
        Ok(connection.execute(sql, [self.request_id().to_string()])? > 0)
    }

    fn read(row: &Row<'_>) -> Result<Self, rusqlite::Error> {
        let request_id: String = row.get(0)?;
        let key: Option<String> = row.get(9)?;
        let digest: Option<[u8; 32]> = row.get(10)?;
        Ok(Self {
            stream: row.get(1)?,
            key: row.get(2)?,
            fields: row.get(3)?,
            before: row.get(4)?,
            undoes: row.get::<_, Option<i64>>(5)?.map(ChangeSeq::from_column),
            by: Author {
                operator: row.get(6)?,
                name: row.get(7)?,
                client: row.get(8)?,
                request_id: Uuid::parse_str(&request_id).unwrap_or_default(),
            },
            repeatable: key
                .zip(digest)
                .map(|(key, digest)| Repeatable { key, digest }),
        })
    }

    /// Whether its act is recorded, which may be under the id of its data.
    fn is_recorded(&self, connection: &Connection, data: Uuid) -> Result<bool, rusqlite::Error> {
        let sql = "SELECT EXISTS (SELECT 1 FROM acts WHERE stream = ?1 AND request_id IN (?2, ?3))";
        let (own, data) = (self.request_id().to_string(), data.to_string());
        connection.query_row(sql, params![&*self.stream, own, data], |row| row.get(0))
    }
}

/// The one with this condition, of which there is at most one.
fn find(
    connection: &Connection,
    condition: &str,
    values: impl rusqlite::Params,
) -> Result<Option<PutIntent>, rusqlite::Error> {
    if !has_table(connection, "act_intents")? {
        return Ok(None);
    }
    let sql = format!("SELECT {COLUMNS} FROM act_intents WHERE {condition} LIMIT 1");
    connection
        .query_row(&sql, values, PutIntent::read)
        .optional()
}

/// The undo of this PUT that is under way.
pub(super) fn undoing(
    connection: &Connection,
    stream: &str,
    n: ChangeSeq,
) -> Result<Option<PutIntent>, rusqlite::Error> {
    let condition = "stream = ?1 AND undoes = ?2";
    find(connection, condition, params![stream, n.to_column()])
}

impl Call<'_> {
    /// The first of these calls, if its data may be stored and its act is not recorded yet.
    pub(super) fn under_way(&self, connection: &Connection) -> Result<Option<PutIntent>, Fault> {
        let Some(repeatable) = self.repeatable else {
            return Ok(None);
        };
        let condition = "stream = ?1 AND operator = ?2 AND idempotency_key = ?3";
        let values = params![&**self.stream, &*self.by.operator, repeatable.key];
        let found = find(connection, condition, values)?;
        let digest = |intent: &PutIntent| intent.repeatable.as_ref().map(|call| call.digest);
        match found {
            Some(intent) if digest(&intent) != Some(repeatable.digest) => {
                Err(ActRefused::KeyReused.into())
            }
            found => Ok(found),
        }
    }

    /// What this call is about to submit.
    pub(super) fn intent(&self, key: &str, fields: Option<String>) -> PutIntent {
        PutIntent {
            stream: Arc::clone(self.stream),
            key: key.to_owned(),
            fields,
            before: None,
            undoes: None,
            by: self.by.clone(),
            repeatable: self.repeatable.cloned(),
        }
    }
}

impl Pool {
    /// The data of the intent is accepted as the request `data`: its act is recorded, unless somebody has recorded it
    /// meanwhile. The answer is kept for repeats of the first call, and of the one that comes
    /// `again`. Blocks.
    ///
    /// # Errors
    /// SQLite's, or the log's; the intent is still there then.
    pub fn submitted(
        &self,
        intent: &PutIntent,
        data: Uuid,
        again: Option<&Repeatable>,
    ) -> Result<Acted, PoolError> {
        let by = Author {
            request_id: data,
            ..intent.by.clone()
        };
        let call = |repeatable| Call {
            stream: &intent.stream,
            by: &by,
            repeatable,
            items: 0,
        };
        let own = call(intent.repeatable.as_ref());
        self.in_act(&intent.stream, |acting, pass| {
            let is_new = intent.delete(acting.connection)?
                || !intent.is_recorded(acting.connection, data)?;
            acting.end_due(pass)?;
            let made = match intent.undoes {
                None => own.put(acting, intent, pass)?,
                Some(n) => own.put_undone(acting, intent, n, pass)?,
            };
            let record = made.record.filter(|_| is_new);
            if record.is_some() {
                pass.count();
            }
            let done = own.done(acting, intent.verb(), Made { record, ..made }, pass);
            let kept = done.and_then(|acted| {
                answers::keep(acting.connection, &call(again), &acted)?;
                Ok(acted)
            });
            match kept {
                Ok(acted) => Ok(acted),
                Err(Fault::Sql(error)) => Err(error),
                Err(Fault::Refused(_)) => Err(rusqlite::Error::QueryReturnedNoRows),
            }
        })
    }

    /// The data of the intent was not accepted, and will not be. Blocks.
    ///
    /// # Errors
    /// SQLite's, or the log's.
    pub fn not_submitted(&self, intent: &PutIntent) -> Result<(), PoolError> {
        self.write(|writer| intent.delete(&writer.connection).map(drop))
    }

    /// PUTs and their undos that are under way, or whose caller is gone. Blocks. The daemon reads them, because a
    /// caller that died between data and act can finish neither.
    ///
    /// # Errors
    /// SQLite's.
    pub fn put_intents(&self, limit: u32) -> Result<Vec<PutIntent>, PoolError> {
        self.read(|connection| {
            if !has_table(connection, "act_intents")? {
                return Ok(Vec::new());
            }
            let sql = format!("SELECT {COLUMNS} FROM act_intents ORDER BY request_id LIMIT ?1");
            let mut select = connection.prepare_cached(&sql)?;
            select.query_map([limit], PutIntent::read)?.collect()
        })
    }
}

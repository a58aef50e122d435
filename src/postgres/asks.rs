//! What operators ask of the node that runs the sinks, and its answers. What they say is known to `operate` alone.
//!
//! **Invariant**: a question is taken by one node, once. What was withdrawn is never taken.

use std::sync::Arc;
use std::time::Duration;

use sqlx::Row as _;
use uuid::Uuid;

use super::{Connections, Database, DatabaseCall, DatabaseError};

const CONNECTIONS_MAX: usize = 4;

/// This table. Cheap to clone.
#[derive(Debug, Clone)]
pub struct Asks(Arc<Connections>);

/// What has become of a question.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum AskState {
    /// No node has taken it.
    Waits,
    /// The node of this name does it.
    Taken(String),
    Answered(Vec<u8>),
    /// The database has lost it.
    Gone,
}

impl Asks {
    /// No connection is made yet. All are to be used by one runtime. A connection waits for the threads of the runtime
    /// that made it.
    pub fn new(database: Database) -> Self {
        let call = DatabaseCall::Ask;
        Self(Arc::new(Connections::to_write(
            database,
            call,
            CONNECTIONS_MAX,
        )))
    }

    /// Stores a question; those that nobody came back for are deleted after an hour, because the node that asked may
    /// have been killed.
    ///
    /// # Errors
    /// The database's.
    pub async fn ask(&self, id: Uuid, what: &[u8]) -> Result<(), DatabaseError> {
        let sql =
            "WITH old AS (DELETE FROM asks WHERE asked < clock_timestamp() - interval '1 hour')
            INSERT INTO asks (id, what) VALUES ($1, $2)";
        self.0.all(sqlx::query(sql).bind(id).bind(what)).await?;
        Ok(())
    }

    /// Takes the oldest question that nobody has taken, for the node of this name; none that is older than this, because
    /// who asked has given it up.
    ///
    /// # Errors
    /// The database's.
    pub async fn take(
        &self,
        node: &str,
        age_max: Duration,
    ) -> Result<Option<(Uuid, Vec<u8>)>, DatabaseError> {
        let sql =
            "UPDATE asks SET taken_by = $1 WHERE id = (SELECT id FROM asks WHERE taken_by IS NULL
            AND asked > clock_timestamp() - make_interval(secs => $2)
            ORDER BY asked LIMIT 1 FOR UPDATE SKIP LOCKED) RETURNING id, what";
        let take = sqlx::query(sql).bind(node).bind(age_max.as_secs_f64());
        let row = self.0.first(take).await?;
        row.map(|row| Ok((row.try_get("id")?, row.try_get("what")?)))
            .transpose()
    }

    /// Answers a question.
    ///
    /// # Errors
    /// The database's.
    pub async fn answer(&self, id: Uuid, answer: &[u8]) -> Result<(), DatabaseError> {
        let sql = "UPDATE asks SET answer = $2 WHERE id = $1";
        self.0.all(sqlx::query(sql).bind(id).bind(answer)).await?;
        Ok(())
    }

    /// What has become of a question.
    ///
    /// # Errors
    /// The database's.
    pub async fn state(&self, id: Uuid) -> Result<AskState, DatabaseError> {
        let sql = "SELECT taken_by, answer FROM asks WHERE id = $1";
        let Some(row) = self.0.first(sqlx::query(sql).bind(id)).await? else {
            return Ok(AskState::Gone);
        };
        let (taken_by, answer) = (row.try_get("taken_by")?, row.try_get("answer")?);
        Ok(match (taken_by, answer) {
            (_, Some(answer)) => AskState::Answered(answer),
            (Some(node), None) => AskState::Taken(node),
            (None, None) => AskState::Waits,
        })
    }

    /// Deletes a question that nobody has taken; whether it was there. If it was not, a node may be doing it, so
    /// nobody may say that nothing was changed.
    ///
    /// # Errors
    /// The database's.
    pub async fn withdraw(&self, id: Uuid) -> Result<bool, DatabaseError> {
        let sql = "DELETE FROM asks WHERE id = $1 AND taken_by IS NULL RETURNING id";
        Ok(self.0.first(sqlx::query(sql).bind(id)).await?.is_some())
    }

    /// Deletes a question whose answer was read.
    ///
    /// # Errors
    /// The database's.
    pub async fn delete(&self, id: Uuid) -> Result<(), DatabaseError> {
        let statement = sqlx::query("DELETE FROM asks WHERE id = $1").bind(id);
        self.0.all(statement).await?;
        Ok(())
    }

    pub async fn close(&self) {
        self.0.close().await;
    }
}

#[cfg(test)]
mod tests;

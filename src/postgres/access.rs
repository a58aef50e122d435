//! Who is signed in to the admin pages, links that sign in, tickets of renderers, and the admin token: the same on all nodes.
//!
//! `http` and `live` keep them here if there are several nodes.
//!
//! **Invariant**: of every secret only its SHA-256 is in the database. A ticket, a link, a message and a new key are given
//! out once, whichever nodes ask.

mod sessions;
#[cfg(test)]
mod tests;
mod tickets;

use std::sync::Arc;
use std::time::Duration;

use sqlx::postgres::{PgArguments, PgRow};
use sqlx::query::Query;
use sqlx::{Postgres, Row as _};

use super::{Connections, Database, DatabaseCall, DatabaseError, within};
pub use sessions::{NewSession, SessionRow, VisitRow};
pub use tickets::TicketRow;

/// Somebody waits for each answer, so the wait is shorter than for others.
const ANSWER_MAX: Duration = Duration::from_millis(2_500);
const CONNECTIONS_MAX: usize = 4;

/// These tables. Cheap to clone.
#[derive(Debug, Clone)]
pub struct AccessTables(Arc<Connections>);

type Statement<'a> = Query<'a, Postgres, PgArguments>;

impl AccessTables {
    /// No connection is made yet. All are to be used by one runtime. A connection waits for the threads of the runtime
    /// that made it.
    pub fn new(database: Database) -> Self {
        let call = DatabaseCall::Access;
        Self(Arc::new(Connections::to_write(
            database,
            call,
            CONNECTIONS_MAX,
        )))
    }

    /// Whether the database answers, as far as is known.
    pub fn is_away(&self) -> bool {
        self.0.database().is_away()
    }

    /// The digest of the cluster's admin token; none: it has none yet.
    ///
    /// # Errors
    /// The database's.
    pub async fn admin_token(&self) -> Result<Option<[u8; 32]>, DatabaseError> {
        let row = self.first(sqlx::query("SELECT sha256 FROM admin_token"));
        row.await?.map(|row| digest(&row, "sha256")).transpose()
    }

    /// Makes this the digest of the cluster's admin token, if it has none. Returns the one that it has. The first
    /// node decides, because all nodes start with their own draw.
    ///
    /// # Errors
    /// The database's.
    pub async fn put_admin_token(&self, sha256: [u8; 32]) -> Result<[u8; 32], DatabaseError> {
        let sql = "INSERT INTO admin_token (sha256) VALUES ($1) ON CONFLICT DO NOTHING";
        self.all(sqlx::query(sql).bind(sha256)).await?;
        Ok(self.admin_token().await?.unwrap_or(sha256))
    }

    /// Deletes what has ended, and the oldest tickets, so that there are `tickets_max`.
    ///
    /// # Errors
    /// The database's.
    pub async fn delete_ended(&self, tickets_max: usize) -> Result<(), DatabaseError> {
        let statement = sqlx::query("SELECT delete_ended_access($1)").bind(count(tickets_max));
        self.all(statement).await?;
        Ok(())
    }

    pub async fn close(&self) {
        self.0.close().await;
    }

    async fn first(&self, statement: Statement<'_>) -> Result<Option<PgRow>, DatabaseError> {
        Ok(self.all(statement).await?.into_iter().next())
    }

    /// The rows of an answer, at once or not at all: nobody waits for a database that is known to be away.
    async fn all(&self, statement: Statement<'_>) -> Result<Vec<PgRow>, DatabaseError> {
        if self.is_away() {
            return Err(DatabaseError::Away("it does not answer".to_owned()));
        }
        within(ANSWER_MAX, self.0.all(statement)).await
    }
}

/// A SHA-256 of a row.
fn digest(row: &PgRow, column: &str) -> Result<[u8; 32], DatabaseError> {
    let bytes: Vec<u8> = row.try_get(column)?;
    bytes.try_into().map_err(|_| DatabaseError::Refused {
        code: "".into(),
        message: format!("{column} is no SHA-256").into(),
    })
}

fn count(max: usize) -> i32 {
    i32::try_from(max).unwrap_or(i32::MAX)
}

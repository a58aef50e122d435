//! The rows of sessions and of links that sign in.
//!
//! **Invariant**: a session that has ended is found by nobody, whichever node ended it. A message and a new key are
//! returned by the statement that removes them.

use std::time::Duration;

use base::clock::Unix;
use sqlx::Row as _;
use sqlx::postgres::PgRow;
use uuid::Uuid;

use super::{AccessTables, count, digest};
use crate::DatabaseError;

#[derive(Debug, Clone)]
pub struct NewSession {
    pub sha256: [u8; 32],
    pub id: Uuid,
    /// Digest of the token of the sign-in.
    pub token: [u8; 32],
    pub client: String,
}

/// A session of a list.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SessionRow {
    pub id: Uuid,
    /// Digest of the token of the sign-in.
    pub token: [u8; 32],
    pub client: String,
    pub since: Unix,
    pub seen: Unix,
    pub ends: Unix,
}

/// A session at one of its requests.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct VisitRow {
    pub id: Uuid,
    /// Digest of the token of the sign-in.
    pub token: [u8; 32],
    /// A message is kept for its next page.
    pub has_flash: bool,
    /// The page that a new key is kept for.
    pub issued_for: Option<String>,
}

/// What is read of a session of a list.
const SHOWN: &str =
    "id, token, client, unix_ms(since) AS since, unix_ms(seen) AS seen, unix_ms(ends) AS ends";

impl AccessTables {
    /// Begins a session; the oldest ones of its token end, so that the token has `of_token_max`.
    ///
    /// # Errors
    /// The database's.
    pub async fn begin_session(
        &self,
        new: &NewSession,
        lasts: Duration,
        of_token_max: usize,
    ) -> Result<(), DatabaseError> {
        let statement = sqlx::query("SELECT begin_session($1, $2, $3, $4, $5, $6)")
            .bind(new.sha256)
            .bind(new.id)
            .bind(new.token)
            .bind(&new.client)
            .bind(lasts.as_secs_f64())
            .bind(count(of_token_max));
        self.all(statement).await?;
        Ok(())
    }

    /// Notes a request of a session, and returns what the session is; none: there is none.
    ///
    /// # Errors
    /// The database's.
    pub async fn visit(&self, sha256: [u8; 32]) -> Result<Option<VisitRow>, DatabaseError> {
        let row = self.first(sqlx::query("SELECT * FROM visit($1)").bind(sha256));
        let Some(row) = row.await? else {
            return Ok(None);
        };
        Ok(Some(VisitRow {
            id: row.try_get("id")?,
            token: digest(&row, "token")?,
            has_flash: row.try_get("has_flash")?,
            issued_for: row.try_get("issued_for")?,
        }))
    }

    /// The sessions of these tokens, newest first. Rows that have ended are left out, because they are deleted only now
    /// and then.
    ///
    /// # Errors
    /// The database's.
    pub async fn sessions(&self, tokens: &[[u8; 32]]) -> Result<Vec<SessionRow>, DatabaseError> {
        let sql = format!(
            "SELECT {SHOWN} FROM sessions WHERE token = ANY($1) AND ends > clock_timestamp() ORDER BY sessions.since DESC"
        );
        let statement = sqlx::query(sqlx::AssertSqlSafe(sql)).bind(bytes_of(tokens));
        let rows = self.all(statement).await?;
        rows.iter().map(session).collect()
    }

    /// Ends a session of one of these tokens and returns it; none: there is none.
    ///
    /// # Errors
    /// The database's.
    pub async fn end_session(
        &self,
        id: Uuid,
        tokens: &[[u8; 32]],
    ) -> Result<Option<SessionRow>, DatabaseError> {
        let sql = format!(
            "DELETE FROM sessions WHERE id = $1 AND token = ANY($2) AND ends > clock_timestamp() RETURNING {SHOWN}"
        );
        let statement = sqlx::query(sqlx::AssertSqlSafe(sql))
            .bind(id)
            .bind(bytes_of(tokens));
        let row = self.first(statement).await?;
        row.as_ref().map(session).transpose()
    }

    /// Keeps a message for the next page of a session.
    ///
    /// # Errors
    /// The database's.
    pub async fn set_flash(&self, sha256: [u8; 32], flash: &[u8]) -> Result<(), DatabaseError> {
        let statement = sqlx::query("SELECT set_flash($1, $2)");
        self.all(statement.bind(sha256).bind(flash)).await?;
        Ok(())
    }

    /// Returns the message once. One statement reads and removes it, so that two pages do not show it both.
    ///
    /// # Errors
    /// The database's.
    pub async fn take_flash(&self, sha256: [u8; 32]) -> Result<Option<Vec<u8>>, DatabaseError> {
        let row = self.first(sqlx::query("SELECT take_flash($1)").bind(sha256));
        Ok(row.await?.map(|row| row.try_get(0)).transpose()?)
    }

    /// Keeps a new key for one page of a session.
    ///
    /// # Errors
    /// The database's.
    pub async fn keep_issued(
        &self,
        sha256: [u8; 32],
        page: &str,
        issued: &[u8],
        lasts: Duration,
    ) -> Result<(), DatabaseError> {
        let statement = sqlx::query("SELECT keep_issued($1, $2, $3, $4)")
            .bind(sha256)
            .bind(page)
            .bind(issued)
            .bind(lasts.as_secs_f64());
        self.all(statement).await?;
        Ok(())
    }

    /// Returns the new key for this page once.
    ///
    /// # Errors
    /// The database's.
    pub async fn take_issued(
        &self,
        sha256: [u8; 32],
        page: &str,
    ) -> Result<Option<Vec<u8>>, DatabaseError> {
        let statement = sqlx::query("SELECT take_issued($1, $2)");
        let row = self.first(statement.bind(sha256).bind(page)).await?;
        Ok(row.map(|row| row.try_get(0)).transpose()?)
    }

    /// Stores a link of a token, in place of the one before, so that a link that was printed and lost opens nothing
    /// once another is made. Returns when it ends.
    ///
    /// # Errors
    /// The database's.
    pub async fn invite(
        &self,
        token: [u8; 32],
        sha256: [u8; 32],
        lasts: Duration,
    ) -> Result<Unix, DatabaseError> {
        let statement = sqlx::query("SELECT invite($1, $2, $3)")
            .bind(token)
            .bind(sha256)
            .bind(lasts.as_secs_f64());
        let row = self.first(statement).await?;
        let ends: Option<i64> = row.map(|row| row.try_get(0)).transpose()?;
        Ok(Unix::from_column(ends.unwrap_or_default()))
    }

    /// Deletes a link and returns the digest of its token; none: there is none, or it has ended. One statement does
    /// both, so that a link signs in once, whichever nodes ask.
    ///
    /// # Errors
    /// The database's.
    pub async fn accept_invitation(
        &self,
        sha256: [u8; 32],
    ) -> Result<Option<[u8; 32]>, DatabaseError> {
        let sql = "DELETE FROM invitations WHERE sha256 = $1 RETURNING token, ends > clock_timestamp() AS in_time";
        let row = self.first(sqlx::query(sql).bind(sha256)).await?;
        let row = row.filter(|row| row.try_get("in_time").unwrap_or(false));
        row.map(|row| digest(&row, "token")).transpose()
    }
}

fn session(row: &PgRow) -> Result<SessionRow, DatabaseError> {
    let at = |column| Ok::<_, DatabaseError>(Unix::from_column(row.try_get(column)?));
    Ok(SessionRow {
        id: row.try_get("id")?,
        token: digest(row, "token")?,
        client: row.try_get("client")?,
        since: at("since")?,
        seen: at("seen")?,
        ends: at("ends")?,
    })
}

fn bytes_of(digests: &[[u8; 32]]) -> Vec<Vec<u8>> {
    digests.iter().map(|digest| digest.to_vec()).collect()
}

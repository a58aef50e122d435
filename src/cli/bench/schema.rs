//! The schema of the bench's nodes in the given database.
//!
//! It is found usable before anything is measured; the first node makes it.
//!
//! **Invariant**: nothing of the database is changed but this schema, whose name nobody else has.

use std::time::Duration;

use super::place::random_end;
use crate::cli::error::CliError;
use crate::cli::output::{note, shown};
use postgres::{Database, DatabaseError, DatabaseOptions, Durability};

const DELETE_TRIES: usize = 3;
const DELETE_PAUSE: Duration = Duration::from_secs(1);

/// The schema, which need not exist.
pub(super) struct BenchSchema {
    urls: String,
    database: Database,
    has_standby: bool,
    hints: &'static str,
}

impl BenchSchema {
    /// Looks whether nodes can use the database.
    ///
    /// # Errors
    /// They cannot, with what to do about it: exit code 2.
    pub(super) async fn find(urls: Option<&str>, poll: bool) -> Result<Self, CliError> {
        let urls = urls.map(str::trim).filter(|urls| !urls.is_empty());
        let urls = urls.ok_or_else(|| {
            CliError::wrong_use(
                "nodes share a PostgreSQL database: name it with --database URL or in HEADGATE_DATABASE; --nodes 0 needs none",
            )
        })?;
        let options = DatabaseOptions {
            urls: urls.split_whitespace().map(str::to_owned).collect(),
            schema: format!("headgate_bench_{}", random_end()),
            name: "bench".to_owned(),
            // What this connection does need not survive.
            durability: Durability::Local,
        };
        let database = Database::new(&options)
            .map_err(|error| CliError::wrong_use(format!("--database: {error}")))?;
        let unusable = |error: DatabaseError| {
            CliError::wrong_use(format!(
                "{}; start the server, or correct --database or HEADGATE_DATABASE",
                shown(&error.to_string())
            ))
        };
        let found = database.inspect().await.map_err(unusable)?;
        let errors = found.iter().filter(|finding| finding.is_error);
        let errors: Vec<_> = errors.map(|finding| shown(&finding.sentence)).collect();
        if !errors.is_empty() {
            return Err(CliError::wrong_use(errors.join("\n")));
        }
        for finding in &found {
            note(&shown(&finding.sentence));
        }
        let has_standby = database.has_standby().await.map_err(unusable)?;
        Ok(Self {
            urls: urls.to_owned(),
            database,
            has_standby,
            hints: if poll { "poll" } else { "notify" },
        })
    }

    /// The URLs as they were given. They can have passwords.
    pub(super) fn urls(&self) -> &str {
        &self.urls
    }

    pub(super) fn name(&self) -> &str {
        self.database.schema()
    }

    /// `cluster.hints` of the nodes.
    pub(super) fn hints(&self) -> &'static str {
        self.hints
    }

    /// `cluster.durability` of the nodes, and what it means.
    pub(super) fn durability(&self) -> (&'static str, &'static str) {
        match self.has_standby {
            true => (
                "standby",
                "durability of the cluster: standby, a request that got a 202 is on a standby too",
            ),
            false => (
                "local",
                "durability of the cluster: local, because the database has no synchronous standby; a failover can lose a \
                 request that got a 202",
            ),
        }
    }

    /// Deletes it. The server may still execute a statement of a node that was killed, and end this one as the victim of a
    /// deadlock: it is tried again.
    ///
    /// # Errors
    /// It says what is left.
    pub(super) async fn delete(&self) -> Result<(), CliError> {
        let mut dropped = self.database.drop_schema().await;
        for _ in 1..DELETE_TRIES {
            // A database that does not answer is not waited for again.
            if matches!(dropped, Ok(()) | Err(DatabaseError::Away(_))) {
                break;
            }
            tokio::time::sleep(DELETE_PAUSE).await;
            dropped = self.database.drop_schema().await;
        }
        dropped.map_err(|error| self.left(&shown(&error.to_string())))
    }

    /// The error of a schema that was not deleted, with what deletes it.
    pub(super) fn left(&self, why: &str) -> CliError {
        let name = self.name();
        CliError::failed(format!(
            "the schema {name} of the benchmark was not deleted: {why}; run DROP SCHEMA IF EXISTS {name} CASCADE in the database"
        ))
    }
}

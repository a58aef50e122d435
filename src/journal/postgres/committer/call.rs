//! Calls of a group, until the database says what became of it.
//!
//! **Invariant**: a call whose answer does not come is kept, for its commit may wait for a standby; it is given up only when
//! the server knows nothing of it any more.

use std::pin::Pin;
use std::sync::Arc;
use std::time::{Duration, Instant};

use sqlx::postgres::PgRow;
use sqlx::{Connection as _, PgConnection};
use uuid::Uuid;

use super::super::group::Columns;
use super::super::in_time;
use super::{AGAIN_AFTER, Committer, refusal_of};
use crate::JournalError;
use ::postgres::{DatabaseCall, DatabaseError, refusal};
use base::clock::Lived;

/// A call that took so long is looked for at the server. The question needs another connection, so it is not asked at
/// once.
const LOOKED_FOR_AFTER: Duration = Duration::from_secs(2);

/// A call under way.
type Answer = Pin<Box<dyn Future<Output = (Session, Result<Vec<PgRow>, DatabaseError>)> + Send>>;

/// A connection, with the server's process that works for it.
pub(super) struct Session {
    connection: PgConnection,
    process: i32,
}

/// A group that is to be committed.
pub(super) struct Sent {
    pub(super) columns: Arc<Columns>,
    pub(super) number: i64,
    /// The newest entry of the catalog by which its requests are admitted.
    pub(super) catalog: u64,
    /// It may be committed already. Then it is called again and not refused, because a refusal could be wrong.
    pub(super) is_doubtful: bool,
    pub(super) call: Option<Call>,
}

pub(super) struct Call {
    answer: Answer,
    process: i32,
    looked_for: Instant,
}

/// What became of a group.
pub(super) enum Outcome {
    Committed(Vec<PgRow>),
    /// Nothing of it was stored.
    Refused(JournalError),
    /// Nothing either: its requests were admitted by an older catalog than the newest.
    CatalogChanged,
    /// Nobody knows yet.
    Unknown,
}

impl Committer {
    /// Gives up a call of which the server knows nothing any more: its answer was lost on the way. Otherwise a node
    /// would wait for ever where a network has lost the answer.
    pub(super) async fn look_for(&self, sent: &mut Sent) {
        let Some(call) = &mut sent.call else {
            return;
        };
        if call.looked_for.elapsed() < LOOKED_FOR_AFTER {
            return;
        }
        call.looked_for = Instant::now();
        let works = async {
            let mut connection = self.options.database.connect().await?;
            let sql = "SELECT count(*) FROM pg_stat_activity WHERE pid = $1 AND state = 'active'";
            let found: i64 = sqlx::query_scalar(sql)
                .bind(call.process)
                .fetch_one(&mut connection)
                .await?;
            let _ = connection.close().await;
            Ok::<_, DatabaseError>(found > 0)
        };
        if in_time(works).await == Ok(false) {
            sent.call = None;
        }
    }

    /// Calls a group until something is known of it.
    pub(super) async fn call(&mut self, sent: &mut Sent, deadline: Instant) -> Outcome {
        loop {
            let call = match &mut sent.call {
                Some(call) => call,
                none => match self.begin(&sent.columns, (sent.number, sent.catalog)).await {
                    Ok(call) => none.insert(call),
                    Err(error) => {
                        self.lost(&error);
                        if !sent.is_doubtful {
                            return Outcome::Refused(refusal_of(&error));
                        }
                        if Instant::now() >= deadline {
                            return Outcome::Unknown;
                        }
                        tokio::time::sleep(AGAIN_AFTER).await;
                        continue;
                    }
                },
            };
            let answered = tokio::time::timeout_at(deadline.into(), &mut call.answer).await;
            let Ok((session, answer)) = answered else {
                sent.is_doubtful = true;
                return Outcome::Unknown;
            };
            sent.call = None;
            let error = match answer {
                Ok(rows) => {
                    self.session = Some(session);
                    self.last_group = sent.number;
                    return Outcome::Committed(rows);
                }
                Err(error) => error,
            };
            if let Some(outcome) = self.failed(error, session, sent, deadline) {
                return outcome;
            }
            tokio::time::sleep(AGAIN_AFTER).await;
        }
    }

    /// What a call that failed comes to; none: the group is called again. An error about the connection leaves doubt,
    /// because the server may have committed before it.
    fn failed(
        &mut self,
        error: DatabaseError,
        session: Session,
        sent: &mut Sent,
        deadline: Instant,
    ) -> Option<Outcome> {
        let is_late = Instant::now() >= deadline;
        if let DatabaseError::Away(_) = error {
            self.lost(&error);
            sent.is_doubtful = true;
            return is_late.then_some(Outcome::Unknown);
        }
        self.session = Some(session);
        if let DatabaseError::Conflict(_) = error {
            return is_late.then_some(Outcome::Refused(JournalError::Overloaded));
        }
        if error.is(refusal::CATALOG_CHANGED) {
            return Some(Outcome::CatalogChanged);
        }
        if error.is(refusal::UNKNOWN_NODE) || error.is(refusal::OTHER_GROUP) {
            // It was not committed and will not be: this life of the node is over.
            self.node = Uuid::new_v4();
            self.has_joined = false;
            sent.number = 1;
            return None;
        }
        self.lost(&error);
        Some(Outcome::Refused(refusal_of(&error)))
    }

    /// Sends a group.
    async fn begin(
        &mut self,
        columns: &Arc<Columns>,
        (number, catalog): (i64, u64),
    ) -> Result<Call, DatabaseError> {
        in_time(self.session()).await?;
        let Some(mut session) = self.session.take() else {
            return Err(DatabaseError::Away("there is no connection".to_owned()));
        };
        let (columns, node, process) = (Arc::clone(columns), self.node, session.process);
        let timer = self.options.database.timer(DatabaseCall::Accept);
        let answer = Box::pin(async move {
            let _timer = timer;
            let asked = (node, number, catalog.cast_signed());
            let answer = columns.call(&mut session.connection, asked).await;
            (session, answer)
        });
        Ok(Call {
            answer,
            process,
            looked_for: Instant::now(),
        })
    }

    /// A connection of a node that the database knows.
    pub(super) async fn session(&mut self) -> Result<&mut PgConnection, DatabaseError> {
        let session = match &mut self.session {
            Some(session) => session,
            none => {
                let mut connection = self.options.database.connect_to_write().await?;
                let process = sqlx::query_scalar("SELECT pg_backend_pid()")
                    .fetch_one(&mut connection)
                    .await?;
                none.insert(Session {
                    connection,
                    process,
                })
            }
        };
        if !self.has_joined {
            sqlx::query(
                "INSERT INTO writers (node, lived_ms, name) VALUES ($1, $2, $3) ON CONFLICT DO NOTHING",
            )
            .bind(self.node)
            .bind(Lived::now().to_column())
            .bind(self.options.database.node())
            .execute(&mut session.connection)
            .await?;
            self.has_joined = true;
        }
        Ok(&mut session.connection)
    }

    /// What follows from an error of the connection.
    pub(super) fn lost(&mut self, error: &DatabaseError) {
        match error {
            DatabaseError::Away(_) => {
                self.session = None;
                if self.feed.is_reachable() {
                    tracing::warn!(%error, "requests are answered 503 until the database can be used");
                    self.feed.set_reachable(false);
                }
            }
            DatabaseError::Full(_) => {
                tracing::error!(%error, "requests are answered 503 until the database has room");
            }
            error => tracing::error!(%error, "the database refuses what this version sends"),
        }
    }
}

//! The PostgreSQL server that several nodes share: how it is reached, what its schema is, and what an error of it means.
//!
//! The journal of the engine `postgres` and the log of changes live in it. Statements stand where they are used; the
//! tables and functions that they use are made here, once for a cluster.
//!
//! **Invariant**: a connection is to a primary and has the settings that a 202 depends on. Before one writes, its server is
//! compared with the one that the cluster was on.
#![deny(unsafe_code)]

mod access;
mod asks;
mod calls;
mod connections;
mod error;
mod hints;
mod inspect;
mod limits;
mod locks;
mod moving;
mod nodes;
mod schema;
#[cfg(test)]
mod tests;

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use futures_util::StreamExt as _;
use futures_util::future::BoxFuture;
use futures_util::stream::FuturesUnordered;
use sqlx::postgres::PgConnectOptions;
use sqlx::{AssertSqlSafe, ConnectOptions, Connection as _, PgConnection};

pub use access::{AccessTables, NewSession, SessionRow, TicketRow, VisitRow};
pub use asks::{AskState, Asks};
use calls::CallObserver;
pub use calls::{CallTimer, DatabaseCall};
pub use connections::Connections;
pub use error::{DatabaseError, may_pass, needed_version, refusal};
pub use hints::Hints;
pub use inspect::Finding;
pub use limits::{LimitsConnection, LimitsToPublish, PublishedRate};
pub use locks::ClusterLock;
pub use moving::{MoveIn, MoveOut, MovedRows, STATEMENT_MAX, Target};
pub use nodes::{Beat, NamedNode, NodeSaid, NodeSeen, NodesConnection, works};
pub use schema::{FORMAT, Made, make};

/// A connection that is not made by then is not.
const CONNECT_MAX: Duration = Duration::from_secs(5);
/// From asking the server that was the primary last until the others are asked, too.
const NEXT_AFTER: Duration = Duration::from_millis(100);
/// From the answer of a server that is no primary until it is asked again, while another one has not answered.
const AGAIN_AFTER: Duration = Duration::from_millis(250);
/// A name that leaves room for what is appended to it, because PostgreSQL cuts names at 63 bytes.
const SCHEMA_NAME_MAX: usize = 40;

/// What an acknowledged request survives.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Durability {
    /// The loss of the primary: every commit is on a standby too.
    Standby,
    /// The restart of the primary.
    Local,
}

const SCHEMES: [&str; 2] = ["postgres://", "postgresql://"];

/// The answer to what nobody has to know the end of: after this time, there is none.
///
/// # Errors
/// Those of what was asked; [`DatabaseError::Away`].
pub async fn within<T>(
    time: Duration,
    asking: impl Future<Output = Result<T, DatabaseError>>,
) -> Result<T, DatabaseError> {
    let answer = tokio::time::timeout(time, asking).await;
    answer.unwrap_or_else(|_| Err(DatabaseError::silent(time)))
}

/// Where a URL leads. A URL can have a password, so only texts about its form are passed on.
///
/// # Errors
/// What is wrong with it, without a word of it.
pub fn server_of(url: &str) -> Result<PgConnectOptions, String> {
    url.parse().map_err(|error| match error {
        // Its text is about the form; others could quote.
        sqlx::Error::Configuration(error) => error.to_string(),
        _ => "it cannot be read".to_owned(),
    })
}

/// Where the database is, and how it is used.
#[derive(Clone)]
pub struct DatabaseOptions {
    /// Tried in turn; only a primary is used.
    pub urls: Vec<String>,
    /// Schema of the cluster's tables.
    pub schema: String,
    /// The node's name, for people who look at the server, and for what is counted by node.
    pub name: String,
    /// What a commit waits for.
    pub durability: Durability,
}

/// The database of a cluster.
#[derive(Clone)]
pub struct Database {
    servers: Vec<PgConnectOptions>,
    schema: String,
    node: String,
    durability: Durability,
    hints: Hints,
    known: Arc<Known>,
}

/// What is known of a database, whoever found it out.
#[derive(Debug, Default)]
struct Known {
    is_away: AtomicBool,
    /// Place of the server that was the primary last.
    primary: AtomicUsize,
    calls: CallObserver,
}

impl fmt::Debug for Database {
    /// Without its URLs, which have passwords.
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter
            .debug_struct("Database")
            .field("schema", &self.schema)
            .field("durability", &self.durability)
            .finish_non_exhaustive()
    }
}

impl Database {
    /// Connects to nothing yet. The name must be plain, because statements contain it as it is.
    ///
    /// # Errors
    /// What is wrong with a URL or the schema's name, without a word of a URL.
    pub fn new(options: &DatabaseOptions) -> Result<Self, String> {
        let name = &options.schema;
        let is_plain =
            |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'_';
        if name.is_empty() || name.len() > SCHEMA_NAME_MAX || !name.bytes().all(is_plain) {
            return Err(format!(
                "the schema's name must be 1 to {SCHEMA_NAME_MAX} characters of a-z, 0-9 and _"
            ));
        }
        let application = format!("headgate {}", options.name);
        let server = |url: &String| -> Result<PgConnectOptions, String> {
            if !SCHEMES.iter().any(|scheme| url.starts_with(scheme)) {
                return Err("a URL must begin with postgres:// or postgresql://".to_owned());
            }
            Ok(server_of(url)?
                .application_name(&application)
                .disable_statement_logging())
        };
        Ok(Self {
            servers: options.urls.iter().map(server).collect::<Result<_, _>>()?,
            schema: name.clone(),
            node: options.name.clone(),
            durability: options.durability,
            hints: Hints::default(),
            known: Arc::default(),
        })
    }

    /// Notes whether the database answers: what people wait for is not asked while it does not, because each page
    /// would wait for it otherwise.
    pub fn set_away(&self, is_away: bool) {
        self.known.is_away.store(is_away, Ordering::Relaxed);
    }

    /// Whether it does not answer, as far as is known.
    pub fn is_away(&self) -> bool {
        self.known.is_away.load(Ordering::Relaxed)
    }

    /// The schema of the cluster's tables.
    pub fn schema(&self) -> &str {
        &self.schema
    }

    /// The name of this node in the cluster; it outlives the process.
    pub fn node(&self) -> &str {
        &self.node
    }

    /// The hints between this node and the others.
    pub fn hints(&self) -> &Hints {
        &self.hints
    }

    /// A connection to the first of the servers that is a primary, with the settings that every statement needs. The one that
    /// was the primary last is asked first, and the others a moment later: a host that is gone does not answer for seconds.
    ///
    /// # Errors
    /// What each server said.
    pub fn connect(&self) -> BoxFuture<'_, Result<PgConnection, DatabaseError>> {
        Box::pin(async { Ok(self.connect_to_primary().await?.0) })
    }

    /// The same, and the server that it is to.
    async fn connect_to_primary(&self) -> Result<(PgConnection, &PgConnectOptions), DatabaseError> {
        let (first, count) = (
            self.known.primary.load(Ordering::Relaxed),
            self.servers.len(),
        );
        let ask = |place: usize, wait: Duration| async move {
            tokio::time::sleep(wait).await;
            // On the heap: everything that may have to connect would be as large.
            let connecting = Box::pin(self.connect_to(&self.servers[place]));
            (place, within(CONNECT_MAX, connecting).await)
        };
        let mut said = vec![None; count];
        let mut asked: FuturesUnordered<_> = (0..count)
            .map(|turn| {
                let wait = if turn == 0 {
                    Duration::ZERO
                } else {
                    NEXT_AFTER
                };
                ask((first + turn) % count, wait)
            })
            .collect();
        while let Some((place, answer)) = asked.next().await {
            said[place] = Some(match answer {
                Ok(connection) => {
                    self.known.primary.store(place, Ordering::Relaxed);
                    return Ok((connection, &self.servers[place]));
                }
                Err(DatabaseError::Away(why)) => why,
                Err(error) => error.to_string(),
            });
            if said.iter().all(Option::is_some) {
                break;
            }
            // While another one is silent, this may become the primary.
            asked.push(ask(place, AGAIN_AFTER));
        }
        let said: Vec<String> = said.into_iter().flatten().collect();
        Err(DatabaseError::Away(said.join("; ")))
    }

    /// The same for who is to write: the server was [compared](Self::arrive).
    ///
    /// # Errors
    /// What each server said; there is no schema.
    pub async fn connect_to_write(&self) -> Result<PgConnection, DatabaseError> {
        let mut connection = self.connect().await?;
        self.arrive(&mut connection).await?;
        Ok(connection)
    }

    /// Compares the server with the one that the cluster was on: after a failover, or a restore into another server, numbers
    /// go on above all that were given. To be called on every connection that is to write, before it does.
    ///
    /// # Errors
    /// The database's; there is no schema.
    pub async fn arrive(&self, connection: &mut PgConnection) -> Result<(), DatabaseError> {
        sqlx::query("SELECT arrive($1)")
            .bind(self.durability == Durability::Local)
            .execute(connection)
            .await?;
        Ok(())
    }

    /// The settings are a statement, because poolers refuse options of a connection.
    async fn connect_to(&self, server: &PgConnectOptions) -> Result<PgConnection, DatabaseError> {
        let mut connection = PgConnection::connect_with(server).await?;
        let recovers: bool = sqlx::query_scalar("SELECT pg_is_in_recovery()")
            .fetch_one(&mut connection)
            .await?;
        if recovers {
            return Err(DatabaseError::Away("it is a standby".to_owned()));
        }
        let commit = match self.durability {
            Durability::Standby => "on",
            Durability::Local => "local",
        };
        // Not as options of the connection: poolers refuse those. A plan over tables without statistics seems dear enough to be
        // compiled, which takes half a second.
        let settings = format!(
            "SET search_path = {}; SET synchronous_commit = {commit}; SET lock_timeout = 0; \
             SET statement_timeout = 0; SET jit = off; SET idle_in_transaction_session_timeout = '10s'",
            self.schema
        );
        sqlx::raw_sql(AssertSqlSafe(settings))
            .execute(&mut connection)
            .await?;
        Ok(connection)
    }
}

//! The host's side of `headgate:sink/postgres`: statements of a guest for a whole batch, in one transaction.
//!
//! A plugin whose sink has a `postgres` table has a [`Database`]; all its instances share one connection.
//!
//! **Invariant**: no transaction outlives its call. After any error except one of the server, the connection is closed,
//! which rolls back the transaction, and no statement of a guest can end the transaction. Other contents of a session
//! (temporary tables, settings, advisory locks) may or may not exist in the next call of the sink.

use std::time::Duration;

use sqlx::postgres::{PgArguments, PgConnectOptions};
use sqlx::query::Query;
use sqlx::{AssertSqlSafe, ConnectOptions, Connection, PgConnection, Postgres};
use tokio::sync::Mutex;

use super::host::bindings::headgate::sink::postgres::{Column, Error, Refusal, Statement};
use base::clock::{Unix, millis};
use item::batch::{Batch, Span};

/// Maximum statements of one call.
pub(super) const STATEMENTS_MAX: usize = 100;

/// Allowed first words of a statement. The server accepts one statement at a time, so this excludes statements that end
/// the transaction (`COMMIT`), change the protocol (`COPY`), or change the session (`SET`, `LISTEN`).
const VERBS: [&str; 19] = [
    "alter", "analyze", "call", "comment", "create", "delete", "do", "drop", "grant", "insert",
    "lock", "merge", "refresh", "revoke", "select", "truncate", "update", "values", "with",
];

const ALL: Span = Span {
    start: 0,
    count: u32::MAX,
};

/// The database of one sink.
pub(super) struct Database {
    options: PgConnectOptions,
    /// The server's own limits are set in the transaction, because it would otherwise keep its locks when nobody waits
    /// any more.
    begin: String,
    time_max: Duration,
    /// All instances share one connection, so that a sink uses one of the server's.
    connection: Mutex<Option<PgConnection>>,
}

impl Database {
    /// Opens no connection yet.
    ///
    /// # Errors
    /// The error in the URL, without any part of the URL.
    pub(super) fn new(settings: &settings::Postgres) -> Result<Self, String> {
        let options = postgres::server_of(settings.url.reveal())?;
        let ms = millis(*settings.timeout_ms);
        Ok(Self {
            options: options
                .application_name("headgate")
                .disable_statement_logging(),
            // The server ends what nobody waits for any more. Not as options of the connection: poolers refuse those.
            begin: format!(
                "BEGIN; SET LOCAL statement_timeout = {ms}; \
                 SET LOCAL idle_in_transaction_session_timeout = {ms}"
            ),
            time_max: *settings.timeout_ms,
            connection: Mutex::new(None),
        })
    }

    /// Runs the statements with their parameters in one transaction. A dropped call drops the connection, which rolls
    /// the transaction back.
    pub(super) async fn execute(&self, statements: Vec<Bound>) -> Result<Vec<u64>, Error> {
        let running = async {
            let mut slot = self.connection.lock().await;
            // Out of the slot: whoever drops this future closes the connection with it.
            let mut connection = self.begun(slot.take()).await.map_err(redacted)?;
            let result = run(&mut connection, statements).await;
            if matches!(result, Ok(_) | Err(Error::Refused(_))) {
                *slot = Some(connection);
            }
            result
        };
        tokio::time::timeout(self.time_max, running)
            .await
            .unwrap_or_else(|_| {
                let ms = self.time_max.as_millis();
                Err(Error::Unavailable(format!("no answer within {ms} ms")))
            })
    }

    /// A connection with a new transaction: the kept connection, unless it has failed meanwhile. A kept one may have
    /// been closed by the server or a pooler, so that `BEGIN` shows it without an attempt of the sink.
    async fn begun(&self, kept: Option<PgConnection>) -> sqlx::Result<PgConnection> {
        if let Some(mut connection) = kept
            && plain(&mut connection, &self.begin).await.is_ok()
        {
            return Ok(connection);
        }
        let mut connection = PgConnection::connect_with(&self.options).await?;
        plain(&mut connection, &self.begin).await?;
        Ok(connection)
    }
}

/// A statement with its parameters from the batch.
pub(super) struct Bound {
    /// A statement that is not permitted fails as the others do, so that the transaction is rolled back.
    permitted: bool,
    query: Query<'static, Postgres, PgArguments>,
}

impl Bound {
    /// Adds columns to the statement; `hold` receives their bytes.
    pub(super) fn new(
        statement: Statement,
        batch: &Batch,
        mut hold: impl FnMut(usize) -> wasmtime::Result<()>,
    ) -> wasmtime::Result<Self> {
        let permitted = is_permitted(&statement.sql);
        // Not kept on the connection: what a pooler or `ALTER TABLE` changes must not break it.
        let mut query = sqlx::query(AssertSqlSafe(statement.sql)).persistent(false);
        let text_bytes = |texts: &[String]| texts.iter().map(|text| text.len() + 24).sum();
        for column in statement.columns {
            query = match column {
                Column::Keys => {
                    let keys = batch.keys(ALL);
                    hold(text_bytes(&keys))?;
                    query.bind(keys)
                }
                Column::Streams => {
                    let streams = batch.streams(ALL);
                    hold(text_bytes(&streams))?;
                    query.bind(streams)
                }
                Column::Times => {
                    let times = batch.times(ALL).into_iter().map(Unix::to_column);
                    hold(size_of::<i64>() * batch.len() as usize)?;
                    query.bind(times.collect::<Vec<i64>>())
                }
                Column::Json => {
                    let fields: Vec<String> = batch
                        .slices()
                        .iter()
                        .flat_map(|slice| slice.items())
                        .map(|(_, item)| item.fields.to_owned())
                        .collect();
                    hold(text_bytes(&fields))?;
                    query.bind(fields)
                }
                Column::Texts(name) => {
                    let texts = batch.texts(&name, ALL);
                    hold(
                        texts
                            .iter()
                            .map(|text| text.as_ref().map_or(0, String::len) + 24)
                            .sum(),
                    )?;
                    query.bind(texts)
                }
                Column::Numbers(name) => {
                    let numbers = batch.numbers(&name, ALL).into_iter();
                    hold(size_of::<Option<f64>>() * batch.len() as usize)?;
                    let numbers = numbers.map(|number| (!number.is_nan()).then_some(number));
                    query.bind(numbers.collect::<Vec<Option<f64>>>())
                }
            };
        }
        Ok(Self { permitted, query })
    }
}

async fn run(connection: &mut PgConnection, statements: Vec<Bound>) -> Result<Vec<u64>, Error> {
    let mut changed = Vec::with_capacity(statements.len());
    for statement in statements {
        let done = match statement.permitted {
            true => statement
                .query
                .execute(&mut *connection)
                .await
                .map_err(redacted),
            false => Err(not_permitted()),
        };
        match done {
            Ok(done) => changed.push(done.rows_affected()),
            Err(error) => {
                plain(connection, "ROLLBACK").await.map_err(redacted)?;
                return Err(error);
            }
        }
    }
    plain(connection, "COMMIT").await.map_err(redacted)?;
    Ok(changed)
}

async fn plain(connection: &mut PgConnection, sql: &str) -> sqlx::Result<()> {
    let sql = AssertSqlSafe(sql.to_owned());
    sqlx::raw_sql(sql).execute(connection).await.map(drop)
}

/// Whether a statement begins with one of [`VERBS`]. Comments and brackets are passed over, because the first word may
/// be behind them.
fn is_permitted(sql: &str) -> bool {
    let mut rest = sql;
    loop {
        rest = rest.trim_start_matches(|c: char| c.is_ascii_whitespace() || c == '(');
        if let Some(comment) = rest.strip_prefix("--") {
            rest = comment
                .split_once(['\n', '\r'])
                .map_or("", |(_, after)| after);
        } else if rest.starts_with("/*") {
            rest = after_comment(rest);
        } else {
            break;
        }
    }
    let end = rest.find(|c: char| !c.is_ascii_alphabetic());
    let word = &rest[..end.unwrap_or(rest.len())];
    VERBS.iter().any(|verb| word.eq_ignore_ascii_case(verb))
}

/// The text after a comment; it may contain others.
fn after_comment(text: &str) -> &str {
    let mut depth = 0;
    let mut rest = text;
    while let Some(at) = rest.find('*') {
        let (before, after) = rest.split_at(at);
        if let Some(after) = after.strip_prefix("*/") {
            depth -= 1;
            rest = after;
            if depth == 0 {
                return rest;
            }
        } else {
            depth += i32::from(before.ends_with('/'));
            rest = &after[1..];
        }
    }
    ""
}

fn not_permitted() -> Error {
    Error::Refused(Refusal {
        code: "0A000".to_owned(),
        message: format!("a statement begins with one of {}", VERBS.join(", ")),
    })
}

fn redacted(error: sqlx::Error) -> Error {
    match error {
        sqlx::Error::Database(error) => {
            let code = error.code().unwrap_or_default().into_owned();
            let message = error.message().to_owned();
            if postgres::may_pass(&code) {
                Error::Unavailable(format!("{message} (SQLSTATE {code})"))
            } else {
                Error::Refused(Refusal { code, message })
            }
        }
        error => Error::Unavailable(error.to_string()),
    }
}

#[cfg(test)]
mod tests;

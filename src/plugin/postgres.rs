//! The host's side of `headgate:sink/postgres`: statements of a guest, over a whole batch, in one transaction.
//!
//! A plugin whose sink has a `postgres` table gets a [`Database`] with it; all its instances share the one connection.
//!
//! **Invariant**: a connection on which anything but a plain refusal of the server happened is closed, so that nothing
//! of one call reaches the next, and what was not committed is rolled back.

use std::time::Duration;

use sqlx::postgres::{PgArguments, PgConnectOptions};
use sqlx::query::Query;
use sqlx::{AssertSqlSafe, Connection, PgConnection, Postgres};
use tokio::sync::Mutex;

use super::host::bindings::headgate::sink::postgres::{Column, Error, Refusal, Statement};
use crate::batch::{Batch, Span};
use crate::config;

/// Statements of one call.
pub(super) const STATEMENTS_MAX: usize = 100;

/// Classes and codes of SQLSTATE that another attempt may not meet again: no connection, a refused login, no such
/// database, a transaction that lost against another, a server without resources, going down, or not yet the primary.
const PASSING: [&str; 9] = ["08", "28", "3D", "40", "53", "57P", "58", "55P03", "25006"];

const ALL: Span = Span {
    start: 0,
    count: u32::MAX,
};

/// The database of one sink.
pub(super) struct Database {
    options: PgConnectOptions,
    time_max: Duration,
    connection: Mutex<Option<PgConnection>>,
}

impl Database {
    /// Connects to nothing yet.
    ///
    /// # Errors
    /// What is wrong with the URL, without a word of it.
    pub(super) fn new(settings: &config::Postgres) -> Result<Self, String> {
        let options: PgConnectOptions =
            settings.url.reveal().parse().map_err(|error| match error {
                // Its text is about the form; others could quote.
                sqlx::Error::Configuration(error) => error.to_string(),
                _ => "it cannot be read".to_owned(),
            })?;
        let timeout = format!("{}ms", settings.timeout_ms);
        Ok(Self {
            // The server ends what nobody waits for any more.
            options: options
                .application_name("headgate")
                .options([("statement_timeout", timeout)]),
            time_max: Duration::from_millis(settings.timeout_ms),
            connection: Mutex::new(None),
        })
    }

    /// Runs the statements with their parameters in one transaction.
    pub(super) async fn execute(&self, statements: Vec<Bound>) -> Result<Vec<u64>, Error> {
        let mut slot = self.connection.lock().await;
        let running = async {
            let mut connection = match slot.take() {
                Some(connection) => connection,
                None => PgConnection::connect_with(&self.options)
                    .await
                    .map_err(told)?,
            };
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
}

/// A statement with the parameters that the host made of the batch.
pub(super) struct Bound {
    query: Query<'static, Postgres, PgArguments>,
}

impl Bound {
    /// Gives the statement its columns; `hold` is told of their bytes.
    pub(super) fn new(
        statement: Statement,
        batch: &Batch,
        mut hold: impl FnMut(usize) -> wasmtime::Result<()>,
    ) -> wasmtime::Result<Self> {
        let mut query = sqlx::query(AssertSqlSafe(statement.sql));
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
                    let times = batch.times(ALL).into_iter().map(u64::cast_signed);
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
        Ok(Self { query })
    }
}

async fn run(connection: &mut PgConnection, statements: Vec<Bound>) -> Result<Vec<u64>, Error> {
    let mut transaction = connection.begin().await.map_err(told)?;
    let mut changed = Vec::with_capacity(statements.len());
    for statement in statements {
        match statement.query.execute(&mut *transaction).await {
            Ok(done) => changed.push(done.rows_affected()),
            Err(error) => {
                let refusal = told(error);
                transaction.rollback().await.map_err(told)?;
                return Err(refusal);
            }
        }
    }
    transaction.commit().await.map_err(told)?;
    Ok(changed)
}

fn told(error: sqlx::Error) -> Error {
    match error {
        sqlx::Error::Database(error) => {
            let code = error.code().unwrap_or_default().into_owned();
            let message = error.message().to_owned();
            if PASSING.iter().any(|passing| code.starts_with(passing)) {
                Error::Unavailable(format!("{message} (SQLSTATE {code})"))
            } else {
                Error::Refused(Refusal { code, message })
            }
        }
        error => Error::Unavailable(error.to_string()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_url_that_cannot_be_read_is_refused_without_its_password() {
        let settings = |url: &str| config::Postgres {
            url: config::Secret::new(url),
            ..config::Postgres::default()
        };
        assert!(Database::new(&settings("postgresql://u:canary@h:5432/d?sslmode=require")).is_ok());
        for url in [
            "postgresql://u:canary@h:port/d",
            "postgresql://u:canary@h/d?sslmode=canary-mode-of-nobody",
            "postgresql://[canary/",
        ] {
            let told = Database::new(&settings(url)).err().expect("no database");
            assert!(!told.contains("u:canary"), "{told}");
        }
    }
}

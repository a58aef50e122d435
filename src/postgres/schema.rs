//! The tables and functions of a cluster: made once, and brought to the format of the newest version by its first node.
//!
//! Older nodes work on the same tables meanwhile, so a step to a format adds and takes nothing away: a column with a default,
//! a table, a function beside the one that it will replace (`accept_2`). What nobody uses any more can go in a later format.
//! A step that older versions cannot work with sets `cluster.oldest` to the format that it leads to, and `cluster.needs` to
//! `'@version@'`: from then on they refuse to start, and name that version. So does the log of changes, which has formats of
//! its own.
//!
//! **Invariant**: whoever uses the tables knows the format `cluster.oldest`, or a newer one.

use std::time::Duration;

use sqlx::{AssertSqlSafe, Connection, PgConnection};

use super::{ClusterLock, Database, DatabaseError, within};

/// Of the schema; stands in `cluster.format`.
pub const FORMAT: i32 = 1;

/// What leads from each format to the next one, from 1 on. `@schema@` and `@version@` stand for the schema's name and this
/// version.
pub(super) const STEPS: &[&str] = &[];

/// The tables and functions in their order; the schema's name stands for `@schema@`.
const PARTS: [&str; 4] = [
    include_str!("log.sql"),
    include_str!("journal.sql"),
    include_str!("access.sql"),
    include_str!("asks.sql"),
];

/// Longest wait for the tables, which another node may be making.
const MADE_WITHIN: Duration = Duration::from_mins(5);

/// A node that was killed can have locks until its server has noticed.
const DROP_MAX: Duration = Duration::from_mins(1);

/// What [`make`] found.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Made {
    /// Nothing: the schema is made.
    Now,
    /// The schema of this format.
    Before,
    /// An older one, which has this format now.
    Upgraded,
}

/// Makes the schema if there is none, and brings one of an older version to this format. Nodes that do so at the same time
/// wait for each other. The transaction ends at once also where nothing was to do, because others wait for its lock.
///
/// # Errors
/// The database's; [`DatabaseError::Newer`].
pub async fn make(
    database: &Database,
    connection: &mut PgConnection,
) -> Result<Made, DatabaseError> {
    make_with(database, connection, STEPS).await
}

/// The same with these steps.
pub(super) async fn make_with(
    database: &Database,
    connection: &mut PgConnection,
    steps: &[&str],
) -> Result<Made, DatabaseError> {
    let making = async {
        let mut transaction = connection.begin().await?;
        let made = make_in(&mut transaction, database, steps).await;
        // Others wait for its end, and this connection may not be used again for long.
        match &made {
            Ok(Made::Now | Made::Upgraded) => transaction.commit().await?,
            Ok(Made::Before) => transaction.rollback().await?,
            Err(_) => _ = transaction.rollback().await,
        }
        made
    };
    within(MADE_WITHIN, making).await
}

/// The same in a transaction.
async fn make_in(
    transaction: &mut PgConnection,
    database: &Database,
    steps: &[&str],
) -> Result<Made, DatabaseError> {
    let name = database.schema();
    database.take(ClusterLock::Tables, transaction).await?;
    let is_there: bool = sqlx::query_scalar("SELECT to_regclass($1) IS NOT NULL")
        .bind(format!("{name}.cluster"))
        .fetch_one(&mut *transaction)
        .await?;
    if is_there {
        let found = format_of(transaction).await?;
        let steps = usize::try_from(found - 1)
            .ok()
            .and_then(|from| steps.get(from..));
        // A newer version may have added what this one does not use.
        let steps = steps.unwrap_or_default();
        if steps.is_empty() {
            return Ok(Made::Before);
        }
        for step in steps {
            run(transaction, name, step).await?;
        }
        let format = found + i32::try_from(steps.len()).unwrap_or(i32::MAX);
        sqlx::query("UPDATE cluster SET format = $1")
            .bind(format)
            .execute(&mut *transaction)
            .await?;
        return Ok(Made::Upgraded);
    }
    let create = format!("CREATE SCHEMA IF NOT EXISTS {name}");
    sqlx::raw_sql(AssertSqlSafe(create))
        .execute(&mut *transaction)
        .await?;
    for part in PARTS {
        run(transaction, name, part).await?;
    }
    Ok(Made::Now)
}

async fn run(connection: &mut PgConnection, schema: &str, sql: &str) -> Result<(), DatabaseError> {
    let sql = sql
        .replace("@schema@", schema)
        .replace("@version@", env!("CARGO_PKG_VERSION"));
    sqlx::raw_sql(AssertSqlSafe(sql))
        .execute(connection)
        .await?;
    Ok(())
}

/// The format of the tables, which there are.
///
/// # Errors
/// The database's; [`DatabaseError::Newer`].
pub(super) async fn format_of(connection: &mut PgConnection) -> Result<i32, DatabaseError> {
    let sql = "SELECT format, oldest, needs FROM cluster";
    let (found, oldest, needs): (i32, i32, String) =
        sqlx::query_as(sql).fetch_one(connection).await?;
    match oldest > FORMAT {
        true => Err(DatabaseError::Newer {
            format: oldest,
            version: needs.into(),
        }),
        false => Ok(found),
    }
}

impl Database {
    /// Deletes the schema with everything in it; without one, nothing. For a cluster that nobody needs any more, none of whose
    /// nodes runs.
    ///
    /// # Errors
    /// The database's; [`DatabaseError::Away`] if it was not done within a minute.
    pub async fn drop_schema(&self) -> Result<(), DatabaseError> {
        let dropping = async {
            let mut connection = self.connect().await?;
            let sql = format!("DROP SCHEMA IF EXISTS {} CASCADE", self.schema());
            sqlx::raw_sql(AssertSqlSafe(sql))
                .execute(&mut connection)
                .await?;
            let _ = connection.close().await;
            Ok(())
        };
        within(DROP_MAX, dropping).await
    }
}

//! The tables and functions of a cluster: made once, looked at by every connection that is to write.

use std::time::Duration;

use sqlx::{AssertSqlSafe, Connection, PgConnection};

use super::{Database, DatabaseError, within};

/// Of the schema; stands in `cluster.format`.
pub const FORMAT: i32 = 1;

/// The tables and functions in their order; the schema's name stands for `@schema@`.
const PARTS: [&str; 4] = [
    include_str!("log.sql"),
    include_str!("journal.sql"),
    include_str!("access.sql"),
    include_str!("asks.sql"),
];

/// A node that was killed can have locks until its server has noticed.
const DROP_MAX: Duration = Duration::from_mins(1);

/// What [`make`] found.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Made {
    /// Nothing: the schema is made.
    Now,
    /// The schema of this format.
    Before,
}

/// Makes the schema, if there is none. Nodes that do so at the same time wait for each other.
///
/// # Errors
/// The database's; a schema of another format.
pub async fn make(
    database: &Database,
    connection: &mut PgConnection,
) -> Result<Made, DatabaseError> {
    let mut transaction = connection.begin().await?;
    sqlx::query("SELECT pg_advisory_xact_lock(1212, 0)")
        .execute(&mut *transaction)
        .await?;
    let name = database.schema();
    let is_there: bool = sqlx::query_scalar("SELECT to_regclass($1) IS NOT NULL")
        .bind(format!("{name}.cluster"))
        .fetch_one(&mut *transaction)
        .await?;
    if is_there {
        let format: i32 = sqlx::query_scalar("SELECT format FROM cluster")
            .fetch_one(&mut *transaction)
            .await?;
        if format != FORMAT {
            return Err(DatabaseError::Format(format));
        }
        return Ok(Made::Before);
    }
    let create = format!("CREATE SCHEMA IF NOT EXISTS {name}");
    sqlx::raw_sql(AssertSqlSafe(create))
        .execute(&mut *transaction)
        .await?;
    for part in PARTS {
        sqlx::raw_sql(AssertSqlSafe(part.replace("@schema@", name)))
            .execute(&mut *transaction)
            .await?;
    }
    transaction.commit().await?;
    Ok(Made::Now)
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

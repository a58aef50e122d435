//! The advisory locks of a cluster. The server has one space of them for a database, and a database may have several clusters:
//! each schema has locks of its own.
//!
//! **Invariant**: a lock is taken by its number and the hash of the schema's name, here and in the functions of the schema.

use sqlx::{AssertSqlSafe, PgConnection};

use super::{Database, DatabaseError};

/// What only one at a time may do, or many while nobody does it alone. A transaction that takes several takes them in
/// this order: names, upkeep, generation. Another order could have two transactions wait for each other.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ClusterLock {
    Tables = 12_120,
    /// Beginning another generation; shared: the generation stays.
    Generation = 12_121,
    /// Dropping what nobody needs any more.
    Upkeep = 12_122,
    Names = 12_125,
}

impl Database {
    /// Waits for a lock, which the open transaction of the connection has until it ends.
    pub(crate) async fn take(
        &self,
        lock: ClusterLock,
        connection: &mut PgConnection,
    ) -> Result<(), DatabaseError> {
        let taking = format!("SELECT pg_advisory_xact_lock({})", self.lock(lock));
        let taking = sqlx::raw_sql(AssertSqlSafe(taking));
        taking.execute(connection).await?;
        Ok(())
    }

    /// The key of a lock, for the functions of the server that take two numbers.
    pub fn lock(&self, lock: ClusterLock) -> String {
        format!("{}, hashtext('{}')", lock as i32, self.schema())
    }
}

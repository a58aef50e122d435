//! What keeps a node from using the server, or will soon: looked at by the start and by `headgate check`.
//!
//! **Invariant**: nothing is changed. Each sentence says what to do.

use std::time::Duration;

use base::clock::Unix;
use sqlx::{Connection as _, PgConnection};

use crate::schema::format_of;
use crate::{Database, DatabaseError, Durability, within};

/// Longest wait for all answers.
const ANSWER_MAX: Duration = Duration::from_secs(10);
/// PostgreSQL 14.
const VERSION_MIN: i32 = 140_000;
/// Clocks that differ by more are told of, and those that differ by very much keep a node from starting.
const CLOCKS_DIFFER: Duration = Duration::from_secs(1);
const CLOCKS_DIFFER_MAX: Duration = Duration::from_secs(60);
/// Transactions of others that take longer are told of. Not those that wait for a standby: if one is ended, its commit can be
/// seen, and no standby has it.
pub(super) const OPEN_FOR: Duration = Duration::from_mins(1);

/// Connections of a node, at most: 14 of [`Connections`](crate::Connections), for lanes, the request log, sessions and what
/// operators ask; 4 of logs; 2 for hints; 8 of the threads that store, read, live, share limits and keep the database up, two
/// of which may look for a call on another one.
const NODE_CONNECTIONS: i64 = 28;
/// A cluster has more than one.
const NODES_MIN: i64 = 2;
/// For what else uses the server, so that the number that is named leaves some of them.
const OTHER_CONNECTIONS: i64 = 20;

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Finding {
    /// A node does not start.
    pub is_error: bool,
    /// What it is, and what to do.
    pub sentence: String,
}

impl Finding {
    fn error(sentence: String) -> Self {
        Self {
            is_error: true,
            sentence,
        }
    }

    fn warning(sentence: String) -> Self {
        Self {
            is_error: false,
            sentence,
        }
    }
}

impl Database {
    /// Looks at the primary, over a connection of its own.
    ///
    /// # Errors
    /// It cannot be reached.
    pub async fn inspect(&self) -> Result<Vec<Finding>, DatabaseError> {
        let mut connection = self.connect().await?;
        let found = within(ANSWER_MAX, self.findings(&mut connection)).await?;
        let _ = connection.close().await;
        Ok(found)
    }

    async fn findings(&self, connection: &mut PgConnection) -> Result<Vec<Finding>, DatabaseError> {
        let mut found = Vec::new();
        of_server(connection, &mut found).await?;
        if self.durability == Durability::Standby {
            of_standby(connection, &mut found).await?;
        }
        self.of_schema(connection, &mut found).await?;
        self.of_connections(connection, &mut found).await?;
        of_clock(connection, &mut found).await?;
        of_transactions(connection, &mut found).await?;
        Ok(found)
    }

    /// Whether commits of the primary wait for a standby that is connected now, so that `durability = "standby"` can be
    /// kept. `false` also if this role cannot see the standbys.
    ///
    /// # Errors
    /// It cannot be reached.
    pub async fn has_standby(&self) -> Result<bool, DatabaseError> {
        let mut connection = self.connect().await?;
        let (names, standbys) = within(ANSWER_MAX, standbys(&mut connection)).await?;
        let _ = connection.close().await;
        Ok(!names.trim().is_empty() && standbys > 0)
    }

    async fn of_schema(
        &self,
        connection: &mut PgConnection,
        found: &mut Vec<Finding>,
    ) -> Result<(), DatabaseError> {
        let name = &self.schema;
        let sql = "SELECT to_regnamespace($1) IS NOT NULL, to_regclass($1 || '.cluster') IS NOT NULL,
            has_database_privilege(current_database(), 'CREATE'), current_user::text, current_database()::text";
        let (is_there, is_made, may_create, user, database): (bool, bool, bool, String, String) =
            sqlx::query_as(sql)
                .bind(name)
                .fetch_one(&mut *connection)
                .await?;
        if !is_there && !may_create {
            found.push(Finding::error(format!(
                "the role {user} cannot create the schema {name}; run GRANT CREATE ON DATABASE {database} TO {user}"
            )));
        }
        if is_made {
            format_of(connection).await?;
        }
        Ok(())
    }

    /// Whether all nodes can connect at once. Nodes that do not run now are counted, because they may start.
    async fn of_connections(
        &self,
        connection: &mut PgConnection,
        found: &mut Vec<Finding>,
    ) -> Result<(), DatabaseError> {
        let nodes = NODES_MIN.max(self.other_nodes(connection).await? + 1);
        // The last one is reserved since PostgreSQL 16.
        let sql = "SELECT current_setting('superuser_reserved_connections')::bigint
                + coalesce(current_setting('reserved_connections', true), '0')::bigint,
            current_setting('max_connections')::bigint, r.rolconnlimit::bigint, d.datconnlimit::bigint,
            quote_ident(r.rolname), quote_ident(d.datname)
            FROM pg_roles r, pg_database d WHERE r.rolname = current_user AND d.datname = current_database()";
        let (reserved, of_server, of_role, of_database, role, database): AllowedConnections =
            sqlx::query_as(sql).fetch_one(connection).await?;
        let needed = nodes * NODE_CONNECTIONS;
        let more = needed + reserved + OTHER_CONNECTIONS;
        for (who, limit, how) in [
            (
                "the server".to_owned(),
                of_server - reserved,
                format!(
                    "run ALTER SYSTEM SET max_connections = {more} on the standby and on the primary, and restart them in this order"
                ),
            ),
            (
                format!("the role {role}"),
                of_role,
                format!("run ALTER ROLE {role} CONNECTION LIMIT -1"),
            ),
            (
                format!("the database {database}"),
                of_database,
                format!("run ALTER DATABASE {database} CONNECTION LIMIT -1"),
            ),
        ] {
            // None: below 0.
            if (0..needed).contains(&limit) {
                found.push(Finding::warning(format!(
                    "{who} can have {limit} connections, and {nodes} nodes need up to {needed}; {how}"
                )));
            }
        }
        Ok(())
    }

    /// How many other nodes the cluster has, if there is one.
    async fn other_nodes(&self, connection: &mut PgConnection) -> Result<i64, DatabaseError> {
        let is_made: bool = sqlx::query_scalar("SELECT to_regclass($1 || '.nodes') IS NOT NULL")
            .bind(&self.schema)
            .fetch_one(&mut *connection)
            .await?;
        if !is_made {
            return Ok(0);
        }
        let sql = "SELECT count(DISTINCT name) FROM nodes WHERE name <> $1";
        let others = sqlx::query_scalar(sql).bind(&self.node);
        Ok(others.fetch_one(connection).await?)
    }
}

/// Connections that are reserved; those that the server, the role and the database may have; the names of both.
type AllowedConnections = (i64, i64, i64, i64, String, String);

async fn of_server(
    connection: &mut PgConnection,
    found: &mut Vec<Finding>,
) -> Result<(), DatabaseError> {
    let sql =
        "SELECT current_setting('server_version_num')::int, current_setting('server_version')";
    let (number, version): (i32, String) = sqlx::query_as(sql).fetch_one(connection).await?;
    if number < VERSION_MIN {
        found.push(Finding::error(format!(
            "the server is PostgreSQL {version}, and a cluster needs 14 or newer; upgrade the server"
        )));
    }
    Ok(())
}

/// Commits wait for no standby, although `durability = "standby"` promises it.
const ASYNCHRONOUS: &str = "no commit of the server waits for a standby, so cluster.durability = \"standby\" cannot be kept; run ALTER SYSTEM SET synchronous_standby_names = 'NAME' and SELECT pg_reload_conf(), or set cluster.durability = \"local\", with which a failover can lose accepted requests";

/// [`ASYNCHRONOUS`], if it is so.
pub(super) async fn asynchronous(
    connection: &mut PgConnection,
) -> Result<Option<String>, DatabaseError> {
    let (names, _) = standbys(connection).await?;
    Ok(names.trim().is_empty().then(|| ASYNCHRONOUS.to_owned()))
}

/// Whether commits wait for a standby, as `durability = "standby"` promises.
async fn of_standby(
    connection: &mut PgConnection,
    found: &mut Vec<Finding>,
) -> Result<(), DatabaseError> {
    let (names, standbys) = standbys(connection).await?;
    if names.trim().is_empty() {
        found.push(Finding::error(ASYNCHRONOUS.to_owned()));
    } else if standbys == 0 {
        found.push(Finding::warning(format!(
            "no standby of synchronous_standby_names = '{names}' is connected, or this role cannot see it; start the standby if it is not running, or run GRANT pg_monitor TO this role"
        )));
    }
    Ok(())
}

/// The standbys that commits wait for: their names as they are set, and how many of them are connected.
async fn standbys(connection: &mut PgConnection) -> Result<(String, i64), DatabaseError> {
    let sql = "SELECT current_setting('synchronous_standby_names'),
        (SELECT count(*) FROM pg_stat_replication WHERE sync_state IN ('sync', 'quorum'))";
    Ok(sqlx::query_as(sql).fetch_one(connection).await?)
}

/// The clock was read at any time between question and answer, so only what is beyond both counts.
async fn of_clock(
    connection: &mut PgConnection,
    found: &mut Vec<Finding>,
) -> Result<(), DatabaseError> {
    let before = Unix::now();
    let sql = "SELECT (extract(epoch FROM clock_timestamp()) * 1000)::bigint";
    let server: i64 = sqlx::query_scalar(sql).fetch_one(connection).await?;
    let (server, after) = (Unix::from_column(server), Unix::now());
    // Between question and answer it may have been any time.
    let differ = (before - server).max(server - after);
    if differ <= CLOCKS_DIFFER {
        return Ok(());
    }
    let sentence = format!(
        "the clocks of this machine and of the database server differ by {} s; have both follow a time server",
        differ.as_secs()
    );
    found.push(Finding {
        is_error: differ > CLOCKS_DIFFER_MAX,
        sentence,
    });
    Ok(())
}

async fn of_transactions(
    connection: &mut PgConnection,
    found: &mut Vec<Finding>,
) -> Result<(), DatabaseError> {
    let sentences = long_transactions(connection, OPEN_FOR).await?;
    found.extend(sentences.into_iter().map(Finding::warning));
    Ok(())
}

/// Transactions of others that have been open for so long, each with what ends it; prepared ones too.
pub(super) async fn long_transactions(
    connection: &mut PgConnection,
    open_for: Duration,
) -> Result<Vec<String>, DatabaseError> {
    let sql = "SELECT pid, extract(epoch FROM clock_timestamp() - xact_start)::bigint, coalesce(application_name, '')
        FROM pg_stat_activity
        WHERE xact_start < clock_timestamp() - make_interval(secs => $1) AND pid <> pg_backend_pid()
            AND backend_type = 'client backend' AND application_name NOT LIKE 'headgate %'
            AND wait_event IS DISTINCT FROM 'SyncRep' ORDER BY xact_start LIMIT 3";
    let long: Vec<(i32, i64, String)> = sqlx::query_as(sql)
        .bind(open_for.as_secs_f64())
        .fetch_all(&mut *connection)
        .await?;
    let sql = "SELECT gid, extract(epoch FROM clock_timestamp() - prepared)::bigint FROM pg_prepared_xacts
        WHERE prepared < clock_timestamp() - make_interval(secs => $1) ORDER BY prepared LIMIT 3";
    let prepared: Vec<(String, i64)> = sqlx::query_as(sql)
        .bind(open_for.as_secs_f64())
        .fetch_all(connection)
        .await?;
    let long = long.into_iter().map(|(process, seconds, application)| {
        format!(
            "a transaction of {application:?} (process {process}) has been open for {seconds} s, which keeps the server from cleaning up; end it with SELECT pg_terminate_backend({process})"
        )
    });
    let prepared = prepared.into_iter().map(|(name, seconds)| {
        format!(
            "the prepared transaction {name:?} has been open for {seconds} s, which keeps the server from cleaning up; end it with ROLLBACK PREPARED or COMMIT PREPARED"
        )
    });
    Ok(long.chain(prepared).collect())
}

//! How a node takes its name, and how the name of one that is gone is given up.
//!
//! **Invariant**: two nodes that live do not have one name.

use std::collections::HashMap;
use std::time::Duration;

use base::clock::since_boot;
use postgres::{Database, DatabaseError, NamedNode, NodesConnection, within};
use thiserror::Error;
use uuid::Uuid;

use super::{BEAT_MAX, LIVES_FOR, Member, Members, Said};
use crate::Status;

/// Between looks at who has the name.
const LOOKS_EVERY: Duration = Duration::from_millis(250);

/// Beats that can rise after a node has died: one was under way, so a second one is a sign of life.
const UNDER_WAY_MAX: i64 = 1;

/// The beats of another node of this name.
struct HeardFirst {
    first: i64,
    newest: i64,
    /// Since when it is the newest, by [`since_boot`].
    rose: Duration,
}

/// Why a node does not start.
#[derive(Debug, Error)]
pub enum JoinError {
    /// Another node that lives has its name.
    #[error(
        "a node with the name {name} is running already, on {address}; set another cluster.name here, or stop that node first"
    )]
    Taken {
        name: String,
        /// Where the other one listens.
        address: String,
    },
    #[error("{0}")]
    Database(#[from] DatabaseError),
}

/// Why the name of a node is not given up.
#[derive(Debug, Error)]
pub enum RemoveError {
    /// Its next beat would write its row again.
    #[error("node {0} is running; stop it first")]
    Live(String),
    #[error("there is no node {0} in the cluster; `headgate cluster status` lists the nodes")]
    Unknown(String),
    #[error("{0}")]
    Database(#[from] DatabaseError),
}

impl Members {
    /// Takes the name of a node and says for the first time that it lives. Waits for a few seconds where another node
    /// may have the name and be alive. A node that was killed leaves its name behind, and only time tells it from one
    /// that is alive.
    ///
    /// # Errors
    /// Another node has the name; the database's.
    pub async fn join(
        database: Database,
        member: Member,
        status: Status,
        saying: impl Fn() -> Said + Send + Sync + 'static,
    ) -> Result<Self, JoinError> {
        let mut members = Self::new(database, member, status, Box::new(saying));
        let mut connection = NodesConnection::to(&members.database).await?;
        let said = members.said();
        let mut heard: HashMap<Uuid, HeardFirst> = HashMap::new();
        loop {
            let others = connection.named(&said.name, said.node).await?;
            let now = since_boot();
            let mut dead = Vec::new();
            for other in &others {
                let first = heard.entry(other.node).or_insert(HeardFirst {
                    first: other.beat,
                    newest: other.beat,
                    rose: now,
                });
                if std::mem::replace(&mut first.newest, other.beat) != other.beat {
                    first.rose = now;
                }
                if !other.is_connected || now >= first.rose + LIVES_FOR {
                    dead.push(other.node);
                } else if other.beat - first.first > UNDER_WAY_MAX {
                    return Err(taken(&said.name, other));
                }
            }
            if dead.len() == others.len() {
                let taking = connection.take_name(&said, &dead);
                if let Some(beat) = within(BEAT_MAX, taking).await? {
                    members.connection = Some(connection);
                    members.receive(&beat);
                    return Ok(members);
                }
            }
            tokio::time::sleep(LOOKS_EVERY).await;
        }
    }
}

fn taken(name: &str, other: &NamedNode) -> JoinError {
    JoinError::Taken {
        name: name.to_owned(),
        address: other.address.clone(),
    }
}

/// Gives up the name of a node that is gone.
///
/// # Errors
/// It lives, or there is none; the database's.
pub async fn remove(database: &Database, status: &Status, name: &str) -> Result<(), RemoveError> {
    let nodes = status.read().nodes;
    let named: Vec<_> = nodes.iter().filter(|node| node.name == name).collect();
    if named.is_empty() {
        return Err(RemoveError::Unknown(name.to_owned()));
    }
    if named.iter().any(|node| node.is_live) {
        return Err(RemoveError::Live(name.to_owned()));
    }
    let dead: Vec<Uuid> = named.iter().map(|node| node.id).collect();
    let removing = async {
        let mut connection = NodesConnection::to(database).await?;
        connection.forget(&dead).await?;
        connection.close().await;
        Ok::<_, DatabaseError>(())
    };
    within(BEAT_MAX, removing).await?;
    let is_dead = |id: &Uuid| dead.contains(id);
    status.change(|cluster| cluster.nodes.retain(|node| !is_dead(&node.id)));
    Ok(())
}

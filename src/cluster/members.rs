//! The nodes of a cluster: each says every second that it lives and what it is, and hears what the others are.
//!
//! **Invariant**: a node lives as long as its beat rises, by the clock of who looks. A node that differs from the one that
//! runs the sinks does not take them over.

mod formats;
mod join;
mod member;
mod others;

use std::collections::HashMap;
use std::fmt;
use std::pin::Pin;
use std::time::Duration;

use base::clock::{Unix, since_boot};
use base::order::Epoch;
use postgres::{Beat, Database, DatabaseError, NodeSaid, NodesConnection, within};
use replica::SharedLog;
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;
use uuid::Uuid;

use crate::Status;
pub use join::{JoinError, RemoveError, remove};
pub use member::{Member, Said};
use others::{Heard, LIVES_FOR, STANDBY};

/// From one beat to the next.
const EVERY: Duration = Duration::from_secs(1);
/// While somebody waits for what others have seen.
const EVERY_AWAITED: Duration = Duration::from_millis(20);
/// While the database does not answer: callers wait for it.
const EVERY_AWAY: Duration = Duration::from_millis(250);
/// A beat that took so long has not come: the node is cut off.
const BEAT_MAX: Duration = Duration::from_secs(3);
/// From one look at what is wrong with the server to the next.
const SERVER_EVERY: Duration = Duration::from_secs(10);

/// Asked before each beat. So each beat has what is true then, without a task that keeps it up to date.
type Saying = Box<dyn Fn() -> Said + Send + Sync>;
type Answer = Pin<Box<dyn Future<Output = (NodesConnection, Result<Beat, DatabaseError>)> + Send>>;

/// A beat under way. One whose commit waits for a standby is kept: a second one would wait, too, on another connection.
struct Call {
    answer: Answer,
    /// Another connection asks by it whether the server still works on this one.
    process: i32,
}

/// This node among the others.
pub struct Members {
    database: Database,
    member: Member,
    saying: Saying,
    status: Status,
    may_claim: watch::Sender<bool>,
    epoch: watch::Sender<Epoch>,
    connection: Option<NodesConnection>,
    call: Option<Call>,
    heard: HashMap<Uuid, Heard>,
    /// When was looked for transactions that are open for long, by [`since_boot`].
    looked_at: Option<Duration>,
}

impl fmt::Debug for Members {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut members = formatter.debug_struct("Members");
        members
            .field("member", &self.member)
            .finish_non_exhaustive()
    }
}

impl Members {
    fn new(database: Database, member: Member, status: Status, saying: Saying) -> Self {
        Self {
            database,
            member,
            saying,
            status,
            may_claim: watch::Sender::new(false),
            epoch: watch::Sender::default(),
            connection: None,
            call: None,
            heard: HashMap::new(),
            looked_at: None,
        }
    }

    /// Whether this node may take the sinks over: it is meant to, and does not differ from the node that runs them.
    pub fn may_claim(&self) -> watch::Receiver<bool> {
        self.may_claim.subscribe()
    }

    /// The epoch that the positions of renderers must have, because the log has lost changes; 0: it has lost none.
    pub fn epoch(&self) -> watch::Receiver<Epoch> {
        self.epoch.subscribe()
    }

    /// Says how far the copies of this node are: from then on, who waits until every node sees a change waits for this one.
    ///
    /// # Errors
    /// The database's.
    pub async fn announce(&mut self) -> Result<(), DatabaseError> {
        let beat = self.beat().await?;
        self.receive(&beat);
        Ok(())
    }

    /// Says every second that this node lives, until `stop`; deletes its row then. Also at once when lookups include a newer
    /// catalog, and often while somebody waits for others to do so.
    pub async fn run(mut self, log: SharedLog, stop: CancellationToken) {
        // What is driven by another runtime would wait for its threads. The name belongs to that connection until the first
        // beat on another one.
        let mut joined = self.connection.take();
        while stop.run_until_cancelled(self.step(&log)).await.is_some() {
            if self.connection.is_some() {
                joined = None;
            }
        }
        drop(joined);
        if let Err(error) = within(BEAT_MAX, self.leave()).await {
            tracing::debug!(%error, "other nodes hold this one for live for a few seconds more");
        }
    }

    /// One beat, and the pause behind it.
    async fn step(&mut self, log: &SharedLog) {
        let begun = since_boot();
        let (mut catalog, mut wanted) = (log.catalog_changes(), log.wanted());
        let beat = self.beat().await;
        let every = match &beat {
            Err(_) => EVERY_AWAY,
            Ok(_) if log.is_awaited() => EVERY_AWAITED,
            Ok(_) => EVERY,
        };
        match beat {
            Ok(beat) => {
                self.receive(&beat);
                log.set_seen_everywhere(self.seen_everywhere());
                self.look_at_server(begun).await;
            }
            Err(error) => self.lost(&error),
        }
        tokio::select! {
            () = tokio::time::sleep(every.saturating_sub(since_boot() - begun)) => {}
            _ = catalog.changed() => {}
            _ = wanted.changed() => {}
        }
    }

    /// Keeps what is wrong with the server that answers, from time to time: transactions of others that hold it up, and
    /// commits that wait for no standby.
    async fn look_at_server(&mut self, now: Duration) {
        let is_due = |before| now >= before + SERVER_EVERY;
        let Some(mut connection) = self
            .connection
            .take_if(|_| self.looked_at.is_none_or(is_due))
        else {
            return;
        };
        self.looked_at = Some(now);
        let looked = async {
            let long = connection.long_transactions().await?;
            Ok((long, connection.asynchronous().await?))
        };
        match within(BEAT_MAX, looked).await {
            Ok((transactions, asynchronous)) => self.status.change(|status| {
                let database = &mut status.database;
                if let Some(why) =
                    (asynchronous.as_ref()).filter(|_| database.asynchronous.is_none())
                {
                    tracing::warn!("accepted requests are on no standby: {why}");
                }
                (database.transactions, database.asynchronous) = (transactions, asynchronous);
            }),
            // Of a connection that has not answered nothing is used any more.
            Err(error) => {
                tracing::debug!(%error, "cannot see what is wrong with the database");
                return;
            }
        }
        self.connection = Some(connection);
    }

    /// The newest entry of the catalog that lookups of all live nodes include. A node that has no copies yet shows nothing.
    /// It is left out, otherwise each change would wait while a new node loads its copies.
    pub(crate) fn seen_everywhere(&self) -> u64 {
        let nodes = self.status.read().nodes;
        let open = nodes.iter().filter(|node| node.is_live && node.entry > 0);
        open.map(|node| node.catalog).min().unwrap_or(0)
    }

    async fn beat(&mut self) -> Result<Beat, DatabaseError> {
        let mut call = match self.call.take() {
            Some(call) => call,
            None => self.begin().await?,
        };
        let Ok((connection, answer)) = tokio::time::timeout(BEAT_MAX, &mut call.answer).await
        else {
            return Err(self.late(call).await);
        };
        if answer.is_ok() {
            self.connection = Some(connection);
        }
        answer
    }

    async fn begin(&mut self) -> Result<Call, DatabaseError> {
        let mut connection = match self.connection.take() {
            Some(connection) => connection,
            None => NodesConnection::to(&self.database).await?,
        };
        let said = self.said();
        Ok(Call {
            process: connection.process(),
            answer: Box::pin(async move {
                let answer = connection.beat(&said).await;
                (connection, answer)
            }),
        })
    }

    /// Why there is no answer yet. The call is kept while the server works on it.
    async fn late(&mut self, call: Call) -> DatabaseError {
        let works = within(BEAT_MAX, postgres::works(&self.database, call.process)).await;
        match works {
            Ok(None) => DatabaseError::silent(BEAT_MAX),
            Ok(Some(event)) if event == STANDBY => {
                self.call = Some(call);
                DatabaseError::Away(
                    "commits wait for a standby that does not answer; start it, or take it out of synchronous_standby_names".to_owned(),
                )
            }
            Ok(Some(_)) | Err(_) => {
                self.call = Some(call);
                DatabaseError::silent(BEAT_MAX)
            }
        }
    }

    fn said(&self) -> NodeSaid {
        let (member, said) = (self.member.clone(), (self.saying)());
        NodeSaid {
            node: member.id,
            name: member.name,
            version: member.version,
            address: member.address,
            may_run_sinks: member.may_run_sinks,
            format: member.format,
            config: said.config,
            plugins: said.plugins,
            tokens: said.tokens,
            entry: said.place,
            catalog: said.catalog,
            delay: said.delay,
            renderers: said.renderers,
        }
    }

    /// Deletes the row of this node.
    async fn leave(&mut self) -> Result<(), DatabaseError> {
        self.call = None;
        let mut connection = match self.connection.take() {
            Some(connection) => connection,
            None => NodesConnection::to(&self.database).await?,
        };
        connection.forget(&[self.member.id]).await?;
        connection.close().await;
        Ok(())
    }

    /// Keeps that the database does not answer.
    fn lost(&mut self, error: &DatabaseError) {
        self.database.set_away(true);
        let why = error.to_string();
        self.status.change(|cluster| {
            let database = &mut cluster.database;
            if std::mem::replace(&mut database.reachable, false) {
                database.since = Unix::now();
                tracing::warn!("the database of the cluster is not reachable: {why}");
            }
            database.problem = Some(why);
        });
    }

    /// Keeps what the database has answered.
    fn receive(&mut self, beat: &Beat) {
        self.database.set_away(false);
        let nodes = self.nodes_of(beat);
        let own = nodes.iter().find(|node| node.is_this);
        let fits = own.is_some_and(|node| node.problems.is_empty());
        let may_claim = self.member.may_run_sinks && fits;
        self.may_claim
            .send_if_modified(|may| std::mem::replace(may, may_claim) != may_claim);
        let epoch = Epoch::new(beat.epoch);
        self.epoch
            .send_if_modified(|known| std::mem::replace(known, epoch) != epoch);
        self.status.change(|cluster| {
            cluster.generation = beat.generation;
            cluster.nodes = nodes;
            let database = &mut cluster.database;
            if !std::mem::replace(&mut database.reachable, true) {
                database.since = Unix::now();
                tracing::info!("the database of the cluster is reachable");
            }
            database.version.clone_from(&beat.version);
            database.standbys.clone_from(&beat.standbys);
            database.problem = None;
        });
    }
}

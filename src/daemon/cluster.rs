//! What the daemon of a cluster does beside everything else: its lanes come and go with the claim of the sinks, and
//! what people see says how far this node is.
//!
//! **Invariant**: lanes run only under the claim of this node, and a claim is left when none of them runs any more.

use std::sync::Arc;
use std::time::Duration;

use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use super::DaemonError;
use super::node::{RunningNode, of_log};
use super::sinks::Sinks;
use base::order::Seq;
use cluster::Role;
use http::sessions::Sessions;
use live::tickets::TICKETS_MAX;
use operate::Operator;
use operate::access::Access;
use postgres::AccessTables;

const EVERY: Duration = Duration::from_secs(1);
/// What has ended is refused at once, and deleted so often.
const ENDED_EVERY: Duration = Duration::from_secs(15);
/// The node that runs the sinks looks so often for what operators ask on the others.
const ASKS_EVERY: Duration = Duration::from_millis(250);
/// A node whose copies are further behind is not ready.
const BEHIND_MAX: Duration = Duration::from_secs(10);

/// Starts the lanes when this node has the sinks, and stops them when it has them no longer. The claim is left after
/// the last lane has ended. Otherwise the next owner would run the same sinks beside it.
pub(super) async fn follow_role(
    node: Arc<RunningNode>,
    sinks: Arc<Sinks>,
    stop: CancellationToken,
) {
    let mut role = node.role();
    loop {
        let now = *role.borrow_and_update();
        match now {
            Role::Runs { fence, from } => {
                node.status.hand_over.set_lanes_run(true);
                let taken = tokio::select! {
                    () = node.take_sinks(fence, from) => true,
                    _ = role.changed() => false,
                    () = stop.cancelled() => return,
                };
                if !taken {
                    continue;
                }
                sinks.set_run_here(true);
                sinks.apply().await;
            }
            Role::Waits => {
                sinks.set_run_here(false);
                sinks.apply().await;
                node.leave_sinks();
                node.status.hand_over.set_lanes_run(false);
            }
        }
        tokio::select! {
            changed = role.changed() => if changed.is_err() { return },
            () = stop.cancelled() => return,
        }
    }
}

/// What was accepted before the start counts in streams that may hold only so much; up to which entry.
pub(super) async fn count_unsettled(operator: &Operator) -> Result<Seq, DaemonError> {
    // In a cluster no sink runs yet: how far they are is in the data pool.
    if let Err(error) = operator.see_elsewhere().await {
        tracing::warn!(%error, "what is not settled does not count in streams that have a quota");
    }
    Ok(operator.ingest.count_unsettled().await?)
}

/// So does what any node accepts after this entry, until `stop`. After an error the same entries are read again, so
/// that none is left out.
pub(super) async fn count_elsewhere(operator: Operator, mut after: Seq, stop: CancellationToken) {
    let mut newest = operator.journal.newest();
    loop {
        let counted = operator.ingest.count_elsewhere(after);
        match stop.run_until_cancelled(counted).await {
            None => return,
            Some(Ok(counted)) => after = counted,
            Some(Err(error)) => {
                tracing::debug!(%error, "what other nodes accept is not counted in full streams yet");
                newest.mark_unchanged();
            }
        }
        let changed = tokio::time::timeout(EVERY, newest.changed());
        if let None | Some(Ok(Err(_))) = stop.run_until_cancelled(changed).await {
            return;
        }
    }
}

/// Waits until the copies of this node, if it is in a cluster, are of no use any more; why.
pub(super) async fn copies_are_unusable(node: Option<&Arc<RunningNode>>) -> DaemonError {
    match node {
        Some(node) => of_log(node.copy.ended().await),
        None => std::future::pending().await,
    }
}

/// The sessions of this daemon, or of all nodes, which know from now on whose sessions this one accepts.
pub(super) fn sessions(access: &Arc<Access>, node: Option<&RunningNode>) -> Sessions {
    match node {
        Some(node) => {
            node.set_access(access);
            Sessions::of_cluster(access, node.access.clone())
        }
        None => Sessions::new(access),
    }
}

/// Deletes sessions, links and tickets that have ended, of all nodes, until `stop`. Otherwise their tables would grow
/// with each sign-in.
pub(super) async fn delete_ended_access(access: AccessTables, stop: CancellationToken) {
    loop {
        let pause = tokio::time::sleep(ENDED_EVERY);
        if stop.run_until_cancelled(pause).await.is_none() {
            access.close().await;
            return;
        }
        if let Err(error) = access.delete_ended(TICKETS_MAX).await {
            tracing::debug!(%error, "sessions and tickets that have ended cannot be deleted");
        }
    }
}

/// Does what operators ask for on other nodes, whenever this one runs the sinks, until `stop`. What takes long holds up
/// no other question.
pub(super) async fn answer_asks(
    node: Arc<RunningNode>,
    operator: Operator,
    tasks: TaskTracker,
    stop: CancellationToken,
) {
    loop {
        let pause = tokio::time::sleep(ASKS_EVERY);
        if stop.run_until_cancelled(pause).await.is_none() {
            node.asks.close().await;
            return;
        }
        loop {
            match operator.take_ask().await {
                Ok(Some(taken)) => drop(tasks.spawn(taken.answer())),
                Ok(None) => break,
                Err(error) => {
                    tracing::debug!(%error, "cannot read what operators ask for on other nodes");
                    break;
                }
            }
        }
    }
}

/// Says how far this node is, until `stop`. A change of the database is waited for, too, so that the gate does not
/// close a second late.
pub(super) async fn watch(node: Arc<RunningNode>, operator: Operator, stop: CancellationToken) {
    let mut is_away = node.status.watch_database();
    loop {
        is_away.borrow_and_update();
        look(&node, &operator).await;
        let pause = tokio::time::timeout(EVERY, is_away.changed());
        if stop.run_until_cancelled(pause).await.is_none() {
            return;
        }
    }
}

async fn look(node: &RunningNode, operator: &Operator) {
    let Some(status) = &operator.cluster else {
        return;
    };
    let delay = node.copy.delay();
    let is_behind = delay.is_none_or(|delay| delay > BEHIND_MAX);
    let seconds = delay.unwrap_or_default().as_secs_f64();
    operator.metrics.replica_delay.set(seconds);
    if is_behind != operator.gate.set_copy_behind(is_behind) {
        match is_behind {
            true => tracing::error!(
                "the copies of this node are over 10 s behind what other nodes wrote: it is not ready"
            ),
            false => tracing::info!("the copies of this node have what other nodes wrote again"),
        }
    }
    let is_away = status.database_is_away();
    operator.gate.set_database_away(is_away);
    operator.live.set_cut_from_others(is_away);
    let problem = is_behind.then(|| "it could not be read for over 10 s".to_owned());
    status.change(|status| status.copy_problem = problem.filter(|_| !is_away));
    if let Err(error) = operator.see_elsewhere().await {
        tracing::debug!(%error, "cannot read how far the sinks of another node are");
    }
}

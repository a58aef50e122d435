//! The other nodes, as their beats show them.
//!
//! **Invariant**: whether a node lives is decided by when its beat rose here, never by its clock.

use std::time::Duration;

use uuid::Uuid;

use super::{Members, formats};
use crate::NodeStatus;
use base::clock::{Unix, since_boot};
use postgres::{Beat, NodeSaid, NodeSeen};

/// A node is dead whose beat was the same for so long.
pub(super) const LIVES_FOR: Duration = Duration::from_secs(6);

/// What the server waits for while a commit is on no standby.
pub(super) const STANDBY: &str = "SyncRep";

/// The beat of a node.
pub(super) struct Heard {
    pub(super) beat: i64,
    /// When it rose last, by [`since_boot`]; none: not since this node listens.
    pub(super) rose: Option<Duration>,
}

impl Members {
    /// What the nodes are, by name.
    pub(super) fn nodes_of(&mut self, beat: &Beat) -> Vec<NodeStatus> {
        let now = since_boot();
        let is_there = |id: &Uuid| beat.nodes.iter().any(|node| node.said.node == *id);
        self.heard.retain(|id, _| is_there(id));
        let lives: Vec<bool> = (beat.nodes.iter())
            .map(|node| self.lives(node, now))
            .collect();
        let seen = || beat.nodes.iter().zip(lives.iter().copied());
        let owner = seen().find(|(node, _)| Some(node.said.node) == beat.owner);
        let status = |(node, is_live): (&NodeSeen, bool)| NodeStatus {
            runs_sinks: Some(node.said.node) == beat.owner,
            problems: match owner {
                Some((owner, lives)) if is_live => differences(&node.said, &owner.said, lives),
                _ => Vec::new(),
            },
            token_problem: match owner {
                Some((owner, true)) if is_live => other_tokens(&node.said, &owner.said),
                _ => None,
            },
            ..self.status_of(node, is_live)
        };
        let mut nodes: Vec<NodeStatus> = seen().map(status).collect();
        self.name_others(&mut nodes);
        formats::name_waiting(&mut nodes);
        nodes.sort_by(|one, other| (&one.name, one.id).cmp(&(&other.name, other.id)));
        nodes
    }

    /// Whether a node lives: its beat rose, or it was new when this node began to listen. An age is by the clock of the
    /// database, so it is used only where no rise was seen yet.
    fn lives(&mut self, node: &NodeSeen, now: Duration) -> bool {
        let first = (node.age < LIVES_FOR).then(|| now.saturating_sub(node.age));
        let heard = self.heard.entry(node.said.node).or_insert(Heard {
            beat: node.beat,
            rose: first,
        });
        if heard.beat != node.beat {
            *heard = Heard {
                beat: node.beat,
                rose: Some(now),
            };
        }
        heard.rose.is_some_and(|rose| now < rose + LIVES_FOR)
    }

    fn status_of(&self, node: &NodeSeen, is_live: bool) -> NodeStatus {
        let said = &node.said;
        NodeStatus {
            id: said.node,
            name: said.name.clone(),
            version: said.version.clone(),
            address: said.address.clone(),
            format: said.format,
            is_this: said.node == self.member.id,
            is_live,
            runs_sinks: false,
            may_run_sinks: said.may_run_sinks,
            catalog: said.catalog,
            entry: said.entry,
            delay: said.delay,
            seen: Unix::MIN + node.seen,
            renderers: said.renderers,
            problems: Vec::new(),
            token_problem: None,
        }
    }

    /// Another process may have taken the name of this one while it was frozen: the one that began last has it. IDs
    /// begin with the time, so the later process has the larger one.
    fn name_others(&self, nodes: &mut [NodeStatus]) {
        let is_other = |node: &&NodeStatus| {
            node.is_live && node.name == self.member.name && node.id > self.member.id
        };
        let Some(address) = (nodes.iter().find(is_other)).map(|node| node.address.clone()) else {
            return;
        };
        for node in nodes.iter_mut().filter(|node| node.is_this) {
            node.problems.push(format!(
                "another node of this name listens on {address}; set another cluster.name for one of the two, and restart it"
            ));
        }
    }
}

/// In what a node differs from the one that runs the sinks, or ran them last.
fn differences(node: &NodeSaid, owner: &NodeSaid, owner_lives: bool) -> Vec<String> {
    let does = match owner_lives {
        true => "runs the sinks",
        false => "ran the sinks last",
    };
    let compared = [
        (
            "declared configuration differs from that",
            // Another version writes down other settings of the same files.
            node.config != owner.config && node.version == owner.version,
        ),
        ("plugins differ from those", node.plugins != owner.plugins),
    ];
    let different = compared
        .into_iter()
        .filter(|(_, is_different)| *is_different);
    let sentences = different.map(|(what, _)| {
        let owner = &owner.name;
        format!(
            "its {what} of node {owner}, which {does}, so it does not take them over; make both equal, or stop {owner} and remove it with `headgate cluster leave {owner}`"
        )
    });
    sentences.collect()
}

/// How the admin tokens of a node differ from those of the one that runs the sinks. Who does not say has no others.
fn other_tokens(node: &NodeSaid, owner: &NodeSaid) -> Option<String> {
    let differ = node.tokens? != owner.tokens?;
    differ.then(|| {
        format!(
            "its admin tokens differ from those of node {}, so not every user can sign in to both; set admin.token and admin.tokens equally on all nodes, and restart those that you change",
            owner.name
        )
    })
}

//! How nodes share the rates of keys: each has a part by what it is asked for, and all parts together are the rate.
//!
//! A rate that nobody comes near is shared equally, without a word between nodes. Where a node is asked for more than half of
//! that, it publishes its part, and so do all. A part that shrinks is used at once and published then; one that grows is
//! published first, and used when what the others have published leaves room for it.
//!
//! **Invariant**: the parts in use are never more than the whole, whichever node looks first, as long as the nodes agree on who
//! lives. A node that has not heard of the others for a while uses almost nothing until it has.

use std::collections::HashMap;
use std::hash::Hash;
use std::time::Duration;

use base::node_share::NodeShare;
use uuid::Uuid;

/// A node keeps so many parts in a hundred, divided by the number of nodes, of what it is not asked for, so that its
/// first requests are not refused before it has published a part.
const IDLE_PERCENT: u32 = 4;
/// So long a node that is new, or was away, uses almost nothing: by then all others know of it. Otherwise the parts
/// in use would be more than the rate meanwhile.
const NEW_FOR: Duration = Duration::from_secs(4);

/// What a node was asked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Wanted<Id> {
    /// Of the rate.
    pub id: Id,
    /// The rate: so many units a second on all nodes.
    pub per_second: u64,
    /// Units a second that this node was asked for.
    pub wanted: u64,
}

/// What a node has published.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PublishedShare<Id> {
    pub id: Id,
    pub node: Uuid,
    pub share: NodeShare,
    /// Units a second that it was asked for.
    pub wanted: u64,
}

/// What a node has to publish.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ToPublish<Id> {
    /// In place of what it has published of these.
    pub shares: Vec<(Id, NodeShare, u64)>,
    /// Nothing of these any more.
    pub withdrawn: Vec<Id>,
}

/// The parts of a node.
#[derive(Debug)]
pub struct Shares<Id> {
    node: Uuid,
    /// The other nodes that live.
    others: Vec<Uuid>,
    /// Since when it knows of them, by a clock that counts from the start; none: it does not.
    since: Option<Duration>,
    /// All others know of it, too.
    is_known: bool,
    rates: HashMap<Id, SharedRate>,
}

#[derive(Debug, Default)]
struct SharedRate {
    per_second: u64,
    /// What this node was asked for, with what it was asked for before.
    wanted: u64,
    published: Option<NodeShare>,
    /// What it uses; none: what every node has.
    used: Option<NodeShare>,
    /// What the other nodes that live have published.
    others: Vec<(Uuid, NodeShare, u64)>,
}

impl<Id: Copy + Eq + Hash> Shares<Id> {
    /// Of a node that has not looked yet.
    pub fn new(node: Uuid) -> Self {
        Self {
            node,
            others: Vec::new(),
            since: None,
            is_known: false,
            rates: HashMap::new(),
        }
    }

    /// What this node may use of a rate now.
    pub fn of(&self, id: &Id) -> NodeShare {
        let used = self.rates.get(id).and_then(|rate| rate.used);
        used.unwrap_or_else(|| self.at_most())
    }

    /// Whether nodes have published parts, so that it pays to look often.
    pub fn are_published(&self) -> bool {
        !self.rates.is_empty()
    }

    /// The node has not heard of the others for a while. The others may hold it for dead and use its part, so it begins
    /// as a new node.
    pub fn forget(&mut self) {
        self.since = None;
        self.is_known = false;
        self.rates.clear();
    }

    /// Takes what was asked for since the last look, and who else lives. What shrinks by that is to be used at once, and then
    /// what is returned to be published. `now` counts from the start. What was asked for before counts by half, so that
    /// a part does not vanish with one quiet look.
    pub fn look(
        &mut self,
        now: Duration,
        others: Vec<Uuid>,
        wanted: impl IntoIterator<Item = Wanted<Id>>,
    ) -> ToPublish<Id> {
        let since = *self.since.get_or_insert(now);
        self.is_known = now >= since + NEW_FOR;
        self.others = others;
        for rate in self.rates.values_mut() {
            rate.wanted /= 2;
        }
        for new in wanted {
            let is_much = new.wanted.saturating_mul(2 * u64::from(self.nodes())) > new.per_second;
            let rate = match self.rates.get_mut(&new.id) {
                Some(rate) => rate,
                None if is_much && !self.others.is_empty() => self.rates.entry(new.id).or_default(),
                None => continue,
            };
            rate.per_second = new.per_second;
            rate.wanted = rate.wanted.max(new.wanted);
        }
        let (equal, idle, at_most) = (self.equal(), self.idle(), self.at_most());
        let mut shares = Vec::new();
        let mut withdrawn = Vec::new();
        let others = self.others.len();
        for (id, rate) in &mut self.rates {
            let target = match rate.is_much_wanted() {
                false if rate.is_equal(equal) => {
                    withdrawn.push(*id);
                    continue;
                }
                false => equal,
                // What others are asked for is not known yet.
                true if rate.others.len() < others => rate.target(equal, idle).min(equal),
                true => rate.target(equal, idle),
            };
            rate.used = Some(rate.used.unwrap_or(at_most).min(target));
            rate.published = Some(target);
            shares.push((*id, target, rate.wanted));
        }
        for id in &withdrawn {
            self.rates.remove(id);
        }
        ToPublish { shares, withdrawn }
    }

    /// Takes what the other nodes have published, which was read after what this node had to publish was there.
    /// Otherwise two nodes that publish at once could both miss the other's part.
    pub fn receive(&mut self, published: impl IntoIterator<Item = PublishedShare<Id>>) {
        for rate in self.rates.values_mut() {
            rate.others.clear();
        }
        for one in published {
            if one.node != self.node && self.others.contains(&one.node) {
                let rate = self.rates.entry(one.id).or_default();
                rate.others.push((one.node, one.share, one.wanted));
            }
        }
        let (equal, nodes, at_most) = (self.equal().parts(), self.others.len(), self.at_most());
        for rate in self.rates.values_mut() {
            let Some(published) = rate.published else {
                continue;
            };
            let silent = u32::try_from(nodes - rate.others.len()).unwrap_or(u32::MAX);
            let taken: u32 = rate.others.iter().map(|(_, share, _)| share.parts()).sum();
            let taken = taken.saturating_add(silent.saturating_mul(equal));
            let left = NodeShare::of_parts(NodeShare::WHOLE.parts().saturating_sub(taken));
            let may = match self.is_known {
                true => left,
                false => left.min(at_most),
            };
            rate.used = Some(published.min(may));
        }
    }

    /// What each node has of a rate of which none has published a part.
    fn equal(&self) -> NodeShare {
        NodeShare::of_equals(self.nodes())
    }

    /// The same of this node, of which others may not know; almost nothing before it has looked.
    fn at_most(&self) -> NodeShare {
        match self.since {
            None => NodeShare::MIN,
            Some(_) if self.others.is_empty() || self.is_known => self.equal(),
            Some(_) => self.idle(),
        }
    }

    fn idle(&self) -> NodeShare {
        NodeShare::of_parts(NodeShare::WHOLE.parts() * IDLE_PERCENT / 100 / self.nodes())
    }

    fn nodes(&self) -> u32 {
        u32::try_from(self.others.len()).map_or(u32::MAX, |others| others.saturating_add(1))
    }
}

impl SharedRate {
    /// What all nodes are asked for.
    fn wanted_of_all(&self) -> u64 {
        let others: u64 = self.others.iter().map(|(.., wanted)| wanted).sum();
        self.wanted.saturating_add(others)
    }

    /// Whether that comes near the rate.
    fn is_much_wanted(&self) -> bool {
        let all = self.wanted_of_all();
        all > 0 && all.saturating_mul(4) >= self.per_second
    }

    /// What this node should have: its part of what all are asked for.
    fn target(&self, equal: NodeShare, idle: NodeShare) -> NodeShare {
        let all = self.wanted_of_all().max(1);
        let nodes = NodeShare::WHOLE.parts() / equal.parts().max(1);
        let free = NodeShare::WHOLE
            .parts()
            .saturating_sub(idle.parts().saturating_mul(nodes));
        let part = u128::from(free) * u128::from(self.wanted) / u128::from(all);
        let part = u32::try_from(part).unwrap_or(u32::MAX);
        NodeShare::of_parts(idle.parts().saturating_add(part))
    }

    /// Whether every node has what each has of a rate that nobody comes near.
    fn is_equal(&self, equal: NodeShare) -> bool {
        let own = [self.published, self.used];
        own.into_iter().flatten().all(|share| share == equal)
            && self.others.iter().all(|(_, share, _)| *share == equal)
    }
}

#[cfg(test)]
mod tests;

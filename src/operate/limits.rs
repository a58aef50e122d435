//! Limits with their usage, and the largest user of each.
//!
//! **Invariant**: every shared limit that one client could exhaust for the others is listed here.

use std::sync::Arc;

use super::Operator;
use super::condition::Amounts;
use super::problem::ProblemSubject;
use catalog::{IngestKey, Stream};

/// Usage in percent at which a stream or a key is a problem.
const PROBLEM_PERCENT: u128 = 90;
/// Maximum number of named problems.
const NAMED_MAX: usize = 20;

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LimitUse {
    /// The setting, or a description if there is none.
    pub name: &'static str,
    /// `connections`, `bytes` or `items`.
    pub unit: &'static str,
    /// The usage. For a limit of each of several: that of the one nearest to its limit.
    pub used: u64,
    /// The limit; `None`: there is none.
    pub max: Option<u64>,
    /// The user of the limit, or the largest user of a shared one; `None`: there is no particular user.
    pub holder: Option<String>,
}

impl LimitUse {
    fn of_all(name: &'static str, unit: &'static str, used: u64, max: u64) -> Self {
        Self {
            name,
            unit,
            used,
            max: Some(max),
            holder: None,
        }
    }

    /// A limit of each of several: the one nearest to its limit, or the one with the largest usage if there is no
    /// limit.
    fn of_each(
        name: &'static str,
        unit: &'static str,
        each: impl Iterator<Item = (u64, Option<u64>, String)>,
    ) -> Self {
        let nearest = each.max_by(|(used, max, _), (other_used, other_max, _)| {
            let share = |used: u64, max: Option<u64>| max.map(|max| hundredths(used, max));
            (share(*used, *max), *used).cmp(&(share(*other_used, *other_max), *other_used))
        });
        let (used, max, holder) = nearest.unwrap_or_default();
        Self {
            name,
            unit,
            used,
            max,
            holder: (used > 0).then_some(holder),
        }
    }
}

/// A hundred times a number of bytes can exceed 64 bits.
fn hundredths(used: u64, max: u64) -> u128 {
    u128::from(used) * 100 / u128::from(max.max(1))
}

fn full_name(key: &IngestKey) -> String {
    format!("{}/{}", key.connector, key.name)
}

impl Operator {
    /// All limits, with the current usage.
    pub fn limits(&self, amounts: &Amounts) -> Vec<LimitUse> {
        let mut limits = self.connections();
        limits.extend(self.pages());
        limits.extend(self.bodies());
        let keys = self.ingest_keys();
        let days = keys.iter().map(|key| {
            let max = key.volume.limits().bytes_per_day;
            let max = Some(max).filter(|max| *max > 0);
            (key.volume.stored_today(), max, full_name(key))
        });
        limits.push(LimitUse::of_each("limits.bytes_per_day", "bytes", days));
        let streams = self.catalog.streams();
        let sizes = self.pool.sizes();
        let items = streams.iter().map(|stream| {
            let items = sizes.of(&stream.name).items;
            (items, stream.items_max, stream.name.to_string())
        });
        limits.push(LimitUse::of_each("streams.items_max", "items", items));
        let bytes = streams.iter().map(|stream| {
            let bytes = sizes.of(&stream.name).bytes;
            (bytes, stream.bytes_max, stream.name.to_string())
        });
        limits.push(LimitUse::of_each("streams.bytes_max", "bytes", bytes));
        let storage = &self.about.storage;
        for (name, used, max) in [
            (
                "storage.log_retention_bytes",
                amounts.log_bytes,
                storage.log_retention_bytes,
            ),
            (
                "storage.payload_retention_bytes",
                amounts.payload_bytes,
                storage.payload_retention_bytes,
            ),
        ] {
            limits.extend(used.map(|used| LimitUse::of_all(name, "bytes", used, max)));
        }
        let [free, all] = [&self.metrics.disk_free_bytes, &self.metrics.disk_bytes]
            .map(|gauge| u64::try_from(gauge.get()).unwrap_or(0));
        let max = all.saturating_sub(storage.min_free_bytes);
        limits.push(LimitUse::of_all(
            "storage.min_free_bytes",
            "bytes",
            all.saturating_sub(free),
            max,
        ));
        limits
    }

    /// Connections of both listeners, and of renderers.
    fn connections(&self) -> Vec<LimitUse> {
        let listeners = &self.metrics.listeners;
        let of = |name, connections: &observe::metrics::Connections| {
            let open = u64::try_from(connections.open.get()).unwrap_or(0);
            LimitUse::of_all(name, "connections", open, connections.max())
        };
        let connection_limit = self.live.occupancy();
        let (holder, most) = connection_limit.most.unzip();
        let holder = holder.map(|key| format!("the read key {key}"));
        vec![
            of("server.connections_max", &listeners.service),
            of("connections of the admin listener", &listeners.admin),
            LimitUse {
                holder: holder.clone(),
                ..LimitUse::of_all(
                    "live.connections_max",
                    "connections",
                    connection_limit.taken as u64,
                    connection_limit.max as u64,
                )
            },
            LimitUse {
                holder,
                ..LimitUse::of_all(
                    "live.connections_per_key_max",
                    "connections",
                    most.unwrap_or(0) as u64,
                    connection_limit.each_max as u64,
                )
            },
        ]
    }

    /// Bytes of pages of items that are being sent.
    fn pages(&self) -> [LimitUse; 2] {
        let pages = self.live.pages().taken();
        let (holder, most) = pages.most.unzip();
        let holder = holder.map(|key| format!("the read key {key}"));
        let of = |name, used, max| LimitUse {
            holder: holder.clone(),
            ..LimitUse::of_all(name, "bytes", used, max)
        };
        let each = most.unwrap_or(0);
        [
            of("live.max_page_bytes", pages.taken, pages.max),
            of("live.max_page_bytes_per_key", each, pages.each_max),
        ]
    }

    /// Bytes of bodies that are being received.
    fn bodies(&self) -> [LimitUse; 2] {
        let budget = self.ingest.bodies();
        let (taken, max) = budget.used();
        let connectors = self.catalog.connectors();
        let unauthenticated = connectors.iter().map(|connector| {
            let name = format!("{} without a valid signature", connector.name);
            (connector.unauthenticated.taken(), name)
        });
        let keys = connectors.iter().flat_map(|connector| &connector.keys);
        let keys = keys.map(|key| (key.bodies.taken(), full_name(key)));
        let each = keys.chain(unauthenticated);
        let each = each.map(|(taken, name)| (taken, Some(budget.share_bytes_max()), name));
        let most = LimitUse::of_each("limits.max_pending_bytes_per_key", "bytes", each);
        let all = LimitUse {
            holder: most.holder.clone(),
            ..LimitUse::of_all("limits.max_pending_bytes", "bytes", taken, max)
        };
        [all, most]
    }

    fn ingest_keys(&self) -> Vec<Arc<IngestKey>> {
        let mut keys = self.catalog.ingest_keys();
        keys.retain(|key| key.revoked_at.is_none());
        keys
    }

    /// Streams that are full or nearly full, and keys that have used their quota of today.
    pub(super) fn used_up(&self) -> Vec<(ProblemSubject, String)> {
        let mut problems = Vec::new();
        for stream in self.catalog.streams() {
            let subject = || ProblemSubject::Stream(stream.name.to_string());
            problems.extend(self.fullness(&stream).map(|sentence| (subject(), sentence)));
        }
        for key in self.ingest_keys() {
            let max = key.volume.limits().bytes_per_day;
            let stored = key.volume.stored_today();
            if max > 0 && hundredths(stored, max) >= PROBLEM_PERCENT {
                let subject = ProblemSubject::Connector(key.connector.to_string());
                let sentence = format!(
                    "key {} has used {}% of its daily quota of {max} bytes; at 100%, its requests get 429 until midnight UTC",
                    full_name(&key),
                    hundredths(stored, max)
                );
                problems.push((subject, sentence));
            }
        }
        let more = problems.len().saturating_sub(NAMED_MAX);
        if more > 0 {
            problems.truncate(NAMED_MAX);
            let sentence = format!("{more} more streams or keys are near their limits");
            problems.push((ProblemSubject::Daemon, sentence));
        }
        problems
    }

    fn fullness(&self, stream: &Stream) -> Option<String> {
        let size = self.pool.sizes().of(&stream.name);
        let limits = [
            ("items", size.items, stream.items_max),
            ("bytes", size.bytes, stream.bytes_max),
        ];
        let limits = limits
            .into_iter()
            .filter_map(|(what, used, max)| Some((what, used, max?)));
        let (what, used, max) = limits.max_by_key(|(_, used, max)| hundredths(*used, *max))?;
        let name = &stream.name;
        match hundredths(used, max) {
            100.. => Some(format!(
                "stream {name} is full ({used} of {max} {what}) and rejects new items; remove items, or raise {what}_max"
            )),
            share @ PROBLEM_PERCENT.. => Some(format!(
                "stream {name} is at {share}% of its limit of {max} {what}; at 100% it rejects new items"
            )),
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::LimitUse;

    #[test]
    fn who_is_nearest_to_a_limit_counts() {
        fn check(
            each: &[(u64, Option<u64>, &str)],
            used: u64,
            max: Option<u64>,
            holder: Option<&str>,
        ) {
            let each = each
                .iter()
                .map(|(used, max, name)| (*used, *max, (*name).to_owned()));
            let found = LimitUse::of_each("limit", "bytes", each);
            assert_eq!(
                (found.used, found.max, found.holder.as_deref()),
                (used, max, holder)
            );
        }
        check(&[], 0, None, None);
        check(&[(5, None, "a"), (9, None, "b")], 9, None, Some("b"));
        check(
            &[(5, Some(10), "a"), (900, None, "b"), (60, Some(1_000), "c")],
            5,
            Some(10),
            Some("a"),
        );
        check(&[(0, Some(10), "a"), (0, None, "b")], 0, Some(10), None);
    }
}

//! Which streams reach no sink, and which no sink that writes the data pool.
//!
//! `check` asks for what the configuration declares, `delivery` for what there is while the daemon runs.
//!
//! **Invariant**: a stream is only named if it is certain that nothing, or nobody who writes the pool, takes it.

use super::{Connector, Listed, Settings, Sink};

/// The built-in plugins that write the data pool.
const WRITERS: &[&str] = &[POOL, FILTER];
/// The one that writes the pool as it is.
pub(crate) const POOL: &str = "pool";
/// The one that writes it in place of `pool`.
pub(super) const FILTER: &str = "filter-map";
/// Names in a sentence.
const NAMES_MAX: usize = 5;

/// A stream, and the connectors that have keys for it.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Inflow {
    /// Its name.
    pub stream: String,
    /// Names of connectors.
    pub connectors: Vec<String>,
}

/// The streams of a configuration.
pub fn declared(settings: &Settings) -> Vec<Inflow> {
    let connectors = |stream: &str| {
        let sends = |connector: &&Connector| connector.keys.iter().any(|key| key.stream == stream);
        let connectors = settings.connectors.iter().filter(sends);
        connectors.map(|connector| connector.name.clone()).collect()
    };
    let streams = settings.streams.iter();
    streams
        .map(|stream| Inflow {
            connectors: connectors(&stream.name),
            stream: stream.name.clone(),
        })
        .collect()
}

/// Whether a sink writes the data pool; none if only the component itself can tell.
pub fn writes_pool(sink: &Sink) -> Option<bool> {
    let plugin = sink.plugin.as_str();
    if sink.writes().is_empty() && sink.makes.is_empty() {
        return Some(false);
    }
    let is_built_in = super::BUILT_IN_PLUGINS.contains(&plugin);
    is_built_in.then(|| WRITERS.contains(&plugin))
}

/// Whether a sink that writes the pool may write the items of a stream: one that is not `pool` may do so elsewhere.
fn may_show(sink: &Sink, stream: &str) -> bool {
    let writes = sink.writes();
    sink.plugin != POOL || writes.given() || writes.lists(stream) != Listed::No
}

/// What does not reach what it should, in sentences. `sinks` are those that run, each with whether it writes the pool,
/// as far as that is known; one that may counts as one that does.
pub fn gaps<'a>(
    inflows: &[Inflow],
    sinks: impl IntoIterator<Item = (&'a Sink, Option<bool>)>,
) -> Vec<String> {
    let sinks: Vec<_> = sinks.into_iter().collect();
    let mut nowhere = Vec::new();
    let mut unseen = Vec::new();
    for inflow in inflows {
        let mut takers = sinks
            .iter()
            .filter(|(sink, _)| sink.matches(&inflow.stream))
            .peekable();
        if takers.peek().is_none() {
            nowhere.push(inflow);
        } else if !takers
            .any(|(sink, writes)| writes.unwrap_or(true) && may_show(sink, &inflow.stream))
        {
            unseen.push(inflow);
        }
    }
    let mut sentences = Vec::new();
    if !nowhere.is_empty() {
        sentences.push(format!(
            "{} no sink: requests are accepted, but not delivered, not even to the data pool{}; add {} to `streams` of a sink",
            match nowhere.as_slice() {
                [_] => format!("{} reaches", streams(&nowhere)),
                _ => format!("{} reach", streams(&nowhere)),
            },
            senders(&nowhere),
            if nowhere.len() == 1 { "it" } else { "them" },
        ));
    }
    if !unseen.is_empty() {
        let it = if unseen.len() == 1 { "it" } else { "them" };
        sentences.push(format!(
            "no sink writes {} to the data pool, so screens do not show {it}{}",
            streams(&unseen),
            senders(&unseen),
        ));
    }
    sentences
}

fn streams(inflows: &[&Inflow]) -> String {
    let names = inflows.iter().map(|inflow| inflow.stream.as_str());
    listed("the stream", names.collect())
}

/// ` (the connector shop sends there)`, or nothing.
fn senders(inflows: &[&Inflow]) -> String {
    let names = inflows.iter().flat_map(|inflow| &inflow.connectors);
    let mut names: Vec<&str> = names.map(String::as_str).collect();
    names.sort_unstable();
    names.dedup();
    match names.len() {
        0 => String::new(),
        1 => format!(" ({} sends there)", listed("the connector", names)),
        _ => format!(" ({} send there)", listed("the connector", names)),
    }
}

/// `the streams a, b and 7 more`.
fn listed(what: &str, names: Vec<&str>) -> String {
    let more = names.len().saturating_sub(NAMES_MAX);
    let shown: Vec<String> = names
        .iter()
        .take(NAMES_MAX)
        .map(|name| {
            super::checks::name(name).map_or_else(|_| super::quoted(name), |()| (*name).to_owned())
        })
        .collect();
    let plural = if names.len() == 1 { "" } else { "s" };
    let more = match more {
        0 => String::new(),
        more => format!(" and {more} more"),
    };
    format!("{what}{plural} {}{more}", shown.join(", "))
}

#[cfg(test)]
mod tests;

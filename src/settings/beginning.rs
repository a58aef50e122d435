//! Which sinks can begin with what the data pool has.
//!
//! `load` asks for what the configuration declares, `operate` for what there is while the daemon runs, `delivery` whose
//! place a beginning depends on.
//!
//! **Invariant**: a sink that can begin so receives only streams whose rows `pool` writes, as they were accepted.

use super::routing_gaps::{POOL, writes_pool};
use super::{Leaves, Listed, OnUpdate, Sink, Start, Stream, is_daemons, quoted};

/// Why a sink cannot begin with what the data pool has, in one sentence. `sinks` are all that there are.
pub fn no_state<'a>(sink: &Sink, sinks: impl IntoIterator<Item = &'a Sink>) -> Option<String> {
    if writes_pool(sink) != Some(false) {
        return Some(
            "it writes to the data pool itself, so the data pool cannot fill it".to_owned(),
        );
    }
    let mut writers = sinks
        .into_iter()
        .filter(|other| may_write(other, sink))
        .peekable();
    if writers.peek().is_none() {
        return Some(
            "no sink writes its streams to the data pool, so the data pool cannot fill it"
                .to_owned(),
        );
    }
    let other = writers.find(|writer| writer.plugin != POOL)?;
    Some(format!(
        "the sink {} writes some of its streams to the data pool, and may change or move their items. Only streams that `pool` writes can fill it: exclude the others with `except`",
        quoted(&other.name)
    ))
}

/// Why a sink cannot follow the changes of the data pool, in one sentence. `sinks` are all that there are.
pub fn no_changes<'a>(sink: &Sink, sinks: impl IntoIterator<Item = &'a Sink>) -> Option<String> {
    if writes_pool(sink) != Some(false) {
        return Some(
            "it writes to the data pool itself, so it would receive its own changes".to_owned(),
        );
    }
    let mut sinks = sinks.into_iter();
    (!sinks.any(|other| may_write(other, sink))).then(|| {
        "no sink writes its streams to the data pool, so there are no changes to receive".to_owned()
    })
}

/// Why a sink cannot be told what leaves its selection, in one sentence: of an item whose updates merge, an entry has a part.
pub fn removes_parts<'a>(
    sink: &Sink,
    streams: impl IntoIterator<Item = &'a Stream>,
) -> Option<String> {
    if sink.leaves != Leaves::Remove || sink.is_latest() {
        return None;
    }
    let conditions = sink.r#where.as_ref()?.conditions();
    let field = conditions.field()?;
    let mut streams = streams.into_iter();
    let merged =
        |stream: &&Stream| stream.on_update == OnUpdate::Merge && sink.matches(&stream.name);
    let stream = streams.find(merged)?;
    Some(format!(
        "\"remove\" would remove items that match: updates of the stream {} are merged, and an update without the field {} does not match. Use mode = \"latest\", which checks whole items",
        quoted(&stream.name),
        quoted(&field)
    ))
}

/// What a sink is not promised of its beginning and its streams, in sentences. `streams` and `sinks` are all that there are.
pub fn notes<'a>(
    sink: &Sink,
    streams: impl IntoIterator<Item = &'a Stream>,
    sinks: impl IntoIterator<Item = &'a Sink>,
) -> Vec<String> {
    let mut notes = Vec::new();
    if sink.is_latest() || writes_pool(sink) != Some(false) {
        return notes;
    }
    let streams: Vec<&Stream> = (streams.into_iter())
        .filter(|stream| sink.matches(&stream.name))
        .collect();
    if let Some(why) = removes_parts(sink, streams.iter().copied()) {
        notes.push(format!("leaves = {why}"));
    }
    if sink.start == Start::Journal {
        notes.push(
            "it starts with the oldest stored request, so it never receives items that were last written before; to start with all items, set start = \"state\"".to_owned(),
        );
    }
    if let Some(stream) = streams.iter().find(|stream| stream.version.is_some()) {
        notes.push(format!(
            "the stream {} has versions, and the sink receives older updates and removals too; the receiver must compare the `version` of items to match the data pool",
            quoted(&stream.name)
        ));
    }
    let merged = |stream: &&&Stream| stream.on_update == OnUpdate::Merge;
    if let Some(stream) = streams.iter().find(merged) {
        notes.push(format!(
            "updates of the stream {} are merged: the sink receives the fields of each request, not whole items. An item that changes while the sink is filled arrives whole, then its changed fields again",
            quoted(&stream.name)
        ));
    }
    let writer = sinks
        .into_iter()
        .find(|other| other.plugin != POOL && may_write(other, sink));
    if let Some(writer) = writer {
        notes.push(format!(
            "the sink {} writes some of its streams to the data pool; this sink receives the items as they were accepted, not as they are in the data pool",
            quoted(&writer.name)
        ));
    }
    notes
}

/// Whether a sink may write items in the data pool that another one receives.
pub fn may_write(writer: &Sink, receiver: &Sink) -> bool {
    if writer.name == receiver.name || writes_pool(writer) == Some(false) {
        return false;
    }
    let writes = writer.writes();
    let mut written = writes.patterns(&writer.streams);
    written.extend_from_slice(&writer.makes);
    let is_left = |name: &String| {
        writer.except.contains(name) && !name.ends_with('*') && writes.lists(name) == Listed::No
    };
    let mut received = receiver.streams.iter().filter(|name| !is_left(name));
    let all_of_pool = |one: &str| one == "*" && writer.plugin == POOL;
    received.any(|other| {
        let mut written = written.iter();
        written.any(|one| all_of_pool(one) || meet(one, other))
    })
}

/// Whether some stream matches both patterns.
fn meet(one: &str, other: &str) -> bool {
    if (one == "*" && is_daemons(other)) || (other == "*" && is_daemons(one)) {
        return false;
    }
    match (one.strip_suffix('*'), other.strip_suffix('*')) {
        (Some(one), Some(other)) => one.starts_with(other) || other.starts_with(one),
        (Some(prefix), None) => other.starts_with(prefix),
        (None, Some(prefix)) => one.starts_with(prefix),
        (None, None) => one == other,
    }
}

#[cfg(test)]
mod tests;

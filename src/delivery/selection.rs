//! The items and fields that a sink receives: `where` and `fields` of its settings.
//!
//! The lane selects items when it reads new entries, so a retry has the items that were selected then. It selects
//! fields before each call, so a dead letter has the whole item.
//!
//! **Invariant**: without these settings, a sink costs nothing more. The sink receives a removal unless the item's key
//! or stream shows that it never had the item. With `leaves = "remove"`, it also receives a removal of an item that no
//! longer matches. A sink never receives its own problems.

use base::clock;
use base::order::Seq;
use item::ItemRef;
use item::batch::{Action, Batch, DeriveError, Fate, Slice};
use select::{Fields, Own, Record, Where};
use settings::{Leaves, Sink};

/// Maximum bytes of a batch's items after their fields were changed.
const FIELDS_BYTES_MAX: usize = 64 << 20;

/// Facts about the items of one request, read when a condition uses them. A text is made only if a condition names it,
/// because each request would need one otherwise.
#[derive(Debug, Default)]
struct OfRequest {
    seq: Option<Seq>,
    received_at: String,
    request_id: String,
}

impl OfRequest {
    fn record<'a>(&'a self, slice: &'a Slice, item: &ItemRef<'a>) -> Record<'a> {
        Record {
            key: item.key,
            stream: &slice.entry.stream,
            updated_at: &self.received_at,
            received_at: &self.received_at,
            request_id: &self.request_id,
            fields: item.fields,
            ..Record::default()
        }
    }

    /// Moves to the request of a slice.
    fn update(&mut self, slice: &Slice, names: impl Fn(Own) -> bool) {
        let entry = &slice.entry;
        if self.seq.replace(entry.seq) == Some(entry.seq) {
            return;
        }
        if names(Own::ReceivedAt) || names(Own::UpdatedAt) {
            self.received_at = clock::rfc3339(entry.received_at);
        }
        if names(Own::RequestId) {
            self.request_id = entry.request_id.to_string();
        }
    }
}

/// A batch as a sink receives it.
///
/// # Errors
/// Its items with the selected fields are too large.
pub fn narrowed(sink: &Sink, batch: &Batch) -> Result<Batch, DeriveError> {
    let slices = selected(sink, batch.slices().to_vec(), "");
    let selected = Batch::new(slices, batch.attempt());
    let chosen = with_fields(sink, &selected)?;
    Ok(chosen.unwrap_or(selected))
}

/// The slices of the items that a sink receives, and of removals if it receives items that leave its selection. Of the
/// stream `problems`, it does not receive its own problems: each failure would create the next.
pub(crate) fn selected(sink: &Sink, slices: Vec<Slice>, problems: &str) -> Vec<Slice> {
    match (&sink.r#where, sink.leaves) {
        (Some(selection), Leaves::Remove) if !selection.conditions().is_empty() => {
            with_leaving(selection.conditions(), without_own(sink, slices, problems))
        }
        _ => matching(sink, slices, problems),
    }
}

/// The slices of the matching items only.
pub(crate) fn matching(sink: &Sink, slices: Vec<Slice>, problems: &str) -> Vec<Slice> {
    let slices = without_own(sink, slices, problems);
    match &sink.r#where {
        Some(selection) if !selection.conditions().is_empty() => {
            select(selection.conditions(), slices)
        }
        _ => slices,
    }
}

fn without_own(sink: &Sink, slices: Vec<Slice>, problems: &str) -> Vec<Slice> {
    let is_problem = |slice: &Slice| *slice.entry.stream == *problems;
    match slices.iter().any(is_problem) {
        true => Batch::kept(slices, |slice, item| {
            !(is_problem(slice) && is_about(item.key, &sink.name))
        }),
        false => slices,
    }
}

/// Whether a problem with this key is about this sink. In a cluster, the key ends with `@` and the node that has the problem.
fn is_about(key: &str, sink: &str) -> bool {
    key.split_once(':').is_some_and(|(kind, rest)| {
        let subject = rest.rsplit_once('@').map_or(rest, |(subject, _)| subject);
        subject == sink && (kind.starts_with("sink_") || kind == "configuration")
    })
}

fn select(conditions: &Where, slices: Vec<Slice>) -> Vec<Slice> {
    let mut request = OfRequest::default();
    Batch::kept(slices, |slice, item| match item.action {
        Action::Remove => conditions.passes_removal(item.key, &slice.entry.stream),
        Action::Upsert => {
            request.update(slice, |own| conditions.names(own));
            conditions.holds(&request.record(slice, item))
        }
    })
}

/// The matching items, and removals of all others, except where key or stream show that the sink never had the item.
fn with_leaving(conditions: &Where, slices: Vec<Slice>) -> Vec<Slice> {
    let mut request = OfRequest::default();
    Batch::sorted(&slices, |slice, item| {
        if item.action == Action::Upsert {
            request.update(slice, |own| conditions.names(own));
            if conditions.holds(&request.record(slice, item)) {
                return Fate::Kept;
            }
        }
        match conditions.passes_removal(item.key, &slice.entry.stream) {
            true => Fate::Leaves,
            false => Fate::Skipped,
        }
    })
}

/// The batch with the fields that a sink receives.
pub(crate) fn with_fields(sink: &Sink, batch: &Batch) -> Result<Option<Batch>, DeriveError> {
    match &sink.fields {
        Some(selection) if !selection.fields().is_empty() => {
            chosen(selection.fields(), batch).map(Some)
        }
        _ => Ok(None),
    }
}

fn chosen(fields: &Fields, batch: &Batch) -> Result<Batch, DeriveError> {
    let (mut request, chooser) = (OfRequest::default(), fields.chooser());
    batch.with_fields(&fields.canonical(), FIELDS_BYTES_MAX, |slice, item, out| {
        request.update(slice, |own| fields.names(own));
        chooser.choose_into(&request.record(slice, item), out);
    })
}

#[cfg(test)]
mod tests {
    use super::is_about;

    #[test]
    fn a_problem_of_a_sink_is_about_it_whichever_node_has_it() {
        for key in [
            "sink_failing:team",
            "sink_failing:team@b",
            "configuration:team@a.team",
        ] {
            assert!(is_about(key, "team"), "{key}");
        }
        for key in [
            "sink_failing:team2",
            "sink_failing:other@team",
            "screen_away:team@a",
            "many:",
            "many:@team",
        ] {
            assert!(!is_about(key, "team"), "{key}");
        }
    }
}

//! The columns of lists of sinks, dead letters and retries, and the lines of one sink.
//!
//! **Invariant**: cells are short; JSON output is complete.

use std::fmt::Write as _;

use crate::output::{cut, plain, shown, when};
use crate::resource::Column;
use wire::{DeadLetterData, RetryData, SinkData};

pub(crate) const SINKS: &[Column<SinkData>] = &[
    Column::new("NAME", |sink| plain(&sink.name)),
    Column::new("PLUGIN", |sink| plain(&sink.plugin)),
    Column::new("STATE", |sink| match &sink.node {
        None => plain(&sink.state),
        Some(node) if sink.state == "elsewhere" => format!("on node {}", plain(node)),
        Some(node) => format!("{} on node {}", plain(&sink.state), plain(node)),
    }),
    Column::new("LAG", |sink| plain(&sink.lag)),
    Column::new("RETRIES", |sink| plain(&sink.retries)),
    Column::new("DEAD LETTERS", |sink| plain(&sink.dead_letters)),
    Column::new("LAST ERROR", |sink| match &sink.last_error {
        None => String::new(),
        Some(error) => cut(format!("{} {}", when(&error.at), error.reason)),
    }),
];

pub(super) const LETTERS: &[Column<DeadLetterData>] = &[
    Column::new("ID", |letter| plain(&letter.id)),
    Column::new("TIME", |letter| when(&letter.at)),
    Column::new("STREAM", |letter| plain(&letter.stream)),
    Column::new("KEY", |letter| cut(plain(&letter.key))),
    Column::new("ATTEMPTS", |letter| plain(&letter.attempts)),
    Column::new("REQUEST", |letter| plain(&letter.request_id)),
    Column::new("REASON", |letter| cut(plain(&letter.reason))),
];

pub(super) const RETRIES: &[Column<RetryData>] = &[
    Column::new("ID", |retry| plain(&retry.id)),
    Column::new("DUE", |retry| when(&retry.due_at)),
    Column::new("ITEMS", |retry| plain(&retry.items)),
    Column::new("ATTEMPTS", |retry| plain(&retry.attempts)),
    Column::new("FIRST REQUEST", |retry| plain(&retry.first_request_id)),
    Column::new("REASON", |retry| cut(plain(&retry.reason))),
];

/// A sink as lines of text.
pub(super) fn as_text(sink: &SinkData) -> String {
    let mut text = String::new();
    let mut line = |what: &str, said: &str| {
        if !said.is_empty() {
            // Writing to a string cannot fail.
            let _ = writeln!(text, "{what:<14}{}", shown(said));
        }
    };
    line("name", &sink.name);
    line("state", &sink.state);
    line("node", sink.node.as_deref().unwrap_or_default());
    line("reason", sink.reason.as_deref().unwrap_or_default());
    line("refused", sink.refused.as_deref().unwrap_or_default());
    line("plugin", &sink.plugin);
    line("streams", &sink.streams.join(", "));
    line("except", &sink.except.join(", "));
    line("where", sink.conditions.as_deref().unwrap_or_default());
    line("leaves", sink.leaves.as_deref().unwrap_or_default());
    line("fields", sink.fields.as_deref().unwrap_or_default());
    for grant in &sink.grants {
        line("grant", grant);
    }
    line("declared", if sink.declared { "yes" } else { "no" });
    line("created", &when(&sink.created_at));
    line("lag", &sink.lag.to_string());
    if let Some(filling) = &sink.filling {
        let (done, left) = (filling.done, filling.left);
        line(
            "filling",
            &format!("{done} items done, {left} left, since {}", filling.began_at),
        );
    }
    if let Some(latest) = &sink.latest {
        line("mode", "latest");
        let last = latest.last_rejected.as_deref().unwrap_or("none");
        line(
            "rejected",
            &format!("{}, the last: {last}", latest.rejected),
        );
        if let (Some(at), Some(why)) = (&latest.refilled_at, &latest.refilled_because) {
            line("refilled", &format!("{at} {why}"));
        }
    }
    line("retries", &known(sink.retries));
    line("dead letters", &known(sink.dead_letters));
    if let Some(error) = &sink.last_error {
        line("last error", &format!("{} {}", error.at, error.reason));
    }
    text
}

fn known(number: Option<u64>) -> String {
    number.map_or_else(|| "?".to_owned(), |number| number.to_string())
}

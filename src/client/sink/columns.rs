//! What lists of sinks, dead letters and retries show of each.
//!
//! **Invariant**: a cell is short; JSON has all of it.

use crate::output::{cut, plain, when};
use crate::resource::Column;
use wire::{DeadLetterData, RetryData, SinkData};

pub(crate) const SINKS: &[Column<SinkData>] = &[
    Column::new("NAME", |sink| plain(&sink.name)),
    Column::new("PLUGIN", |sink| plain(&sink.plugin)),
    Column::new("STATE", |sink| plain(&sink.state)),
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

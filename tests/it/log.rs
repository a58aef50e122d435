//! The request log and the admin API around it.

mod admin; // the token, bad queries, what does not exist
mod entries; // what stands in an entry, and which requests have one
mod paging; // pages, filters by status and by time
mod search; // what a text finds, in which order
mod testimony; // why requests failed, what was discarded, audit, the last hour

pub(crate) use testimony::last_hour;

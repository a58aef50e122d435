//! Items as tables: which rows and columns a query wants, and a writer for each format.
//!
//! Feeds and exports answer with them, the sink `file` writes them into files.
//!
//! **Invariant**: the same items and the same query give the same bytes, whoever asks.
#![deny(unsafe_code)]

mod cell;
mod column;
mod json;
mod natural;
mod query;
mod rows;
mod rss;
mod separated;
mod sort;
mod txt;
mod write;
mod xml;

pub use cell::Row;
pub use column::{Column, Wanted, columns, columns_of, wanted};
pub use query::{Format, Query, QueryError};
pub use rows::{Found, fields, find};
pub use sort::Sorter;
pub use write::{Writer, body};

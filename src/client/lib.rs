//! The verbs of the command line that call a running daemon over HTTP, and the output functions of all verbs.
//!
//! **Invariant**: the package depends on neither the daemon nor any server: it uses only addresses, keys and responses.
#![deny(unsafe_code)]

mod acts;
pub mod bench;
pub mod client;
pub mod cluster;
pub mod configuration;
pub mod connector;
pub mod error;
pub mod export;
pub mod healthcheck;
pub mod item;
pub mod key;
pub mod operate_key;
pub mod output;
pub mod patience;
pub mod plugin;
pub mod preset;
pub mod problems;
pub mod read_key;
mod record;
pub mod requests;
pub mod resource;
pub mod screens;
pub mod search;
pub mod send;
pub mod session;
pub mod sign_in;
pub mod signals;
pub mod sink;
pub mod status;
pub mod stream;
pub mod tail;
pub mod trigger;
pub mod zone;

use std::pin::Pin;

use error::CliError;

/// A verb that somebody has to poll. In a box, because the code of a future is compiled by whoever polls it, and that is the
/// last package: each change anywhere would compile all verbs again.
pub type Running = Pin<Box<dyn Future<Output = Result<(), CliError>>>>;

//! The program as a library, for its tests and benchmarks.
//!
#![doc = include_str!("../ARCHITECTURE.md")]
//!
//! # Budget of a request
//!
#![doc = include_str!("budget.md")]
#![deny(unsafe_code)]

pub use ::backup;
pub use ::base::backoff;
pub use ::base::budget;
pub use ::catalog;
pub use ::item::batch;
pub mod cli;
pub use ::base::clock;
pub use ::settings as config;
pub mod daemon;
pub use ::base::opaque;
pub use ::base::process;
pub use ::base::text;
pub use ::delivery;
pub use ::guide;
pub use ::http;
pub use ::ingest;
pub use ::ingest::error;
pub use ::item;
pub use ::journal;
pub use ::live;
pub use ::observe::metrics;
pub use ::observe::telemetry;
pub use ::operate;
pub use ::plugin;
pub use ::pool;
pub use ::repair;
pub use ::sqlite;
pub use ::webhook as sender;

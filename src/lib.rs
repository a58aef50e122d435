//! Headgate.
#![deny(unsafe_code)]

pub mod batch;
pub mod catalog;
pub mod cli;
pub mod clock;
pub mod config;
pub mod daemon;
pub mod delivery;
pub mod error;
pub mod http;
pub mod ingest;
pub mod item;
pub mod journal;
pub mod metrics;
pub mod plugin;
pub mod pool;
pub mod sqlite;

//! The program as a library, for its tests and benchmarks.
//!
#![doc = include_str!("../ARCHITECTURE.md")]
//!
//! # Budget of a request
//!
#![doc = include_str!("budget.md")]
#![deny(unsafe_code)]

pub mod cli;
pub mod daemon;

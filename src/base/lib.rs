//! What every other package may use: clocks, numbers that order, pauses, text, shared memory, and what the process asks of the system.
//!
//! **Invariant**: names no other package of the workspace, and knows nothing of items, requests or files of data.
#![deny(unsafe_code)]

pub mod backoff;
pub mod budget;
pub mod clock;
pub mod key;
pub mod lease;
pub mod node_share;
pub mod opaque;
pub mod order;
pub mod process;
pub mod text;
pub mod tree;
pub mod whole_file;

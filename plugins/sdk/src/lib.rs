//! Write Headgate sinks in Rust.
//!
//! A sink is a type with one function. Compile the crate as a `cdylib` for `wasm32-wasip2`:
//!
//! ```ignore
//! use headgate_sdk::{Batch, Sink, WriteError, pool, renderers};
//!
//! struct Everything;
//!
//! impl Sink for Everything {
//!     fn write(batch: Batch) -> Result<(), WriteError> {
//!         pool::upsert(&batch);
//!         renderers::publish(&batch);
//!         Ok(())
//!     }
//! }
//!
//! headgate_sdk::export!(Everything with_types_in headgate_sdk);
//! ```
//!
//! The world itself, with what each function promises, is `wit/sink.wit` beside this crate.

wit_bindgen::generate!({
    path: "wit",
    world: "sink-plugin",
    pub_export_macro: true,
});

pub use exports::headgate::sink::sink::{Guest as Sink, Retry, WriteError};
pub use headgate::sink::batches::Batch;
pub use headgate::sink::{pool, renderers};

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
//! headgate_sdk::export!(Everything);
//! ```
//!
//! A sink that takes updates and removals as they were accepted implements [`Operations`] too, and is exported with
//! `export!(Everything with operations)`. One that treats removals apart implements [`Removals`].
//!
//! [`http`] calls others, [`postgres`] writes to a database, [`folder`] writes files, [`wire`] opens connections, [`templates`] and [`tables`] make
//! texts of items; a sink that does not use them does not ask for them.
//! [`halves`] finds the items of a batch that a receiver refuses, [`delivery`] says which of them are settled already.
//!
//! The world itself, with what each function promises, is `wit/sink.wit` beside this crate.

use std::sync::OnceLock;

pub mod halves;
pub mod http;

#[doc(hidden)]
pub mod bindings {
    wit_bindgen::generate!({
        path: "wit",
        inline: "
            package headgate:sdk;
            world everything {
                include headgate:sink/http-sink@1.2.0;
                include headgate:sink/calling-sink@1.2.0;
                include headgate:sink/postgres-sink@1.2.0;
                include headgate:sink/template-sink@1.2.0;
                include headgate:sink/folder-sink@1.2.0;
                include headgate:sink/wire-sink@1.2.0;
            }
        ",
        world: "headgate:sdk/everything",
        generate_all,
        pub_export_macro: true,
        export_macro_name: "export_bindings",
    });
}

/// The error of another export, made of the one that sinks return: bindings give each export types of its own, with the
/// same cases.
macro_rules! from_write_error {
    ($error:ident) => {
        impl From<crate::WriteError> for $error {
            fn from(error: crate::WriteError) -> Self {
                match error {
                    crate::WriteError::Retry(retry) => Self::Retry(Retry {
                        after_ms: retry.after_ms,
                        reason: retry.reason,
                    }),
                    crate::WriteError::Reject(reason) => Self::Reject(reason),
                    crate::WriteError::RejectItems(items) => {
                        let items = items.into_iter().map(|one| Rejection {
                            index: one.index,
                            reason: one.reason,
                        });
                        Self::RejectItems(items.collect())
                    }
                }
            }
        }
    };
}
use from_write_error;

/// What a sink that takes updates and removals together exports beside it.
#[doc(hidden)]
pub mod mixed {
    wit_bindgen::generate!({
        path: "wit",
        inline: "
            package headgate:sdk-mixed;
            world mixed {
                export headgate:sink/operations@1.2.0;
            }
        ",
        world: "headgate:sdk-mixed/mixed",
        with: {
            "headgate:sink/batches@1.2.0": crate::bindings::headgate::sink::batches,
        },
        pub_export_macro: true,
        export_macro_name: "export_operations",
    });

    use exports::headgate::sink::operations::{ApplyError, Rejection, Retry};

    crate::from_write_error!(ApplyError);
}

/// What a sink that hears of removals exports beside it.
#[doc(hidden)]
pub mod removing {
    wit_bindgen::generate!({
        path: "wit",
        inline: "
            package headgate:sdk-removals;
            world removing {
                export headgate:sink/removals@1.2.0;
            }
        ",
        world: "headgate:sdk-removals/removing",
        with: {
            "headgate:sink/batches@1.2.0": crate::bindings::headgate::sink::batches,
        },
        pub_export_macro: true,
        export_macro_name: "export_removals",
    });

    use exports::headgate::sink::removals::{Rejection, RemoveError, Retry};

    crate::from_write_error!(RemoveError);
}

pub use bindings::exports::headgate::sink::sink::{Descriptor, Rejection, Retry, WriteError};
pub use bindings::headgate::sink::batches::{Action, Batch, Form, Place, Span, make};
pub use bindings::headgate::sink::{
    delivery, folder, logging, metrics, pool, postgres, renderers, secrets, state, tables,
    templates, wire,
};

impl WriteError {
    /// The batch, or what is left of it, is to come again after the pause that the sink's settings say.
    pub fn retry(reason: String) -> Self {
        Self::Retry(Retry {
            after_ms: None,
            reason,
        })
    }
}

/// All items of a batch.
pub const ALL: Span = Span {
    start: 0,
    count: u32::MAX,
};

/// What `open` made of the settings, for `write` of the same instance.
///
/// ```ignore
/// static SETTINGS: Opened<Settings> = Opened::new();
/// ```
#[derive(Debug)]
pub struct Opened<T>(OnceLock<T>);

impl<T> Opened<T> {
    /// Nothing yet.
    pub const fn new() -> Self {
        Self(OnceLock::new())
    }

    /// Keeps it. An instance is opened once; what would come later is dropped.
    pub fn set(&self, value: T) {
        let _ = self.0.set(value);
    }

    /// What was kept.
    ///
    /// # Errors
    /// Nothing was: a rejection, which no daemon causes.
    pub fn get(&self) -> Result<&T, WriteError> {
        let opened = self.0.get();
        opened.ok_or_else(|| WriteError::Reject("it was never opened".to_owned()))
    }
}

impl<T> Default for Opened<T> {
    fn default() -> Self {
        Self::new()
    }
}

/// A sink.
pub trait Sink {
    /// JSON Schema (draft 2020-12) of the sink's `config`; empty: it takes no settings.
    const CONFIG_SCHEMA: &'static str = "";

    /// Called once for each instance, before the first `write`, with `config` as JSON.
    ///
    /// # Errors
    /// A reason for operators; it pauses the sink.
    fn open(config: &str) -> Result<(), String> {
        let _ = config;
        Ok(())
    }

    /// Takes a batch.
    ///
    /// # Errors
    /// What is to become of the batch, or of some of its items.
    fn write(batch: Batch) -> Result<(), WriteError>;
}

/// A sink that hears of removals as well: `headgate_sdk::export!(MySink with removals)`. All others see none of them.
pub trait Removals: Sink {
    /// Takes a batch of items that were removed. They have keys, streams and times, and no fields.
    ///
    /// # Errors
    /// What is to become of the batch, or of some of its items.
    fn remove(batch: Batch) -> Result<(), WriteError>;
}

/// A sink that takes updates and removals in one batch, in the order of acceptance: `headgate_sdk::export!(MySink with
/// operations)`. [`Batch::actions`] says what is asked of each item.
pub trait Operations: Sink {
    /// Takes a batch of updates and removals. Without a function of its own it is [`Sink::write`] that does.
    ///
    /// # Errors
    /// What is to become of the batch, or of some of its items.
    fn apply(batch: Batch) -> Result<(), WriteError> {
        Self::write(batch)
    }
}

/// Exports a sink from this crate, under the crate's name and version. `export!(MySink with operations)` exports
/// [`Operations`] too, `export!(MySink with removals)` exports [`Removals`].
#[macro_export]
macro_rules! export {
    ($sink:ident with operations) => {
        $crate::export!($sink);

        impl $crate::mixed::exports::headgate::sink::operations::Guest for HeadgateExport {
            fn apply(
                batch: $crate::Batch,
            ) -> Result<(), $crate::mixed::exports::headgate::sink::operations::ApplyError> {
                <$sink as $crate::Operations>::apply(batch).map_err(Into::into)
            }
        }

        $crate::mixed::export_operations!(HeadgateExport with_types_in $crate::mixed);
    };
    ($sink:ident with removals) => {
        $crate::export!($sink);

        impl $crate::removing::exports::headgate::sink::removals::Guest for HeadgateExport {
            fn remove(
                batch: $crate::Batch,
            ) -> Result<(), $crate::removing::exports::headgate::sink::removals::RemoveError> {
                <$sink as $crate::Removals>::remove(batch).map_err(Into::into)
            }
        }

        $crate::removing::export_removals!(HeadgateExport with_types_in $crate::removing);
    };
    ($sink:ty) => {
        struct HeadgateExport;

        impl $crate::bindings::exports::headgate::sink::sink::Guest for HeadgateExport {
            fn describe() -> $crate::Descriptor {
                $crate::Descriptor {
                    name: env!("CARGO_PKG_NAME").to_owned(),
                    version: env!("CARGO_PKG_VERSION").to_owned(),
                    config_schema: <$sink as $crate::Sink>::CONFIG_SCHEMA.to_owned(),
                }
            }

            fn open(config: String) -> Result<(), String> {
                <$sink as $crate::Sink>::open(&config)
            }

            fn write(batch: $crate::Batch) -> Result<(), $crate::WriteError> {
                <$sink as $crate::Sink>::write(batch)
            }
        }

        $crate::bindings::export_bindings!(HeadgateExport with_types_in $crate::bindings);
    };
}

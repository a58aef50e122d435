//! The default sink: items are upserted into the data pool or removed from it, as they ask, and renderers are told.
//!
//! **Invariant**: no item byte enters this component; it passes the batch's handle on.

use headgate_sdk::{Batch, Operations, Sink, WriteError, pool, renderers};

struct Pool;

impl Sink for Pool {
    fn write(batch: Batch) -> Result<(), WriteError> {
        pool::apply(&batch);
        renderers::publish(&batch);
        Ok(())
    }
}

impl Operations for Pool {}

headgate_sdk::export!(Pool with operations);

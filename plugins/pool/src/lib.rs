//! The default sink: every item is upserted into the data pool or removed from it, and renderers are told.
//!
//! **Invariant**: no item byte enters this component; it passes the batch's handle on.

use headgate_sdk::{Batch, Removals, Sink, WriteError, pool, renderers};

struct Pool;

impl Sink for Pool {
    fn write(batch: Batch) -> Result<(), WriteError> {
        pool::upsert(&batch);
        renderers::publish(&batch);
        Ok(())
    }
}

impl Removals for Pool {
    fn remove(batch: Batch) -> Result<(), WriteError> {
        pool::delete(&batch);
        Ok(())
    }
}

headgate_sdk::export!(Pool with removals);

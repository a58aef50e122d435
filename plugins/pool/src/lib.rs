//! The default sink: every item is upserted into the data pool.
//!
//! **Invariant**: no item byte enters this component; it passes the batch's handle on.

use headgate_sdk::{Batch, Sink, WriteError, pool};

struct Pool;

impl Sink for Pool {
    fn write(batch: Batch) -> Result<(), WriteError> {
        pool::upsert(&batch);
        Ok(())
    }
}

headgate_sdk::export!(Pool with_types_in headgate_sdk);

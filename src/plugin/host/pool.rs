//! Effects of a guest on the data pool and renderers, which are staged.
//!
//! **Invariant**: nothing is staged for a stream that the sink cannot write, and no more than the pool can write
//! without delaying other sinks.

use wasmtime::component::Resource;

use super::bindings::headgate::sink::{pool, renderers};
use super::{Host, stage};
use ::pool::Effect;
use item::batch::Batch;
use settings::{Listed, quoted};

/// Maximum items in all effects of one call, and the same as a multiple of the items of the batch. One transaction
/// writes them, and other sinks wait for it meanwhile, so a call cannot stage any number.
const ITEMS_MAX: usize = 100_000;
const TIMES_MAX: usize = 10;

impl pool::Host for Host {
    fn upsert(&mut self, batch: Resource<Batch>) -> wasmtime::Result<()> {
        let batch = self.table.get(&batch)?.clone();
        self.require_writes(&batch)?;
        self.claim(&batch)?;
        self.charge_items(&batch)?;
        stage(&mut self.staged.effects, Effect::Upsert(batch))
    }

    fn delete(&mut self, batch: Resource<Batch>) -> wasmtime::Result<()> {
        let batch = self.table.get(&batch)?.clone();
        self.require_writes(&batch)?;
        self.charge_items(&batch)?;
        stage(&mut self.staged.effects, Effect::Delete(batch))
    }

    fn apply(&mut self, batch: Resource<Batch>) -> wasmtime::Result<()> {
        let batch = self.table.get(&batch)?.clone();
        self.require_writes(&batch)?;
        self.claim(&batch)?;
        self.charge_items(&batch)?;
        stage(&mut self.staged.effects, Effect::Apply(batch))
    }
}

impl renderers::Host for Host {
    fn publish(&mut self, batch: Resource<Batch>) -> wasmtime::Result<()> {
        let batch = self.table.get(&batch)?.clone();
        self.require_writes(&batch)?;
        self.charge_items(&batch)?;
        stage(&mut self.staged.publishes, batch)
    }
}

impl Host {
    /// The batch without the streams that the sink cannot write.
    pub(crate) fn writable(&self, batch: Batch) -> Batch {
        match self.writes.given() && !batch.is_moved() {
            true => batch,
            false => batch.of_streams(|stream| self.writes.lists(stream) != Listed::No),
        }
    }

    fn require_writes(&mut self, batch: &Batch) -> wasmtime::Result<()> {
        if batch.is_made() {
            let mut slices = batch.slices().iter();
            return slices.try_for_each(|slice| self.require_makes(&slice.entry.stream));
        }
        if self.writes.given() && !batch.is_moved() {
            return Ok(());
        }
        let mut last: Option<&str> = None;
        for slice in batch.slices() {
            let stream = &*slice.entry.stream;
            if last != Some(stream) && self.writes.lists(stream) == Listed::No {
                let stream = quoted(stream);
                self.is_not_granted = self.writes.is_unsaid();
                let why = match self.is_not_granted {
                    true => {
                        format!("its section has no `writes`; to allow it, add writes = [{stream}]")
                    }
                    false => "`writes` of its section does not list it".to_owned(),
                };
                wasmtime::bail!(
                    "the sink may not write the stream {stream} of the data pool: {why}"
                );
            }
            last = Some(stream);
        }
        Ok(())
    }

    pub(super) fn require_makes(&mut self, stream: &str) -> wasmtime::Result<()> {
        if self.makes.iter().any(|own| own == stream) {
            return Ok(());
        }
        let stream = quoted(stream);
        self.is_not_granted = self.makes.is_empty();
        let why = match self.is_not_granted {
            true => format!("its section has no `makes`; to allow it, add makes = [{stream}]"),
            false => "`makes` of its section does not list it".to_owned(),
        };
        wasmtime::bail!("the sink may not make items of the stream {stream}: {why}");
    }

    /// Ensures capacity for a stream that the guest named. A guest could otherwise create any number of streams.
    fn claim(&mut self, batch: &Batch) -> wasmtime::Result<()> {
        let (true, Some(slice), Some(pool)) =
            (batch.is_moved(), batch.slices().first(), &self.context.pool)
        else {
            return Ok(());
        };
        let stream = &*slice.entry.stream;
        if self.writes.lists(stream) == Listed::ByName {
            return Ok(());
        }
        let claim = pool.claim_stream(stream).map_err(|error| {
            let stream = quoted(stream);
            wasmtime::format_err!("the sink may not create the stream {stream}: {error}")
        })?;
        self.staged.claims.extend(claim);
        Ok(())
    }

    fn charge_items(&mut self, batch: &Batch) -> wasmtime::Result<()> {
        let max = ITEMS_MAX.max(self.given_items.saturating_mul(TIMES_MAX));
        self.staged_items = self.staged_items.saturating_add(batch.len() as usize);
        if self.staged_items > max {
            wasmtime::bail!("effects on more than {max} items in one call");
        }
        Ok(())
    }
}

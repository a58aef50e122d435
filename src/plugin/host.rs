//! What a guest may ask of the host: its batch, the pool, renderers, and a minimal WASI (clocks, random
//! numbers, output into the log).
//!
//! **Invariant**: a host function works on the batch that the guest was lent and on the staged
//! effects of this call, and on nothing else.

use std::sync::Arc;

use wasmtime::component::{HasSelf, Linker, Resource, ResourceTable};
use wasmtime::{Engine, ResourceLimiter};
use wasmtime_wasi::{WasiCtx, WasiCtxBuilder, WasiCtxView, WasiView};

use super::Staged;
use super::output::Output;
use crate::batch::Batch;

#[allow(
    clippy::all,
    reason = "generated from sink.wit, which has the documentation"
)]
pub(super) mod bindings {
    wasmtime::component::bindgen!({
        path: "plugins/sdk/wit",
        world: "sink-plugin",
        imports: { default: trappable },
        exports: { default: async },
        with: { "headgate:sink/batches.batch": crate::batch::Batch },
    });
}

use bindings::headgate::sink::{batches, pool, renderers};

/// Handles that a guest may hold at once.
const HANDLES_MAX: usize = 1_000;

/// Effects of one kind that a guest may stage in one call.
const EFFECTS_MAX: usize = 1_000;

/// The state of one instance.
pub(super) struct Host {
    table: ResourceTable,
    wasi: WasiCtx,
    stderr: Output,
    /// Batches lent and not given back.
    lent: usize,
    pub(super) memory: Memory,
    pub(super) staged: Staged,
    /// Ticks of the interruption clock until the guest's time is up.
    pub(super) ticks_left: u64,
}

impl Host {
    pub(super) fn new(plugin: Arc<str>, memory_bytes_max: usize) -> Self {
        let stderr = Output::new(Arc::clone(&plugin));
        let wasi = WasiCtxBuilder::new()
            .stdout(Output::new(plugin))
            .stderr(stderr.clone())
            .build();
        let mut table = ResourceTable::new();
        table.set_max_capacity(HANDLES_MAX);
        Self {
            table,
            wasi,
            stderr,
            lent: 0,
            memory: Memory {
                used: 0,
                max: memory_bytes_max,
                refused: false,
            },
            staged: Staged::default(),
            ticks_left: 0,
        }
    }

    /// Makes a handle of the batch, for the guest to own.
    pub(super) fn lend(&mut self, batch: Batch) -> wasmtime::Result<Resource<Batch>> {
        let handle = self.table.push(batch)?;
        self.lent += 1;
        Ok(handle)
    }

    /// Batches that the guest has not given back.
    pub(super) fn lent(&self) -> usize {
        self.lent
    }

    /// A trap in words for an operator.
    pub(super) fn describe(&self, error: &wasmtime::Error) -> String {
        let mut text = match error.downcast_ref::<wasmtime::Trap>() {
            Some(wasmtime::Trap::Interrupt) => "the call used up its time".to_owned(),
            Some(trap) => format!("trapped: {trap}"),
            None => format!("failed: {:#}", error.root_cause()),
        };
        if self.memory.refused {
            text.push_str(&format!(
                " (the memory limit of {} bytes was reached)",
                self.memory.max
            ));
        }
        let tail = self.stderr.tail();
        if !tail.is_empty() {
            text.push_str("; it wrote: ");
            text.push_str(&tail);
        }
        text
    }
}

/// Counts the bytes of all memories of an instance together.
#[derive(Debug)]
pub(super) struct Memory {
    used: usize,
    max: usize,
    refused: bool,
}

impl Memory {
    pub(super) fn used(&self) -> usize {
        self.used
    }
}

/// Entries of all tables of a guest.
const TABLE_ELEMENTS_MAX: usize = 100_000;

impl ResourceLimiter for Memory {
    fn memory_growing(
        &mut self,
        current: usize,
        desired: usize,
        _: Option<usize>,
    ) -> wasmtime::Result<bool> {
        let grown = self.used + desired.saturating_sub(current);
        if grown > self.max {
            self.refused = true;
            return Ok(false);
        }
        self.used = grown;
        Ok(true)
    }

    fn table_growing(
        &mut self,
        _: usize,
        desired: usize,
        _: Option<usize>,
    ) -> wasmtime::Result<bool> {
        Ok(desired <= TABLE_ELEMENTS_MAX)
    }
}

/// Links everything that every guest may use.
pub(super) fn linker(engine: &Engine) -> wasmtime::Result<Linker<Host>> {
    let mut linker = Linker::new(engine);
    batches::add_to_linker::<Host, HasSelf<Host>>(&mut linker, |host| host)?;
    pool::add_to_linker::<Host, HasSelf<Host>>(&mut linker, |host| host)?;
    renderers::add_to_linker::<Host, HasSelf<Host>>(&mut linker, |host| host)?;
    // Streams, clocks, random numbers, standard input and output: no files, no sockets.
    wasmtime_wasi::p2::add_to_linker_proxy_interfaces_async(&mut linker)?;
    // Language runtimes ask for these at their start, the standard library of Rust among them: the
    // environment is empty, and there is no terminal.
    use wasmtime_wasi::cli::{WasiCli, WasiCliView};
    use wasmtime_wasi::p2::bindings::cli;
    cli::environment::add_to_linker::<Host, WasiCli>(&mut linker, Host::cli)?;
    cli::exit::add_to_linker::<Host, WasiCli>(&mut linker, Host::cli)?;
    cli::terminal_input::add_to_linker::<Host, WasiCli>(&mut linker, Host::cli)?;
    cli::terminal_output::add_to_linker::<Host, WasiCli>(&mut linker, Host::cli)?;
    cli::terminal_stdin::add_to_linker::<Host, WasiCli>(&mut linker, Host::cli)?;
    cli::terminal_stdout::add_to_linker::<Host, WasiCli>(&mut linker, Host::cli)?;
    cli::terminal_stderr::add_to_linker::<Host, WasiCli>(&mut linker, Host::cli)?;
    Ok(linker)
}

impl WasiView for Host {
    fn ctx(&mut self) -> WasiCtxView<'_> {
        WasiCtxView {
            ctx: &mut self.wasi,
            table: &mut self.table,
        }
    }
}

impl batches::Host for Host {}

impl batches::HostBatch for Host {
    fn id(&mut self, batch: Resource<Batch>) -> wasmtime::Result<String> {
        Ok(self.table.get(&batch)?.id())
    }

    fn attempt(&mut self, batch: Resource<Batch>) -> wasmtime::Result<u32> {
        Ok(self.table.get(&batch)?.attempt())
    }

    fn len(&mut self, batch: Resource<Batch>) -> wasmtime::Result<u32> {
        Ok(self.table.get(&batch)?.len())
    }

    fn keys(&mut self, batch: Resource<Batch>) -> wasmtime::Result<Vec<String>> {
        let batch = self.table.get(&batch)?;
        let mut keys = Vec::with_capacity(batch.len() as usize);
        for slice in batch.slices() {
            keys.extend(slice.items().map(|(_, item)| item.key.to_owned()));
        }
        Ok(keys)
    }

    fn drop(&mut self, batch: Resource<Batch>) -> wasmtime::Result<()> {
        self.table.delete(batch)?;
        self.lent = self.lent.saturating_sub(1);
        Ok(())
    }
}

impl pool::Host for Host {
    fn upsert(&mut self, batch: Resource<Batch>) -> wasmtime::Result<()> {
        let batch = self.table.get(&batch)?.clone();
        stage(&mut self.staged.upserts, batch)
    }
}

impl renderers::Host for Host {
    fn publish(&mut self, batch: Resource<Batch>) -> wasmtime::Result<()> {
        let batch = self.table.get(&batch)?.clone();
        stage(&mut self.staged.publishes, batch)
    }
}

fn stage(effects: &mut Vec<Batch>, batch: Batch) -> wasmtime::Result<()> {
    if effects.len() >= EFFECTS_MAX {
        wasmtime::bail!("more than {EFFECTS_MAX} effects of one kind in one call");
    }
    effects.push(batch);
    Ok(())
}

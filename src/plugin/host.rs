//! The functions that a guest can call: its batch, the pool, renderers, its state, the log, and a minimal WASI (clocks,
//! random numbers, output to the log; HTTP where the sink's settings grant it).
//!
//! **Invariant**: a host function uses only the batch that was passed to the guest and the staged effects of this call.

mod batches;
mod files;
mod http;
mod link;
mod memory;
mod pool;
mod state;
mod tables;
mod templates;
#[cfg(test)]
mod tests;
mod wires;

use std::sync::Arc;

use wasmtime::component::{Resource, ResourceTable};
use wasmtime_wasi::{WasiCtx, WasiCtxBuilder, WasiCtxView, WasiView};
use wasmtime_wasi_http::{WasiHttpCtx, WasiHttpCtxView, WasiHttpView};

use super::egress::{self, Calls};
use super::folder::Folder;
use super::meter::Meter;
use super::output::{Level, Output};
use super::postgres::{Bound, Database, STATEMENTS_MAX};
use super::redact::Redactor;
use super::wire::Wire;
use super::{Grants, Progress, SinkContext};
use ::pool::Staged;
use base::opaque::Opaque;
use item::batch::Batch;
use settings::Writes;

#[allow(
    clippy::all,
    reason = "generated from sink.wit, which has the documentation"
)]
pub(super) mod bindings {
    wasmtime::component::bindgen!({
        path: "../../plugins/sdk/wit",
        inline: "
            package headgate:host;
            /// All that a sink may import and export.
            world host {
                include headgate:sink/calling-sink@1.2.0;
                include headgate:sink/postgres-sink@1.2.0;
                include headgate:sink/template-sink@1.2.0;
                include headgate:sink/folder-sink@1.2.0;
                include headgate:sink/wire-sink@1.2.0;
                export headgate:sink/removals@1.2.0;
                export headgate:sink/operations@1.2.0;
            }
        ",
        world: "headgate:host/host",
        imports: {
            "headgate:sink/http.send": async | trappable,
            "headgate:sink/postgres.execute": async | trappable,
            "headgate:sink/folder.append": async | trappable,
            "headgate:sink/folder.replace": async | trappable,
            "headgate:sink/folder.finish": async | trappable,
            "headgate:sink/folder.size": async | trappable,
            "headgate:sink/folder.names": async | trappable,
            "headgate:sink/folder.remove": async | trappable,
            "headgate:sink/tables.[method]table.whole": async | trappable,
            "headgate:sink/wire.[static]connection.take": async | trappable,
            "headgate:sink/wire.[method]connection.send": async | trappable,
            "headgate:sink/wire.[method]connection.receive": async | trappable,
            default: trappable,
        },
        exports: { default: async },
        with: {
            "headgate:sink/batches.batch": item::batch::Batch,
            "headgate:sink/templates.template": super::templates::GuestTemplate,
            "headgate:sink/templates.conditions": select::Where,
            "headgate:sink/wire.connection": super::wires::GuestConnection,
            "headgate:sink/tables.text": super::tables::GuestText,
            "headgate:sink/tables.table": super::tables::GuestTable,
        },
    });
}

use bindings::headgate::sink::batches::Span;
use bindings::headgate::sink::{delivery, logging, metrics, postgres, secrets};
pub(super) use link::{link_folder, link_http, link_postgres, link_wire, linker};
use memory::Memory;
pub(super) use tables::Receives;

/// Maximum handles that a guest can hold. Each of them may hold memory of the host.
const HANDLES_MAX: usize = 1_000;

/// Maximum effects of one kind that a guest can stage in one call.
const EFFECTS_MAX: usize = 1_000;

/// Maximum bytes of random numbers in one call.
const RANDOM_BYTES_MAX: u64 = 65_536;

/// Bytes of a rejection in addition to its reason.
const REFUSAL_BYTES: usize = 64;

/// The state of one instance.
pub(super) struct Host {
    context: SinkContext,
    table: ResourceTable,
    wasi: WasiCtx,
    stderr: Output,
    http: WasiHttpCtx,
    pub(super) calls: Calls,
    database: Option<Opaque<Database>>,
    folder: Option<Arc<Folder>>,
    wire: Option<Arc<Wire>>,
    /// The connections that this call used. They are closed if the call fails.
    taken: Vec<String>,
    /// The streams that it can write in the data pool.
    writes: Arc<Writes>,
    /// The streams whose items it can make.
    makes: Arc<[String]>,
    /// The batch of this call, from which the guest can derive others.
    given: Option<Batch>,
    /// Batches that were passed to the guest and not dropped.
    lent: usize,
    /// Bytes that the host holds for this call: derived batches, values of state. The memory limit of the guest does
    /// not count them.
    held_bytes: usize,
    pub(super) memory: Memory,
    pub(super) staged: Staged,
    /// The state that earlier calls with parts of the same batch have staged. They are not committed yet, so that the
    /// pool does not have them.
    pub(super) earlier_state: Vec<(String, Option<Vec<u8>>)>,
    /// Number of items in the batch of this call, and in its staged effects.
    given_items: usize,
    staged_items: usize,
    /// Items that the guest has settled permanently, even if the call fails. A retry then leaves them out.
    pub(super) progress: Progress,
    /// It did something in this call that its settings neither grant nor exclude. The batch is kept then instead of
    /// rejected.
    pub(super) is_not_granted: bool,
    /// Its computing time.
    pub(super) meter: Meter,
}

impl Host {
    /// Masks secrets in the guest's texts.
    pub(super) fn redactor(&self) -> &Redactor {
        &self.context.redactor
    }

    pub(super) fn new(
        plugin: Arc<str>,
        context: &SinkContext,
        grants: &Grants,
        memory_bytes_max: usize,
    ) -> Self {
        let trial = context.trial.as_ref();
        let (redactor, guest_log) = (&context.redactor, &context.guest_log);
        let output = || Output::new(Arc::clone(&plugin), redactor, guest_log, trial);
        let stderr = output();
        let wasi = WasiCtxBuilder::new()
            .stdout(output())
            .stderr(stderr.clone())
            .max_random_size(RANDOM_BYTES_MAX)
            .build();
        let mut table = ResourceTable::new();
        table.set_max_capacity(HANDLES_MAX);
        Self {
            context: context.clone(),
            table,
            wasi,
            stderr,
            http: egress::context(),
            calls: Calls::new(context, grants.egress.clone()),
            database: grants.database.clone(),
            folder: grants.folder.clone(),
            wire: grants.wire.clone(),
            taken: Vec::new(),
            writes: Arc::clone(&grants.writes),
            makes: Arc::clone(&grants.makes),
            given: None,
            lent: 0,
            held_bytes: 0,
            memory: Memory::new(memory_bytes_max),
            staged: Staged::default(),
            earlier_state: Vec::new(),
            given_items: 0,
            staged_items: 0,
            progress: Progress::default(),
            is_not_granted: false,
            meter: Meter::default(),
        }
    }

    /// Begins a call with a batch: nothing is staged, nothing is held. What an earlier call left would otherwise be
    /// committed with this batch.
    pub(super) fn begin(&mut self, batch: Option<&Batch>) {
        self.staged = Staged::default();
        self.given_items = batch.map_or(0, Batch::len) as usize;
        self.given = batch.cloned();
        self.staged_items = 0;
        self.is_not_granted = false;
        self.progress = Progress::default();
        self.taken.clear();
        self.held_bytes = 0;
    }

    /// Ends the call.
    pub(super) fn end(&mut self) {
        self.calls.end();
        self.given = None;
    }

    fn hold(&mut self, bytes: usize) -> wasmtime::Result<()> {
        self.held_bytes += bytes;
        if self.held_bytes > self.memory.max {
            return Err(self.too_much_held());
        }
        Ok(())
    }

    /// Bytes that the host can still hold for this call. It is asked before a batch is made, so that a large one is
    /// never allocated.
    fn room(&self) -> usize {
        self.memory.max.saturating_sub(self.held_bytes)
    }

    fn too_much_held(&self) -> wasmtime::Error {
        wasmtime::format_err!(
            "derived batches and state are more than {} bytes in one call",
            self.memory.max
        )
    }

    /// Makes a handle of the batch that the guest owns. They are counted, because handles that are never dropped would
    /// fill the table.
    pub(super) fn lend(&mut self, batch: Batch) -> wasmtime::Result<Resource<Batch>> {
        let handle = self.table.push(batch)?;
        self.lent += 1;
        Ok(handle)
    }

    /// Batches that the guest has not dropped.
    pub(super) fn lent(&self) -> usize {
        self.lent
    }

    /// Whether the guest wrote nothing to its standard error.
    pub(super) fn said_nothing(&self) -> bool {
        self.stderr.tail().is_empty()
    }

    /// Describes a trap for an operator. The end of the standard error is added, because a trap itself does not say
    /// what the guest wanted.
    pub(super) fn describe(&self, error: &wasmtime::Error) -> String {
        let mut text = match error.downcast_ref::<wasmtime::Trap>() {
            Some(wasmtime::Trap::Interrupt) => "the call used up its time for computing, which is `cpu_timeout_ms` in `limits` of the sink's section or in [plugins]".to_owned(),
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

impl WasiView for Host {
    fn ctx(&mut self) -> WasiCtxView<'_> {
        WasiCtxView {
            ctx: &mut self.wasi,
            table: &mut self.table,
        }
    }
}

impl WasiHttpView for Host {
    fn http(&mut self) -> WasiHttpCtxView<'_> {
        WasiHttpCtxView {
            ctx: &mut self.http,
            table: &mut self.table,
            hooks: &mut self.calls,
        }
    }
}

impl delivery::Host for Host {
    fn carries(&mut self, batch: Resource<Batch>, range: Span) -> wasmtime::Result<()> {
        self.calls.carry(self.table.get(&batch)?, range.into());
        Ok(())
    }

    fn taken(&mut self, count: u32) -> wasmtime::Result<()> {
        self.progress.taken = self.progress.taken.max(count);
        Ok(())
    }

    fn refused(&mut self, range: Span, reason: String) -> wasmtime::Result<()> {
        self.hold(REFUSAL_BYTES + reason.len())?;
        let range = range.start..range.start.saturating_add(range.count);
        self.progress.refused.push((range, reason));
        Ok(())
    }
}

impl logging::Host for Host {
    fn log(&mut self, level: logging::Level, message: String) -> wasmtime::Result<()> {
        let level = match level {
            logging::Level::Debug => Level::Debug,
            logging::Level::Info => Level::Info,
            logging::Level::Warn => Level::Warn,
            logging::Level::Error => Level::Error,
        };
        self.stderr.log(level, &message);
        Ok(())
    }
}

impl metrics::Host for Host {
    fn count(&mut self, name: String, by: u64) -> wasmtime::Result<()> {
        Ok(self
            .context
            .metrics
            .plugins
            .count(&self.context.sink, &name, by)?)
    }

    fn gauge(&mut self, name: String, value: f64) -> wasmtime::Result<()> {
        Ok(self
            .context
            .metrics
            .plugins
            .set(&self.context.sink, &name, value)?)
    }
}

impl secrets::Host for Host {
    fn get(&mut self, name: String) -> wasmtime::Result<Option<String>> {
        let secret = self.context.secrets.get(&name);
        Ok(secret.map(|secret| secret.reveal().to_owned()))
    }
}

impl postgres::Host for Host {
    async fn execute(
        &mut self,
        batch: Resource<Batch>,
        statements: Vec<postgres::Statement>,
    ) -> wasmtime::Result<Result<Vec<u64>, postgres::Error>> {
        let Some(database) = self.database.clone() else {
            wasmtime::bail!("the sink's section has no `postgres`");
        };
        if statements.len() > STATEMENTS_MAX {
            wasmtime::bail!("more than {STATEMENTS_MAX} statements in one call");
        }
        let batch = self.table.get(&batch)?.clone();
        if let Some(trial) = &self.context.trial {
            let items = batch.len();
            statements
                .iter()
                .for_each(|one| trial.note_statement(&one.sql, items));
            if !trial.sends() {
                return Ok(Ok(vec![u64::from(items); statements.len()]));
            }
        }
        let held_bytes = self.held_bytes;
        let mut bound = Vec::with_capacity(statements.len());
        for statement in statements {
            tokio::task::consume_budget().await;
            bound.push(Bound::new(statement, &batch, |bytes| {
                // What a column takes is the guest's time as well.
                if !self.meter.charge() {
                    return Err(wasmtime::Trap::Interrupt.into());
                }
                self.hold(bytes)
            })?);
        }
        let result = database.execute(bound).await;
        // The parameters are gone.
        self.held_bytes = held_bytes;
        Ok(result)
    }
}

fn stage<T>(effects: &mut Vec<T>, effect: T) -> wasmtime::Result<()> {
    if effects.len() >= EFFECTS_MAX {
        wasmtime::bail!("more than {EFFECTS_MAX} effects of one kind in one call");
    }
    effects.push(effect);
    Ok(())
}

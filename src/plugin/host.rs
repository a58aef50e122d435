//! What a guest may ask of the host: its batch, the pool, renderers, its state, the log, and a minimal WASI
//! (clocks, random numbers, output into the log; HTTP where the sink's settings grant it).
//!
//! **Invariant**: a host function works on the batch that the guest was lent and on the staged
//! effects of this call, and on nothing else.

use std::sync::Arc;

use wasmtime::component::{HasSelf, Linker, Resource, ResourceTable};
use wasmtime::{Engine, ResourceLimiter};
use wasmtime_wasi::{WasiCtx, WasiCtxBuilder, WasiCtxView, WasiView};
use wasmtime_wasi_http::{WasiHttpCtx, WasiHttpCtxView, WasiHttpView};

use super::egress::{self, Calls};
use super::output::{Level, Output};
use super::postgres::{Bound, Database, STATEMENTS_MAX};
use super::veil::Veil;
use super::{Grants, Progress, Seat};
use crate::batch::{self, Batch};
use crate::pool::{Effect, Staged};

#[allow(
    clippy::all,
    reason = "generated from sink.wit, which has the documentation"
)]
pub(super) mod bindings {
    wasmtime::component::bindgen!({
        path: "plugins/sdk/wit",
        inline: "
            package headgate:host;
            /// All that a sink may import and export.
            world host {
                include headgate:sink/postgres-sink@1.1.0;
                export headgate:sink/removals@1.1.0;
            }
        ",
        world: "headgate:host/host",
        imports: { "headgate:sink/postgres.execute": async | trappable, default: trappable },
        exports: { default: async },
        with: { "headgate:sink/batches.batch": crate::batch::Batch },
    });
}

use bindings::headgate::sink::{
    batches, delivery, logging, metrics, pool, postgres, renderers, secrets, state,
};

/// Handles that a guest may hold at once.
const HANDLES_MAX: usize = 1_000;

/// Effects of one kind that a guest may stage in one call.
const EFFECTS_MAX: usize = 1_000;

/// What a refusal takes beside its reason.
const REFUSAL_BYTES: usize = 64;

/// Keys of a sink's state, bytes of a key, bytes of a value.
const STATE_KEYS_MAX: u64 = 1_000;
const STATE_KEY_BYTES_MAX: usize = 512;
const STATE_VALUE_BYTES_MAX: usize = 65_536;

/// The state of one instance.
pub(super) struct Host {
    seat: Seat,
    table: ResourceTable,
    wasi: WasiCtx,
    stderr: Output,
    http: WasiHttpCtx,
    pub(super) calls: Calls,
    database: Option<Arc<Database>>,
    /// Batches lent and not given back.
    lent: usize,
    /// Bytes that this call made the host hold: derived batches, values of state.
    held_bytes: usize,
    pub(super) memory: Memory,
    pub(super) staged: Staged,
    /// What the guest says to be done for good, however the call ends.
    pub(super) progress: Progress,
    /// Ticks of the interruption clock until the guest's time is up.
    pub(super) ticks_left: u64,
}

impl Host {
    /// What must not stand in what the guest says.
    pub(super) fn veil(&self) -> &Veil {
        &self.seat.veil
    }

    pub(super) fn new(
        plugin: Arc<str>,
        seat: &Seat,
        grants: &Grants,
        memory_bytes_max: usize,
    ) -> Self {
        let stderr = Output::new(Arc::clone(&plugin), &seat.veil);
        let wasi = WasiCtxBuilder::new()
            .stdout(Output::new(plugin, &seat.veil))
            .stderr(stderr.clone())
            .build();
        let mut table = ResourceTable::new();
        table.set_max_capacity(HANDLES_MAX);
        Self {
            seat: seat.clone(),
            table,
            wasi,
            stderr,
            http: egress::context(),
            calls: Calls::new(Arc::clone(&seat.sink), grants.egress.clone()),
            database: grants.database.clone(),
            lent: 0,
            held_bytes: 0,
            memory: Memory {
                used: 0,
                table_entries: 0,
                max: memory_bytes_max,
                refused: false,
            },
            staged: Staged::default(),
            progress: Progress::default(),
            ticks_left: 0,
        }
    }

    /// A new call: nothing is staged, nothing held.
    pub(super) fn begin(&mut self) {
        self.staged = Staged::default();
        self.progress = Progress::default();
        self.held_bytes = 0;
    }

    /// Makes a handle of a batch that the guest derived.
    fn lend_derived(&mut self, batch: Batch) -> wasmtime::Result<Resource<Batch>> {
        self.hold(batch.own_bytes())?;
        self.lend(batch)
    }

    fn hold(&mut self, bytes: usize) -> wasmtime::Result<()> {
        self.held_bytes += bytes;
        if self.held_bytes > self.memory.max {
            wasmtime::bail!(
                "derived batches and state are more than {} bytes in one call",
                self.memory.max
            );
        }
        Ok(())
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

/// Counts the bytes of all memories of an instance together, and the entries of all its tables.
#[derive(Debug)]
pub(super) struct Memory {
    used: usize,
    table_entries: usize,
    max: usize,
    refused: bool,
}

impl Memory {
    pub(super) fn used(&self) -> usize {
        self.used
    }
}

/// Entries of all tables of a guest.
const TABLE_ENTRIES_MAX: usize = 100_000;
/// Core instances, tables and memories of a guest. Each memory takes gigabytes of address space, used or not.
const INSTANCES_MAX: usize = 1_000;
const TABLES_MAX: usize = 1_000;
const MEMORIES_MAX: usize = 100;

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
        current: usize,
        desired: usize,
        _: Option<usize>,
    ) -> wasmtime::Result<bool> {
        let grown = self.table_entries + desired.saturating_sub(current);
        if grown > TABLE_ENTRIES_MAX {
            return Ok(false);
        }
        self.table_entries = grown;
        Ok(true)
    }

    fn instances(&self) -> usize {
        INSTANCES_MAX
    }

    fn tables(&self) -> usize {
        TABLES_MAX
    }

    fn memories(&self) -> usize {
        MEMORIES_MAX
    }
}

/// Adds outgoing HTTP, for guests whose sink may call somebody.
pub(super) fn link_http(linker: &mut Linker<Host>) -> wasmtime::Result<()> {
    wasmtime_wasi_http::p2::add_only_http_to_linker_async(linker)
}

/// Adds the database, for guests whose sink has one.
pub(super) fn link_postgres(linker: &mut Linker<Host>) -> wasmtime::Result<()> {
    postgres::add_to_linker::<Host, HasSelf<Host>>(linker, |host| host)
}

/// Links everything that every guest may use.
pub(super) fn linker(engine: &Engine) -> wasmtime::Result<Linker<Host>> {
    let mut linker = Linker::new(engine);
    batches::add_to_linker::<Host, HasSelf<Host>>(&mut linker, |host| host)?;
    pool::add_to_linker::<Host, HasSelf<Host>>(&mut linker, |host| host)?;
    renderers::add_to_linker::<Host, HasSelf<Host>>(&mut linker, |host| host)?;
    logging::add_to_linker::<Host, HasSelf<Host>>(&mut linker, |host| host)?;
    metrics::add_to_linker::<Host, HasSelf<Host>>(&mut linker, |host| host)?;
    state::add_to_linker::<Host, HasSelf<Host>>(&mut linker, |host| host)?;
    secrets::add_to_linker::<Host, HasSelf<Host>>(&mut linker, |host| host)?;
    delivery::add_to_linker::<Host, HasSelf<Host>>(&mut linker, |host| host)?;
    // Streams, clocks, random numbers, standard input and output: no files, no sockets.
    wasmtime_wasi::p2::add_to_linker_proxy_interfaces_async(&mut linker)?;
    // Language runtimes ask for these at their start, the standard library of Rust among them: the
    // environment is empty, and there is no terminal.
    use wasmtime_wasi::cli::{WasiCli, WasiCliView};
    use wasmtime_wasi::p2::bindings::{cli, random};
    use wasmtime_wasi::random::{WasiRandom, WasiRandomView};
    // The seed of hash maps.
    random::insecure::add_to_linker::<Host, WasiRandom>(&mut linker, Host::random)?;
    random::insecure_seed::add_to_linker::<Host, WasiRandom>(&mut linker, Host::random)?;
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

impl WasiHttpView for Host {
    fn http(&mut self) -> WasiHttpCtxView<'_> {
        WasiHttpCtxView {
            ctx: &mut self.http,
            table: &mut self.table,
            hooks: &mut self.calls,
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

    fn keys(
        &mut self,
        batch: Resource<Batch>,
        range: batches::Span,
    ) -> wasmtime::Result<Vec<String>> {
        Ok(self.table.get(&batch)?.keys(range.into()))
    }

    fn streams(
        &mut self,
        batch: Resource<Batch>,
        range: batches::Span,
    ) -> wasmtime::Result<Vec<String>> {
        Ok(self.table.get(&batch)?.streams(range.into()))
    }

    fn times(
        &mut self,
        batch: Resource<Batch>,
        range: batches::Span,
    ) -> wasmtime::Result<Vec<u64>> {
        Ok(self.table.get(&batch)?.times(range.into()))
    }

    fn field_names(&mut self, batch: Resource<Batch>) -> wasmtime::Result<Vec<String>> {
        Ok(self.table.get(&batch)?.field_names())
    }

    fn field(
        &mut self,
        batch: Resource<Batch>,
        index: u32,
        name: String,
    ) -> wasmtime::Result<Option<String>> {
        Ok(self.table.get(&batch)?.field(index, &name))
    }

    fn texts(
        &mut self,
        batch: Resource<Batch>,
        name: String,
        range: batches::Span,
    ) -> wasmtime::Result<Vec<Option<String>>> {
        Ok(self.table.get(&batch)?.texts(&name, range.into()))
    }

    fn numbers(
        &mut self,
        batch: Resource<Batch>,
        name: String,
        range: batches::Span,
    ) -> wasmtime::Result<Vec<f64>> {
        Ok(self.table.get(&batch)?.numbers(&name, range.into()))
    }

    fn json(
        &mut self,
        batch: Resource<Batch>,
        range: batches::Span,
        form: batches::Form,
    ) -> wasmtime::Result<String> {
        Ok(self.table.get(&batch)?.json(range.into(), form.into()))
    }

    fn select(
        &mut self,
        batch: Resource<Batch>,
        indexes: Vec<u32>,
    ) -> wasmtime::Result<Resource<Batch>> {
        let derived = self.table.get(&batch)?.select(&indexes)?;
        self.lend_derived(derived)
    }

    fn project(
        &mut self,
        batch: Resource<Batch>,
        names: Vec<String>,
    ) -> wasmtime::Result<Resource<Batch>> {
        let derived = self.table.get(&batch)?.project(&names)?;
        self.lend_derived(derived)
    }

    fn without(
        &mut self,
        batch: Resource<Batch>,
        names: Vec<String>,
    ) -> wasmtime::Result<Resource<Batch>> {
        let derived = self.table.get(&batch)?.without(&names)?;
        self.lend_derived(derived)
    }

    fn rename(
        &mut self,
        batch: Resource<Batch>,
        names: Vec<(String, String)>,
    ) -> wasmtime::Result<Result<Resource<Batch>, String>> {
        match self.table.get(&batch)?.rename(&names) {
            Ok(derived) => Ok(Ok(self.lend_derived(derived)?)),
            Err(error @ batch::DeriveError::Twice(_)) => Ok(Err(error.to_string())),
            Err(error) => Err(error.into()),
        }
    }

    fn in_stream(
        &mut self,
        batch: Resource<Batch>,
        name: String,
    ) -> wasmtime::Result<Result<Resource<Batch>, String>> {
        match self.table.get(&batch)?.in_stream(&name) {
            Ok(derived) => Ok(Ok(self.lend_derived(derived)?)),
            Err(error) => Ok(Err(error.to_string())),
        }
    }

    fn drop(&mut self, batch: Resource<Batch>) -> wasmtime::Result<()> {
        self.table.delete(batch)?;
        self.lent = self.lent.saturating_sub(1);
        Ok(())
    }
}

impl From<batches::Span> for batch::Span {
    fn from(span: batches::Span) -> Self {
        Self {
            start: span.start,
            count: span.count,
        }
    }
}

impl From<batches::Form> for batch::Form {
    fn from(form: batches::Form) -> Self {
        match form {
            batches::Form::FieldLines => Self::FieldLines,
            batches::Form::FieldArray => Self::FieldArray,
            batches::Form::ItemLines => Self::ItemLines,
            batches::Form::ItemArray => Self::ItemArray,
        }
    }
}

impl pool::Host for Host {
    fn upsert(&mut self, batch: Resource<Batch>) -> wasmtime::Result<()> {
        let batch = self.table.get(&batch)?.clone();
        stage(&mut self.staged.effects, Effect::Upsert(batch))
    }

    fn delete(&mut self, batch: Resource<Batch>) -> wasmtime::Result<()> {
        let batch = self.table.get(&batch)?.clone();
        stage(&mut self.staged.effects, Effect::Delete(batch))
    }
}

impl renderers::Host for Host {
    fn publish(&mut self, batch: Resource<Batch>) -> wasmtime::Result<()> {
        let batch = self.table.get(&batch)?.clone();
        stage(&mut self.staged.publishes, batch)
    }
}

impl delivery::Host for Host {
    fn carries(&mut self, batch: Resource<Batch>, range: batches::Span) -> wasmtime::Result<()> {
        self.calls.carry(self.table.get(&batch)?, range.into());
        Ok(())
    }

    fn taken(&mut self, count: u32) -> wasmtime::Result<()> {
        self.progress.taken = self.progress.taken.max(count);
        Ok(())
    }

    fn refused(&mut self, range: batches::Span, reason: String) -> wasmtime::Result<()> {
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
        self.stderr.log(level, &self.seat.sink, &message);
        Ok(())
    }
}

impl metrics::Host for Host {
    fn count(&mut self, name: String, by: u64) -> wasmtime::Result<()> {
        Ok(self
            .seat
            .metrics
            .plugins
            .count(&self.seat.sink, &name, by)?)
    }

    fn gauge(&mut self, name: String, value: f64) -> wasmtime::Result<()> {
        Ok(self
            .seat
            .metrics
            .plugins
            .set(&self.seat.sink, &name, value)?)
    }
}

impl secrets::Host for Host {
    fn get(&mut self, name: String) -> wasmtime::Result<Option<String>> {
        let secret = self.seat.secrets.get(&name);
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
        let held_bytes = self.held_bytes;
        let bound = statements
            .into_iter()
            .map(|statement| Bound::new(statement, &batch, |bytes| self.hold(bytes)))
            .collect::<wasmtime::Result<Vec<_>>>()?;
        let result = database.execute(bound).await;
        // The parameters are gone.
        self.held_bytes = held_bytes;
        Ok(result)
    }
}

impl state::Host for Host {
    fn get(&mut self, key: String) -> wasmtime::Result<Option<Vec<u8>>> {
        let staged = self.staged.state.iter().rev();
        let mut staged = staged.filter(|(own, _)| *own == key);
        if let Some((_, value)) = staged.next() {
            return Ok(value.clone());
        }
        match &self.seat.pool {
            Some(pool) => Ok(pool.sink_value(&self.seat.sink, &key)?),
            None => Ok(None),
        }
    }

    fn set(&mut self, key: String, value: Vec<u8>) -> wasmtime::Result<()> {
        if key.is_empty() || key.len() > STATE_KEY_BYTES_MAX {
            wasmtime::bail!("a key of state has 1 to {STATE_KEY_BYTES_MAX} bytes");
        }
        if value.len() > STATE_VALUE_BYTES_MAX {
            wasmtime::bail!("a value of state has at most {STATE_VALUE_BYTES_MAX} bytes");
        }
        if self.get(key.clone())?.is_none() {
            let stored = match &self.seat.pool {
                Some(pool) => pool.sink_keys(&self.seat.sink)?,
                None => 0,
            };
            if stored + self.staged.state.len() as u64 >= STATE_KEYS_MAX {
                wasmtime::bail!("the state has at most {STATE_KEYS_MAX} keys");
            }
        }
        self.hold(key.len() + value.len())?;
        stage(&mut self.staged.state, (key, Some(value)))
    }

    fn delete(&mut self, key: String) -> wasmtime::Result<()> {
        stage(&mut self.staged.state, (key, None))
    }
}

fn stage<T>(effects: &mut Vec<T>, effect: T) -> wasmtime::Result<()> {
    if effects.len() >= EFFECTS_MAX {
        wasmtime::bail!("more than {EFFECTS_MAX} effects of one kind in one call");
    }
    effects.push(effect);
    Ok(())
}

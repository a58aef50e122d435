//! A running guest: started, opened with its sink's settings, called for each batch.
//!
//! Each lane owns one.
//!
//! **Invariant**: each call of a guest has a time limit, and a guest is not called again after a trap or a deadline.
//! Its texts are shortened, and secrets are masked, before anything else uses them.

use std::sync::Arc;

use futures_util::future::BoxFuture;
use wasmtime::{Store, UpdateDeadline};

use super::host::Host;
use super::host::bindings::exports::headgate::sink::{operations, removals, sink as world};
use super::meter::Meter;
use super::outcome::{NotTaken, Progress, Taken, rejected_by, shortened};
use super::scheduler::Scheduler;
use super::{Descriptor, Exports, Failure, GuestLimits, Plugin, PluginError, SinkContext, schema};
use base::backoff::jitter;
use item::batch::{Action, Batch};
use observe::telemetry::Parent;
use pool::{Effect, Staged};

/// Calls before an instance is replaced, so that leaks in a guest stay small.
const CALLS_MAX: u32 = 10_000;

/// Maximum bytes that a guest passes to the host in one function call. The host copies them before any of its functions
/// can check them.
const HANDED_BYTES_MAX: usize = 16 << 20;

/// Why an instance must be replaced.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RecycleReason {
    /// It kept handles of batches or requests.
    Handles,
    /// It was called often, or uses more than half of its memory limit.
    Age,
}

/// A running guest, owned by one lane.
pub struct Instance {
    store: Store<Host>,
    sink: world::Guest,
    removals: Option<removals::Guest>,
    operations: Option<operations::Guest>,
    descriptor: Descriptor,
    limits: GuestLimits,
    scheduler: Scheduler,
    /// The number begins at a random one near the most, so that not all lanes start a new instance at one time.
    calls_left: u32,
}

/// The exported functions of a guest.
#[derive(Debug, Clone, Copy)]
enum Export {
    Sink,
    Removals,
    Operations,
}

impl Instance {
    /// Requests of the guest in the next calls belong to this span.
    pub fn follow(&mut self, parent: Option<Parent>) {
        self.store.data_mut().calls.follow(parent);
    }

    /// Calls the guest with the batch and returns its result. A guest that does not accept updates and removals
    /// together is called for each run of one action. If it does not receive removals, the host removes the items from
    /// the pool, so that the items of an older component do not stay forever. After [`Failure::Trap`] and
    /// [`Failure::NotGranted`] the instance must be dropped.
    ///
    /// # Errors
    /// See [`Failure`]; with the items that the guest settled before it failed.
    pub fn write(&mut self, batch: Batch) -> BoxFuture<'_, Result<Taken, NotTaken>> {
        Box::pin(self.write_all(batch))
    }

    async fn write_all(&mut self, batch: Batch) -> Result<Taken, NotTaken> {
        if self.operations.is_some() {
            return self.call(batch, Export::Operations).await;
        }
        if let Some(action) = batch.action() {
            return self.write_one_action(batch, action).await;
        }
        let mut taken = Taken::default();
        let mut start = 0;
        let mut result = Ok(());
        for run in batch.runs_of_one_action() {
            let action = run.action().unwrap_or_default();
            let len = run.len();
            match self.write_one_action(run, action).await {
                Ok(of_run) => taken.add(start, of_run),
                Err(failed) => {
                    result = Err(failed);
                    break;
                }
            }
            self.store.data_mut().earlier_state = taken.staged.state.clone();
            start += len;
        }
        self.store.data_mut().earlier_state = Vec::new();
        match result {
            Ok(()) => Ok(taken),
            Err(failed) => Err(failed.after(start, taken)),
        }
    }

    async fn write_one_action(&mut self, batch: Batch, action: Action) -> Result<Taken, NotTaken> {
        let export = match (action, &self.removals) {
            (Action::Upsert, _) => Export::Sink,
            (Action::Remove, Some(_)) => Export::Removals,
            (Action::Remove, None) => {
                let removed = self.store.data().writable(batch);
                let staged = Staged {
                    effects: vec![Effect::Delete(removed)],
                    ..Staged::default()
                };
                return Ok(Taken {
                    staged,
                    ..Taken::default()
                });
            }
        };
        self.call(batch, export).await
    }

    async fn call(&mut self, batch: Batch, export: Export) -> Result<Taken, NotTaken> {
        self.calls_left = self.calls_left.saturating_sub(1);
        arm(&mut self.store, &self.limits);
        let trap = |reason: String| Failure::Trap { reason };
        let len = batch.len();
        let host = self.store.data_mut();
        host.begin(Some(&batch));
        host.calls.begin(&batch, self.limits.call_time_max);
        let handle = self
            .store
            .data_mut()
            .lend(batch)
            .map_err(|error| trap(error.to_string()))?;
        let (sink, store) = (&self.sink, &mut self.store);
        let (removals, operations) = (self.removals.as_ref(), self.operations.as_ref());
        let call = async move {
            match (export, removals, operations) {
                (Export::Operations, _, Some(guest)) => {
                    let result = guest.call_apply(store, handle).await?;
                    Ok(result.map_err(world::WriteError::from))
                }
                (Export::Removals, Some(guest), _) => {
                    let result = guest.call_remove(store, handle).await?;
                    Ok(result.map_err(world::WriteError::from))
                }
                _ => sink.call_write(store, handle).await,
            }
        };
        let call = self.scheduler.take(call);
        let result = tokio::time::timeout(self.limits.call_time_max, call).await;
        let host = self.store.data_mut();
        host.end();
        let staged = std::mem::take(&mut host.staged);
        let progress = std::mem::take(&mut host.progress);
        let failure = match result.map(|result| rejected_by(result, host, len)) {
            Ok(Ok(rejected)) => return Ok(Taken { staged, rejected }),
            Ok(Err(failure)) => failure,
            Err(_) => trap(no_answer(&self.limits)),
        };
        host.close_taken();
        let redacted = |reason: String| shortened(host.redactor().redact(reason));
        let refused = progress.refused.into_iter();
        Err(NotTaken {
            failure,
            progress: Progress {
                taken: progress.taken.min(len),
                refused: refused.map(|(range, why)| (range, redacted(why))).collect(),
            },
            staged: Staged::default(),
        })
    }

    /// The plugin's description of itself.
    pub fn descriptor(&self) -> &Descriptor {
        &self.descriptor
    }

    /// Bytes of the guest's memory.
    pub fn memory_bytes(&self) -> usize {
        self.store.data().memory.used()
    }

    /// Why the instance should be replaced before the next call; `None`: it need not be. The lane replaces it between
    /// two calls, so that no batch is lost.
    pub fn recycle_reason(&self) -> Option<RecycleReason> {
        let host = self.store.data();
        if host.lent() > 0 || host.calls.under_way() {
            return Some(RecycleReason::Handles);
        }
        let is_large = host.memory.used() > self.limits.memory_bytes_max / 2;
        (self.calls_left == 0 || is_large).then_some(RecycleReason::Age)
    }
}

impl std::fmt::Debug for Instance {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter
            .debug_struct("Instance")
            .field("calls_left", &self.calls_left)
            .finish_non_exhaustive()
    }
}

type Loaded = (
    world::Guest,
    Option<removals::Guest>,
    Option<operations::Guest>,
);

impl Exports {
    /// The exported functions that the host calls.
    fn load(
        &self,
        store: &mut Store<Host>,
        instance: &wasmtime::component::Instance,
    ) -> wasmtime::Result<Loaded> {
        let removals = self.removals.as_ref();
        let operations = self.operations.as_ref();
        Ok((
            self.sink.load(&mut *store, instance)?,
            (removals.map(|one| one.load(&mut *store, instance))).transpose()?,
            (operations.map(|one| one.load(&mut *store, instance))).transpose()?,
        ))
    }
}

impl Plugin {
    /// A new instance for one lane: it is started, its description is read, and it is opened with the sink's settings.
    /// Both together have the time of one call, because start-up code could otherwise run without end.
    ///
    /// # Errors
    /// The guest failed in its start-up code, or cannot work with the settings.
    pub fn start<'a>(
        &'a self,
        context: &'a SinkContext,
    ) -> BoxFuture<'a, Result<Instance, PluginError>> {
        Box::pin(self.start_one(context))
    }

    async fn start_one(&self, context: &SinkContext) -> Result<Instance, PluginError> {
        let failed = |source| self.not_started(source);
        let mut store = self.store(context);
        let starting = async {
            let instance = self
                .pre
                .instantiate_async(&mut store)
                .await
                .map_err(failed)?;
            let (sink, removals, operations) =
                (self.exports.load(&mut store, &instance)).map_err(failed)?;
            let descriptor = self.open(&mut store, &sink, context).await?;
            Ok((sink, removals, operations, descriptor))
        };
        let starting = self.scheduler.take(starting);
        let (sink, removals, operations, descriptor) =
            tokio::time::timeout(self.limits.call_time_max, starting)
                .await
                .map_err(|_| failed(wasmtime::Error::msg(no_answer(&self.limits))))??;
        Ok(Instance {
            store,
            sink,
            removals,
            operations,
            descriptor,
            limits: self.limits,
            scheduler: self.scheduler.clone(),
            calls_left: CALLS_MAX - jitter(CALLS_MAX / 10),
        })
    }

    /// The component's description of itself, without any settings.
    ///
    /// # Errors
    /// The guest failed in its start-up code, or in its description.
    pub fn describe<'a>(
        &'a self,
        context: &'a SinkContext,
    ) -> BoxFuture<'a, Result<Descriptor, PluginError>> {
        Box::pin(self.describe_one(context))
    }

    async fn describe_one(&self, context: &SinkContext) -> Result<Descriptor, PluginError> {
        let mut store = self.store(context);
        let describing = async {
            let instance = self.pre.instantiate_async(&mut store).await;
            let instance = instance.map_err(|source| self.not_started(source))?;
            let loaded = self.exports.load(&mut store, &instance);
            let (sink, ..) = loaded.map_err(|source| self.not_started(source))?;
            let described = sink.call_describe(&mut store).await;
            let descriptor = described.map_err(|error| self.trapped(&store, &error))?;
            Ok(Descriptor {
                name: descriptor.name,
                version: descriptor.version,
                config_schema: descriptor.config_schema,
            })
        };
        let describing = self.scheduler.take(describing);
        let described = tokio::time::timeout(self.limits.call_time_max, describing).await;
        described.map_err(|_| self.not_started(wasmtime::Error::msg(no_answer(&self.limits))))?
    }

    /// The store of an instance.
    fn store(&self, context: &SinkContext) -> Store<Host> {
        let host = Host::new(
            Arc::clone(&self.name),
            context,
            &self.grants,
            self.limits.memory_bytes_max,
        );
        let mut store = Store::new(self.pre.engine(), host);
        store.limiter(|host| &mut host.memory);
        // A guest cannot hand more than this to the host in one call, the body of a request included.
        let body_max = self.grants.egress.as_ref().map_or(0, |one| one.body_max());
        store.set_hostcall_fuel(HANDED_BYTES_MAX.saturating_add(body_max));
        store.epoch_deadline_callback(|mut context| {
            Ok(match context.data_mut().meter.charge() {
                true => UpdateDeadline::Yield(1),
                false => UpdateDeadline::Interrupt,
            })
        });
        arm(&mut store, &self.limits);
        store
    }

    fn not_started(&self, source: wasmtime::Error) -> PluginError {
        PluginError::Start {
            name: self.name.to_string(),
            source,
        }
    }

    async fn open(
        &self,
        store: &mut Store<Host>,
        guest: &world::Guest,
        context: &SinkContext,
    ) -> Result<Descriptor, PluginError> {
        let described = guest.call_describe(&mut *store).await;
        let descriptor = described.map_err(|error| self.trapped(store, &error))?;
        let refused = |reason: String| PluginError::Config {
            name: self.name.to_string(),
            reason: shortened(context.redactor.redact(reason)),
        };
        schema::check(&descriptor.config_schema, &context.config).map_err(refused)?;
        let opened = guest
            .call_open(&mut *store, &context.config.to_string())
            .await;
        opened
            .map_err(|error| self.trapped(store, &error))?
            .map_err(refused)?;
        // What it staged before its first batch belongs to no batch.
        store.data_mut().begin(None);
        Ok(Descriptor {
            name: descriptor.name,
            version: descriptor.version,
            config_schema: descriptor.config_schema,
        })
    }

    fn trapped(&self, store: &Store<Host>, error: &wasmtime::Error) -> PluginError {
        let mut text = store.data().describe(error);
        let is_silent = store.data().said_nothing();
        if is_silent
            && matches!(
                error.downcast_ref(),
                Some(wasmtime::Trap::UnreachableCodeReached)
            )
        {
            text.push_str(SILENT);
        }
        PluginError::Start {
            name: self.name.to_string(),
            source: wasmtime::Error::msg(shortened(store.data().redactor().redact(text))),
        }
    }
}

/// The call timed out: names the setting of the limit.
fn no_answer(limits: &GuestLimits) -> String {
    format!(
        "no answer within {} ms, which is `write_timeout_ms` in `limits` of the sink's section or in [plugins]",
        limits.call_time_max.as_millis()
    )
}

/// For a component that ends without a message before its first batch. The trap alone does not say which of both it is.
const SILENT: &str = " and said nothing: in JavaScript and Python this is an export that is missing, or an exception; `export const sink` needs `describe`, `open` and `write`";

/// Sets the time limit of one call of the guest.
fn arm(store: &mut Store<Host>, limits: &GuestLimits) {
    store.data_mut().meter = Meter::of(limits.cpu_time_max);
    store.set_epoch_deadline(1);
}

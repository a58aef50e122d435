//! A trial: one attempt of a sink at a few items, without a lane.
//!
//! **Invariant**: a trial stores nothing, and sends nothing unless it is allowed to.

use std::sync::Arc;

use tokio::runtime::Handle;

use super::{Delivery, selection};
use item::batch::{Batch, Slice};
use plugin::{ItemChange, Plugins, SinkContext, Taken, Trial, TrialSeen};
use pool::Pool;

#[derive(Debug, Default)]
pub struct Tried {
    /// Items that match `where`.
    pub items: u32,
    /// Requests that were sent or would be, and the log of the plugin.
    pub seen: TrialSeen,
    /// Changes that it would make in the data pool.
    pub changes: Vec<ItemChange>,
    pub error: Option<String>,
}

impl Delivery {
    /// Calls a new instance of the sink with the items. With `sends`, its requests are sent, once; `mark` distinguishes
    /// them from all other requests. On a thread for blocking work, because the plugin may compute for long.
    pub async fn try_out(
        &self,
        sink: settings::Sink,
        items: Vec<Slice>,
        sends: bool,
        mark: String,
    ) -> Tried {
        let (plugins, pool) = (Arc::clone(&self.plugins), Arc::clone(&self.pool));
        let (runtime, problems) = (Handle::current(), self.problems.clone());
        // It may compute for long, which no thread that answers requests has the time for.
        let trying = move || {
            let trial = Trial::new(&sink, sends);
            let slices = selection::selected(&sink, items, &problems);
            let batch = Batch::new(slices, 1);
            let items = batch.len();
            let call = one_call(&plugins, &pool, &sink, batch, &trial, &mark);
            let (taken, error) = match runtime.block_on(call) {
                Ok(taken) => {
                    let rejected = taken.rejected.first();
                    let reason = rejected
                        .map(|(index, why)| format!("the sink rejects item {index}: {why}"));
                    (taken, reason)
                }
                Err(error) => (Taken::default(), Some(error)),
            };
            Tried {
                items,
                seen: trial.take(),
                changes: taken.changes(),
                error,
            }
        };
        let tried = tokio::task::spawn_blocking(trying).await;
        tried.unwrap_or_else(|error| Tried {
            error: Some(format!("the trial failed because of a defect: {error}")),
            ..Tried::default()
        })
    }
}

async fn one_call(
    plugins: &Plugins,
    pool: &Arc<Pool>,
    sink: &settings::Sink,
    batch: Batch,
    trial: &Arc<Trial>,
    mark: &str,
) -> Result<Taken, String> {
    let plugin = plugins.load(sink).map_err(|error| error.to_string())?;
    let context = SinkContext::of_trial(sink, Some(pool), trial, mark);
    let started = plugin.start(&context).await;
    let mut instance = started.map_err(|error| error.to_string())?;
    if batch.is_empty() {
        return Ok(Taken::default());
    }
    let chosen = selection::with_fields(sink, &batch).map_err(|error| error.to_string())?;
    let written = instance.write(chosen.unwrap_or(batch)).await;
    written.map_err(|error| error.to_string())
}

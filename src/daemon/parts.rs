//! The parts of a daemon, built on the open files and put together for operators.
//!
//! [`Daemon::start`](super::Daemon::start) builds them once.
//!
//! **Invariant**: nothing is spawned here.

use std::path::Path;
use std::sync::Arc;
use std::time::Instant;

use super::ConnectionLimits;
use super::stored::Stored;
use backup::Backups;
use base::clock::Unix;
use base::process;
use catalog::Catalog;
use delivery::Delivery;
use ingest::{Gate, Ingest, IngestLimits, SettledThrough};
use live::Live;
use live::tickets::Tickets;
use observe::metrics::Metrics;
use observe::telemetry::Tracer;
use operate::access::Access;
use operate::requests::Requests;
use operate::{About, Operator, OperatorParts, Problems};
use plugin::Plugins;
use pool::Pool;
use settings::{ClusterDurability, Engine, InUse, Loaded, Settings};

/// What an operator's parts are made of.
pub(super) struct Parts<'a> {
    pub(super) stored: &'a Stored,
    pub(super) plugins: &'a Arc<Plugins>,
    pub(super) metrics: &'a Arc<Metrics>,
    pub(super) tracer: Tracer,
}

impl Parts<'_> {
    pub(super) fn operator(
        self,
        loaded: &Loaded,
        data_dir: &Path,
        access: Access,
        service_address: &str,
    ) -> Operator {
        let (settings, tracer, metrics) = (&loaded.settings, &self.tracer, self.metrics);
        let Stored {
            catalog,
            pool,
            journal,
            ..
        } = self.stored;
        let delivery = self.delivery(&settings.problems.stream);
        let connections = ConnectionLimits::of(settings, process::open_files_max()).service;
        let live = Live::new(settings, connections, pool, metrics, tracer.clone());
        let live = Arc::new(live.with_tickets(tickets(self.stored)));
        follow_streams(catalog, pool, &live);
        let (gate, started_at) = (Arc::new(Gate::default()), Unix::now());
        (metrics.started_at).set(i64::try_from(started_at.seconds()).unwrap_or(i64::MAX));
        let settled = Arc::clone(&delivery);
        let settled = Box::new(move |stream: &str| settled.settled_through(stream));
        let ingest = ingest(
            self.stored,
            settings,
            &gate,
            metrics,
            tracer.clone(),
            settled,
        );
        Operator::from(OperatorParts {
            requests: Requests::new(journal, pool, &delivery),
            catalog: Arc::clone(catalog),
            journal: Arc::clone(journal),
            pool: Arc::clone(pool),
            delivery,
            ingest,
            live,
            backups: Arc::new(Backups::new(
                journal,
                data_dir,
                &settings.admin.backup_dirs,
                settings.storage.min_free_bytes,
            )),
            gate,
            access: Arc::new(access),
            login_throttle: Arc::default(),
            metrics: Arc::clone(metrics),
            about: Arc::new(about(loaded, data_dir, service_address, started_at)),
            configuration: Arc::new(InUse::new(settings::explain(loaded))),
            certificates: Arc::default(),
            sink_changes: Arc::default(),
            published: Arc::new(self.problems(settings)),
            cluster: (self.stored.node.as_ref()).map(|node| node.status.clone()),
            database: (self.stored.node.as_ref()).map(|node| node.database().clone()),
            asks: (self.stored.node.as_ref()).map(|node| node.asks.clone()),
            act_audit: Arc::default(),
        })
    }

    fn problems(&self, settings: &Settings) -> Problems {
        let node = self.stored.node.as_ref();
        let node = node.map(|_| &*settings.cluster.node);
        Problems::of_stream(&settings.problems.stream, node)
    }

    fn delivery(&self, problems: &str) -> Arc<Delivery> {
        Delivery::new(
            &self.stored.journal,
            &self.stored.pool,
            self.plugins,
            self.metrics,
            self.tracer.clone(),
            problems,
        )
    }
}

fn about(loaded: &Loaded, data_dir: &Path, service_address: &str, started_at: Unix) -> About {
    let (storage, cluster) = (loaded.settings.storage.clone(), &loaded.settings.cluster);
    let durability = match (storage.engine, cluster.durability) {
        (Engine::File, _) => storage.durability.as_str(),
        (Engine::Postgres, ClusterDurability::Standby) => "standby",
        (Engine::Postgres, ClusterDurability::Local) => "local",
    };
    About {
        profile: loaded.profile.clone(),
        service_address: service_address.to_owned(),
        data_dir: data_dir.display().to_string(),
        node: loaded.settings.cluster.node.clone(),
        durability,
        started_at,
        started: Instant::now(),
        storage,
        component_bytes_max: usize::try_from(loaded.settings.plugins.file_max_bytes)
            .unwrap_or(usize::MAX),
    }
}

/// The tickets of this daemon, or of all nodes.
fn tickets(stored: &Stored) -> Tickets {
    match &stored.node {
        Some(node) => Tickets::of_cluster(node.access.clone(), &stored.catalog),
        None => Tickets::default(),
    }
}

/// What requests go through. `headgate preset test` uses it without the other parts.
pub(super) fn ingest(
    stored: &Stored,
    settings: &Settings,
    gate: &Arc<Gate>,
    metrics: &Arc<Metrics>,
    tracer: Tracer,
    settled_through: SettledThrough,
) -> Arc<Ingest> {
    let limits = &settings.limits;
    let limits = IngestLimits {
        body_bytes_max: limits.max_body_bytes as u64,
        flattened_bytes_max: limits.max_flattened_bytes,
        item_bytes_max: limits.max_item_bytes,
        pending_bytes_max: limits.max_pending_bytes as u64,
        pending_bytes_per_key_max: limits.max_pending_bytes_per_key as u64,
    };
    Arc::new(Ingest::new(
        Arc::clone(&stored.catalog),
        Arc::clone(&stored.journal),
        Arc::clone(&stored.pool),
        Arc::clone(gate),
        Arc::clone(metrics),
        limits,
        tracer,
        settled_through,
    ))
}

/// Streams that change are known to the pool and to renderers before anybody can use them.
fn follow_streams(catalog: &Catalog, pool: &Arc<Pool>, live: &Arc<Live>) {
    let (pool, live) = (Arc::clone(pool), Arc::clone(live));
    catalog.follow_streams(move |streams| {
        let on_update = streams
            .values()
            .map(|stream| (Arc::clone(&stream.name), stream.on_update));
        pool.set_on_update(on_update.collect());
        let with_history = streams.values().filter(|stream| stream.history > 0);
        let history = with_history.map(|stream| (Arc::clone(&stream.name), stream.history));
        pool.set_history(history.collect());
        let stale_after = streams.values().filter_map(|stream| {
            let seconds = stream.stale_after_seconds?;
            Some((Arc::clone(&stream.name), seconds))
        });
        live.set_stale_after(stale_after.collect());
    });
}

//! The daemon of a test: started in this process, in a temporary folder, on ports that the system chooses.
//!
//! Every module starts its own with [`Setup`]; what talks to it is in `app/actor.rs`, `app/raw.rs`
//! and `app/renderer.rs`.
//!
//! **Invariant**: a daemon leaves no work behind: it is stopped in order when its [`TestApp`] is dropped.

pub(crate) mod actor;
mod random;
pub(crate) mod raw;
pub(crate) mod renderer;

use std::path::Path;

use headgate::daemon::{Daemon, DaemonError};
use operate::Operator;
use pool::Position;
use serde_json::Value;
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

use crate::setup::Setup;
use crate::stored::Item;
use crate::wait::{DEADLINE, eventually_async};

pub(crate) use actor::{Admin, Caller, Reply};
pub(crate) use random::Random;
pub(crate) use raw::Raw;
pub(crate) use renderer::{Content, Message, Pass, Renderer, Transport, encoded};

/// A running daemon.
pub(crate) struct TestApp {
    /// `http://127.0.0.1:…` or `unix:/…`
    pub(crate) service: String,
    /// The same for the admin listener.
    pub(crate) admin_url: String,
    /// The parts of the daemon, for what cannot be seen from outside.
    pub(crate) parts: Operator,
    setup: Setup,
    stop: CancellationToken,
    daemon: Option<JoinHandle<Result<(), DaemonError>>>,
}

impl TestApp {
    /// Starts one; [`Setup::start`] is what tests call.
    pub(crate) async fn of(setup: Setup) -> Result<Self, DaemonError> {
        let program = Path::new(env!("CARGO_BIN_EXE_headgate"));
        let daemon = Daemon::start(&setup.load(), Some(program)).await?;
        let stop = CancellationToken::new();
        Ok(Self {
            service: daemon.service_address.clone(),
            admin_url: daemon.admin_address.clone(),
            parts: daemon.operator.clone(),
            setup,
            stop: stop.clone(),
            daemon: Some(in_background(
                async move { daemon.run(stop.cancelled()).await },
            )),
        })
    }

    /// The daemon's data folder.
    pub(crate) fn data_dir(&self) -> &Path {
        self.setup.data_dir()
    }

    /// What is configured, and where.
    pub(crate) fn setup(&self) -> &Setup {
        &self.setup
    }

    /// The first key of a connector.
    pub(crate) fn caller(&self, connector: &str) -> Caller {
        self.caller_with(self.setup.secret(connector, 0))
    }

    /// A further key of a connector, counted from 0.
    pub(crate) fn caller_of(&self, connector: &str, key: usize) -> Caller {
        self.caller_with(self.setup.secret(connector, key))
    }

    /// A caller with any secret.
    pub(crate) fn caller_with(&self, secret: &str) -> Caller {
        Caller::new(&self.service, Some(secret))
    }

    /// A caller of the service without a key.
    pub(crate) fn anonymous(&self) -> Caller {
        Caller::new(&self.service, None)
    }

    /// The secret of a connector's first key.
    pub(crate) fn secret(&self, connector: &str) -> &str {
        self.setup.secret(connector, 0)
    }

    /// The secret of a read key.
    pub(crate) fn read_secret(&self, name: &str) -> &str {
        self.setup.read_secret(name)
    }

    /// Somebody with a read key.
    pub(crate) fn reader(&self, name: &str) -> Caller {
        self.caller_with(self.read_secret(name))
    }

    /// A renderer with the read key `screen`, which is not connected yet.
    pub(crate) fn renderer(&self, transport: Transport, streams: &[&str]) -> Renderer {
        Renderer::new(
            &self.service,
            transport,
            self.read_secret("screen"),
            streams,
        )
    }

    /// The operator.
    pub(crate) fn admin(&self) -> Admin {
        Admin::new(&self.admin_url, Some(&self.admin_token())).with_journal(&self.parts.journal)
    }

    /// Somebody at the admin listener who does not know the token.
    pub(crate) fn stranger(&self) -> Admin {
        Admin::new(&self.admin_url, None)
    }

    /// The admin token.
    pub(crate) fn admin_token(&self) -> String {
        self.setup.admin_token()
    }

    /// The renderers that are connected, as the operator sees them.
    pub(crate) async fn renderers(&self) -> Vec<Value> {
        self.admin().get("/api/admin/renderers").await.list()
    }

    /// The last change of the pool.
    pub(crate) fn position(&self) -> Position {
        self.parts.pool.position()
    }

    /// Waits until every lane has everything behind it and the journal has written everything. Views, which the daemon
    /// makes once a second, are there then.
    pub(crate) async fn drain(&self) {
        let journal = &self.parts.journal;
        // First: only then is the newest entry known to be the last one that was acknowledged.
        journal.flush().await.expect("the journal is open");
        eventually_async("every lane has everything behind it", async || {
            let newest = *journal.newest().borrow();
            let lanes = self.parts.delivery.lanes();
            // A node of a cluster has none until it runs the sinks.
            let all_run =
                self.parts.node().is_none() || lanes.len() == self.parts.catalog.sinks().len();
            let mut lanes = lanes.iter();
            (all_run && lanes.all(|lane| lane.cursor() >= newest)).then_some(())
        })
        .await;
        while matches!(self.parts.pool.refresh_views(), Ok(true)) {}
    }

    /// The items of a stream in the pool, by key, after [`drain`](Self::drain).
    pub(crate) async fn items(&self, stream: &str) -> Vec<Item> {
        self.drain().await;
        self.setup.rows(stream)
    }

    /// Key and fields of each item of a stream, as [`items`](Self::items).
    pub(crate) async fn fields(&self, stream: &str) -> Vec<(String, String)> {
        self.drain().await;
        self.fields_now(stream)
    }

    /// Key and fields of each item of a stream that is in the pool already.
    pub(crate) fn fields_now(&self, stream: &str) -> Vec<(String, String)> {
        let items = self.setup.rows(stream);
        items
            .into_iter()
            .map(|item| (item.key, item.fields))
            .collect()
    }

    /// What renderers of these streams should hold, after [`drain`](Self::drain).
    pub(crate) async fn content(&self, streams: &[&str]) -> Content {
        self.drain().await;
        self.setup.content(streams)
    }

    /// `DELETE` of an item, with a connector's first key; ends when every sink has heard of it.
    pub(crate) async fn remove(&self, connector: &str, stream: &str, key: &str) -> actor::Receipt {
        let path = format!("/api/streams/{}/items/{}", encoded(stream), encoded(key));
        let caller = self.caller(connector);
        let reply = caller.call(reqwest::Method::DELETE, &path, &[], "").await;
        let receipt = reply.receipt();
        self.drain().await;
        receipt
    }

    /// A read-only connection to the pool, as any other program would open one.
    pub(crate) fn pool(&self) -> rusqlite::Connection {
        self.setup.pool()
    }

    /// Stops the daemon in order.
    pub(crate) async fn stop(mut self) -> Setup {
        let done = self.finish().await.expect("the daemon was not stopped yet");
        done.expect("the daemon ends in order");
        self.setup.clone()
    }

    /// Stops the daemon and starts one on the same data.
    pub(crate) async fn restart(self) -> TestApp {
        self.stop().await.start().await
    }

    /// Takes a read key out of the configuration, as a reload does.
    pub(crate) fn revoke(&self, read_key: &str) {
        let mut settings = self.setup.load().settings;
        let before = settings.read_keys.len();
        settings.read_keys.retain(|key| key.name != read_key);
        assert_eq!(settings.read_keys.len() + 1, before, "{read_key}");
        self.parts.catalog.renew(&settings);
        self.parts.live.recheck_keys();
    }

    /// Begins to stop the daemon, without waiting for it.
    pub(crate) fn begin_to_stop(&self) {
        self.stop.cancel();
    }

    async fn finish(&mut self) -> Option<Result<(), DaemonError>> {
        self.stop.cancel();
        let daemon = self.daemon.take()?;
        let done = tokio::time::timeout(DEADLINE, daemon).await;
        Some(
            done.expect("the daemon stops in time")
                .expect("the daemon does not panic"),
        )
    }
}

impl Drop for TestApp {
    fn drop(&mut self) {
        if self.daemon.is_some() && !std::thread::panicking() {
            let runtime = tokio::runtime::Handle::current();
            let done = tokio::task::block_in_place(|| runtime.block_on(self.finish()));
            if let Some(Err(error)) = done {
                panic!("the daemon did not end in order: {error}");
            }
        }
    }
}

/// Runs something beside the test.
#[expect(
    clippy::disallowed_methods,
    reason = "tests have no daemon to spawn for them"
)]
pub(crate) fn in_background<T: Send + 'static>(
    work: impl Future<Output = T> + Send + 'static,
) -> JoinHandle<T> {
    tokio::spawn(work)
}

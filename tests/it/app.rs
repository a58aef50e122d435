//! The daemon of a test: started in this process, in a temporary folder, on ports that the system chooses.
//!
//! Every module starts its own with [`Setup`]; what talks to it is in `app/actor.rs`, `app/raw.rs`
//! and `app/renderer.rs`.
//!
//! **Invariant**: a daemon leaves no work behind: it is stopped in order when its [`TestApp`] is dropped.

pub(crate) mod actor;
mod nodes;
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
use crate::wait::DEADLINE;

pub(crate) use actor::{Admin, Caller, Reply};
pub(crate) use nodes::Addresses;
use nodes::{Node, drain};
pub(crate) use random::Random;
pub(crate) use raw::Raw;
pub(crate) use renderer::{Content, Message, Pass, Renderer, Transport, encoded};

/// A running daemon, or with `HEADGATE_TEST_ENGINE=postgres:3` the nodes of a cluster.
pub(crate) struct TestApp {
    /// `http://127.0.0.1:…` or `unix:/…` of the first node.
    pub(crate) service: String,
    /// The same for the admin listener.
    pub(crate) admin_url: String,
    /// The parts of the first daemon, for what cannot be seen from outside.
    pub(crate) parts: Operator,
    /// Where callers send to.
    services: Addresses,
    /// The same for the admin listeners.
    admins: Addresses,
    setup: Setup,
    stop: CancellationToken,
    /// Empty when it was stopped.
    nodes: Vec<Node>,
}

impl TestApp {
    /// Starts one; [`Setup::start`] is what tests call.
    pub(crate) async fn of(setup: Setup) -> Result<Self, DaemonError> {
        let program = Path::new(env!("CARGO_BIN_EXE_headgate"));
        let stop = CancellationToken::new();
        let mut nodes = Vec::new();
        for setup in setup.nodes() {
            let started = Daemon::start(&setup.load(), Some(program)).await;
            let daemon = started.inspect_err(|_| stop.cancel())?;
            let stopping = stop.clone();
            nodes.push(Node {
                setup,
                parts: daemon.operator.clone(),
                service: daemon.service_address.clone(),
                admin: daemon.admin_address.clone(),
                daemon: in_background(async move { daemon.run(stopping.cancelled_owned()).await }),
            });
        }
        let services = Addresses::new(nodes.iter().map(|node| node.service.clone()));
        let admins = services.and(nodes.iter().map(|node| node.admin.clone()));
        let first = nodes.first().expect("a node");
        Ok(Self {
            service: first.service.clone(),
            admin_url: first.admin.clone(),
            parts: first.parts.clone(),
            services,
            admins,
            setup,
            stop,
            nodes,
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
        Caller::new(self.services.clone(), Some(secret))
    }

    /// A caller of the service without a key.
    pub(crate) fn anonymous(&self) -> Caller {
        Caller::new(self.services.clone(), None)
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
            self.services.next(),
            transport,
            self.read_secret("screen"),
            streams,
        )
    }

    /// The operator.
    pub(crate) fn admin(&self) -> Admin {
        let journals = self.nodes.iter();
        let journals = journals.map(|node| node.parts.journal.clone());
        Admin::new(self.admins.clone(), Some(&self.admin_token())).with_journals(journals.collect())
    }

    /// Somebody at the admin listener who does not know the token.
    pub(crate) fn stranger(&self) -> Admin {
        Admin::new(self.admins.clone(), None)
    }

    /// The admin token.
    pub(crate) fn admin_token(&self) -> String {
        self.setup.admin_token()
    }

    /// The renderers that are connected, as the operator sees them.
    pub(crate) async fn renderers(&self) -> Vec<Value> {
        let (mut renderers, admin) = (Vec::new(), self.admin());
        for _ in &self.nodes {
            renderers.extend(admin.get("/api/admin/renderers").await.list());
        }
        renderers
    }

    /// The last change of the pool.
    pub(crate) fn position(&self) -> Position {
        self.parts.pool.position()
    }

    /// Waits until every lane has everything behind it and the journal has written everything. Views, which the daemon
    /// makes once a second, are there then.
    pub(crate) async fn drain(&self) {
        drain(&self.nodes).await;
    }

    /// The items of a stream in the pool, by key, after [`drain`](Self::drain). Each node has the same.
    pub(crate) async fn items(&self, stream: &str) -> Vec<Item> {
        self.drain().await;
        let items = self.setup.rows(stream);
        for node in self.nodes.iter().skip(1) {
            assert_eq!(node.setup.rows(stream), items, "each node has the same");
        }
        items
    }

    /// Key and fields of each item of a stream, as [`items`](Self::items).
    pub(crate) async fn fields(&self, stream: &str) -> Vec<(String, String)> {
        keys_and_fields(self.items(stream).await)
    }

    /// Key and fields of each item of a stream that the node that was asked last has already.
    pub(crate) fn fields_now(&self, stream: &str) -> Vec<(String, String)> {
        keys_and_fields(self.asked().rows(stream))
    }

    /// The node that was asked last.
    fn asked(&self) -> &Setup {
        &self.nodes[self.services.asked()].setup
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

    /// A read-only connection to the pool of the node that was asked last, as any other program would open one.
    pub(crate) fn pool(&self) -> rusqlite::Connection {
        self.asked().pool()
    }

    /// Stops the daemon in order.
    pub(crate) async fn stop(mut self) -> Setup {
        self.finish().await.expect("the daemon ends in order");
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
        for node in &self.nodes {
            node.parts.catalog.renew(&settings);
            node.parts.live.recheck_keys();
        }
    }

    /// Begins to stop the daemon, without waiting for it.
    pub(crate) fn begin_to_stop(&self) {
        self.stop.cancel();
    }

    /// Stops every daemon that runs.
    async fn finish(&mut self) -> Result<(), DaemonError> {
        self.stop.cancel();
        for node in std::mem::take(&mut self.nodes) {
            let done = tokio::time::timeout(DEADLINE, node.daemon).await;
            done.expect("the daemon stops in time")
                .expect("the daemon does not panic")?;
        }
        Ok(())
    }
}

impl Drop for TestApp {
    fn drop(&mut self) {
        if !self.nodes.is_empty() && !std::thread::panicking() {
            let runtime = tokio::runtime::Handle::current();
            let done = tokio::task::block_in_place(|| runtime.block_on(self.finish()));
            if let Err(error) = done {
                panic!("the daemon did not end in order: {error}");
            }
        }
    }
}

fn keys_and_fields(items: Vec<Item>) -> Vec<(String, String)> {
    let items = items.into_iter();
    items.map(|item| (item.key, item.fields)).collect()
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

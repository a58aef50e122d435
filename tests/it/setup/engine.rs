//! Which engine the daemons of the tests store with: the files, or PostgreSQL with `HEADGATE_TEST_ENGINE=postgres`, and
//! with three nodes for each daemon in the process of the tests with `HEADGATE_TEST_ENGINE=postgres:3`.
//!
//! Some tests are about the files of a daemon alone. They say so, with the reason, and are skipped on PostgreSQL:
//! `grep -rn -B1 'file_only("' tests/it` lists them. `one_node_only("` is the same for what one node has or knows.
//!
//! **Invariant**: a [`Setup`] has a schema of its own, and its clones share it.

use std::io::Write as _;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

use postgres_server::Postgres;
use serde_json::Value;

use super::Setup;
use crate::faults::pause;
use crate::process::{Client, Process};
use crate::wait::DEADLINE;

/// Names of schemas begin with it.
const SCHEMA: &str = "tests_";

/// What the tests run on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum TestEngine {
    File,
    /// Each daemon is the only node of a cluster of its own, which runs the sinks soon after its start.
    Postgres,
    /// The same, but a daemon in the process of the tests is three nodes of one.
    ThreeNodes,
}

fn engine() -> TestEngine {
    let named = std::env::var_os("HEADGATE_TEST_ENGINE");
    match named.as_ref().map(|engine| engine.to_str()) {
        None | Some(Some("file")) => TestEngine::File,
        Some(Some("postgres")) => TestEngine::Postgres,
        Some(Some("postgres:3")) => TestEngine::ThreeNodes,
        _ => panic!("HEADGATE_TEST_ENGINE is file, postgres or postgres:3, not {named:?}"),
    }
}

/// Whether each daemon is a node of a cluster of its own.
pub(crate) fn is_in_a_cluster() -> bool {
    engine() != TestEngine::File
}

/// Whether a test is to end because it is about files that only a daemon alone has; says loudly that it did not run, and why.
pub(crate) fn file_only(reason: &str) -> bool {
    if is_in_a_cluster() {
        skipped("of engine = \"file\" only", reason);
    }
    is_in_a_cluster()
}

/// Whether a test is to end because its daemon is three nodes, and it is about one; says loudly that it did not run, and why.
pub(crate) fn one_node_only(reason: &str) -> bool {
    let is_skipped = engine() == TestEngine::ThreeNodes;
    if is_skipped {
        skipped("of one node only", reason);
    }
    is_skipped
}

fn skipped(of: &str, reason: &str) {
    let thread = std::thread::current();
    let test = thread.name().unwrap_or_default();
    // Not eprintln!, which the test harness keeps to itself while tests pass.
    let _ = writeln!(std::io::stderr(), "SKIPPED {test}: {of}: {reason}");
}

impl Setup {
    /// The URL and the schema of the database that a node stores in; none: files.
    pub(crate) fn database(&self) -> Option<(&str, &str)> {
        let of = |section: &str, name: &str| self.settings.get(section)?.get(name);
        if of("storage", "engine")? != "postgres" {
            return None;
        }
        let url = of("cluster", "urls")?.get(0)?.as_str()?;
        Some((url, of("cluster", "schema")?.as_str()?))
    }

    /// A daemon with files runs its sinks when it listens. Waits until the only node of a cluster does, or is found to be
    /// unable to say.
    pub(super) fn wait_for_sinks(&self, process: &Process) {
        let is_alone = self
            .database()
            .filter(|(_, schema)| schema.starts_with(SCHEMA));
        let configured = self.settings["admin"].get("token").and_then(Value::as_str);
        let token = match configured {
            Some(token) => Ok(token.to_owned()),
            None => std::fs::read_to_string(self.data_dir.join("admin.token")),
        };
        let (Some(_), Ok(token)) = (is_alone, token) else {
            return;
        };
        let waits = || -> Option<bool> {
            let mut client = Client::connect(process.admin).ok()?;
            let answer = client.get("/api/admin/sinks", token.trim()).ok()?;
            let mut answer: Value = serde_json::from_str(&answer.body).ok()?;
            let sinks = answer["data"].take();
            let is_elsewhere = |sink: &Value| sink["state"] == "elsewhere";
            Some(sinks.as_array()?.iter().any(is_elsewhere))
        };
        let started = Instant::now();
        while waits() == Some(true) && started.elapsed() < DEADLINE {
            pause(Duration::from_millis(10));
        }
    }

    pub(super) fn on_engine(self) -> Self {
        static SCHEMAS: AtomicU32 = AtomicU32::new(0);
        if engine() == TestEngine::File {
            return self;
        }
        let url = Postgres::shared_url().expect("PostgreSQL is installed");
        let schema = SCHEMAS.fetch_add(1, Ordering::Relaxed);
        self.set("storage.engine", "postgres")
            .set("cluster.urls", vec![url])
            .set("cluster.schema", format!("{SCHEMA}{schema}"))
            .set("cluster.durability", "local")
    }

    /// What each daemon of a test in this process is started with. Nodes beside the first have data directories of their own,
    /// and listen wherever they can.
    pub(crate) fn nodes(&self) -> Vec<Self> {
        let mut nodes = vec![self.clone()];
        if engine() != TestEngine::ThreeNodes || self.database().is_none() {
            return nodes;
        }
        nodes[0] = self.clone().set("cluster.name", "a");
        for (name, ending) in [("b", "-b"), ("c", "-c")] {
            let mut data_dir = self.data_dir.clone().into_os_string();
            data_dir.push(ending);
            let mut node = self.clone().data_in(data_dir);
            node.node = ending;
            nodes.push(
                node.set("cluster.name", name)
                    .set("server.listen", "127.0.0.1:0")
                    .set("admin.listen", "127.0.0.1:0"),
            );
        }
        nodes
    }
}

//! Which engine the daemons of the tests store with: the files, or PostgreSQL with `HEADGATE_TEST_ENGINE=postgres`.
//!
//! Some tests are about the files of a daemon alone. They say so, with the reason, and are skipped on PostgreSQL:
//! `grep -rn -B1 'file_only("' tests/it` lists them.
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

/// Whether each daemon is the only node of a cluster of its own, which runs the sinks soon after its start.
pub(crate) fn is_alone_in_a_cluster() -> bool {
    std::env::var_os("HEADGATE_TEST_ENGINE").is_some_and(|engine| engine == "postgres")
}

/// Whether a test is to end because it is about files that only a daemon alone has; says loudly that it did not run, and why.
pub(crate) fn file_only(reason: &str) -> bool {
    if is_alone_in_a_cluster() {
        let thread = std::thread::current();
        let test = thread.name().unwrap_or_default();
        // Not eprintln!, which the test harness keeps to itself while tests pass.
        let _ = writeln!(
            std::io::stderr(),
            "SKIPPED {test}: of engine = \"file\" only: {reason}"
        );
    }
    is_alone_in_a_cluster()
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
        let Some(engine) = std::env::var_os("HEADGATE_TEST_ENGINE") else {
            return self;
        };
        match engine.to_str() {
            Some("file") => self,
            Some("postgres") => {
                let url = Postgres::shared_url().expect("PostgreSQL is installed");
                let schema = SCHEMAS.fetch_add(1, Ordering::Relaxed);
                self.set("storage.engine", "postgres")
                    .set("cluster.urls", vec![url])
                    .set("cluster.schema", format!("{SCHEMA}{schema}"))
                    .set("cluster.durability", "local")
            }
            _ => panic!("HEADGATE_TEST_ENGINE is file or postgres, not {engine:?}"),
        }
    }
}

//! Which engine the daemons of the tests store with: the files, or PostgreSQL with `HEADGATE_TEST_ENGINE=postgres`.
//!
//! **Invariant**: a [`Setup`] has a schema of its own, and its clones share it.

use std::sync::atomic::{AtomicU32, Ordering};

use postgres_server::Postgres;

use super::Setup;

/// Whether each daemon is the only node of a cluster of its own, which runs the sinks soon after its start.
pub(crate) fn is_alone_in_a_cluster() -> bool {
    std::env::var_os("HEADGATE_TEST_ENGINE").is_some_and(|engine| engine == "postgres")
}

impl Setup {
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
                    .set("cluster.schema", format!("tests_{schema}"))
                    .set("cluster.durability", "local")
            }
            _ => panic!("HEADGATE_TEST_ENGINE is file or postgres, not {engine:?}"),
        }
    }
}

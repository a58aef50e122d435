//! A server in a network namespace, which can be cut off from others.
//!
//! **Invariant**: whoever knows the password may connect from anywhere, also as a standby.

use std::io::Write as _;
use std::path::Path;
use std::process::Command;

use super::{HERE, Postgres};

/// Where a server runs.
#[derive(Debug, Clone)]
pub struct Place {
    /// The file of a network namespace, such as `/run/netns/db1`.
    pub namespace: String,
    /// An IPv4 address that the namespace has.
    pub host: String,
}

impl Postgres {
    /// The same as [`Postgres::start`] at a place, which needs root.
    pub fn start_in(test: &str, place: &Place) -> Option<Self> {
        Self::start_at(test, Some(place.clone()))
    }

    /// The address that it listens on.
    pub fn host(&self) -> &str {
        self.place.as_ref().map_or(HERE, |place| &place.host)
    }

    /// Runs a program where the server does; its arguments follow. The process is the program, whatever stands before it.
    pub(super) fn runner(&self, program: &Path) -> Command {
        match &self.place {
            Some(place) => {
                let mut command = Command::new("nsenter");
                command.arg(format!("--net={}", place.namespace));
                command.arg("--").arg(program);
                command
            }
            None => Command::new(program),
        }
    }

    /// Without this, a new server accepts connections from its own machine alone.
    pub(super) fn let_others_connect(&self) {
        if self.place.is_none() {
            return;
        }
        let rules =
            "host all all 0.0.0.0/0 scram-sha-256\nhost replication all 0.0.0.0/0 scram-sha-256\n";
        let file = self.folder.path().join("data/pg_hba.conf");
        let file = std::fs::OpenOptions::new().append(true).open(file);
        let written = file.and_then(|mut file| file.write_all(rules.as_bytes()));
        written.expect("the file of the new server");
    }
}

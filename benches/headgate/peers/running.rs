//! A server that runs, whoever it is.
//!
//! Called by the measurements, which differ only in what they send.
//!
//! **Invariant:** the server and all that it started are gone when its [`Running`] is, by SIGKILL.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use super::peer::{Peer, STREAMS};
use super::store::Store;
use crate::Result;
use crate::child;
use crate::ingest::load::{Load, Source};
use crate::ingest::payload::{Keys, Requests, Revisions, Shape};
use crate::ingest::rounds::{self, Round, Target};
use crate::ingest::server::{Daemon, Home, Server};

/// A server that takes requests.
#[derive(Debug)]
pub(crate) struct Running {
    /// Who it is.
    pub(crate) peer: Peer,
    folder: PathBuf,
    program: Program,
}

#[derive(Debug)]
enum Program {
    Daemon(Daemon, Home),
    Other(Server),
}

impl Running {
    /// Starts it on what an earlier one left in `folder`, if there was one.
    pub(crate) fn start(peer: Peer, folder: &Path) -> Result<Self> {
        fs::create_dir_all(folder)?;
        let program = match peer {
            Peer::Headgate => {
                let home = Home::create(folder.to_owned())?;
                let daemon = home.start().map_err(|error| home.explain(error))?;
                Program::Daemon(daemon, home)
            }
            _ => Program::Other(start_other(peer, folder)?),
        };
        Ok(Self {
            peer,
            folder: folder.to_owned(),
            program,
        })
    }

    /// Its process and address.
    pub(crate) fn server(&self) -> &Server {
        match &self.program {
            Program::Daemon(daemon, _) => &daemon.server,
            Program::Other(server) => server,
        }
    }

    /// Requests that it understands.
    pub(crate) fn requests(&self, shape: Shape, keys: Keys, revisions: &Revisions) -> Requests {
        // Datasette makes its tokens itself.
        let token = fs::read_to_string(self.folder.join("token"));
        let token = token.map_or_else(|_| shape.ingest_key(), |token| token.trim().to_owned());
        let head = |length| self.peer.head(shape, &token, length);
        Requests::with(&self.peer.body(shape), head, keys, revisions)
    }

    /// Load until it has everything.
    pub(crate) fn round(
        &self,
        shape: Shape,
        sources: Vec<Source>,
        time: Duration,
        number: usize,
    ) -> Result<Round> {
        match &self.program {
            Program::Daemon(daemon, home) => {
                let data_dir = &home.data_dir();
                let target = Target { daemon, data_dir };
                rounds::pooled_round(target, shape, sources, time, &format!("round-{number}"))
            }
            Program::Other(server) => {
                rounds::answered_round(server, shape, self.load(time), sources)
            }
        }
    }

    /// Load for so long.
    pub(crate) fn load(&self, time: Duration) -> Load {
        Load {
            accepted: self.peer.accepts(),
            ..Load::new(self.server().service, time)
        }
    }

    /// What it holds, when it is done with everything.
    pub(crate) fn store(&self) -> Result<Store> {
        if let Program::Daemon(daemon, home) = &self.program {
            let data_dir = &home.data_dir();
            rounds::settle(Target { daemon, data_dir }, "store")?;
        }
        Store::open(self.peer, &self.folder, self.server().service)
    }

    /// Adds the end of its log to an error.
    pub(crate) fn explain(&self, error: crate::Error) -> crate::Error {
        child::explain(&self.folder, error)
    }
}

fn start_other(peer: Peer, folder: &Path) -> Result<Server> {
    let Some(mut command) = peer.command() else {
        return Server::start_floor(folder);
    };
    let service = child::free_address()?;
    command.arg(service.port().to_string()).arg(folder);
    command.args(STREAMS.map(|shape| format!("{}={}", shape.ingest_key(), shape.name())));
    Server::start_and_wait(command, folder, service)
}

impl Drop for Running {
    fn drop(&mut self) {
        self.server().process.kill_descendants();
    }
}

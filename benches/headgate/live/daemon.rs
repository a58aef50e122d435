//! Starts the daemon for the bench.
//!
//! Called by the measurements, which take one of their own where the state of an earlier one would disturb.
//!
//! **Invariant:** everything but addresses, keys, durability, the request rates and how many renderers there may be is the
//! daemon's default.

use std::fs;
use std::path::Path;

use super::Program;
use super::item::{IDLE_STREAM, STREAM};
use super::server::Server;
use crate::Result;
use crate::child::{Child, free_address};
use crate::daemon::{self, ADMIN_TOKEN};

/// The ingest key of [`STREAM`].
pub(crate) const INGEST_KEY: &str = "ik_live_bench_0123456789abcdef";

/// The read key of both streams.
pub(crate) const READ_KEY: &str = "rk_live_bench_0123456789abcdef";

/// What a 202 promises.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Durability {
    /// The request is on disk.
    Fsync,
    /// The request is with the operating system.
    Os,
}

impl Durability {
    fn name(self) -> &'static str {
        match self {
            Self::Fsync => "fsync",
            Self::Os => "os",
        }
    }

    fn title(self) -> &'static str {
        match self {
            Self::Fsync => "headgate, fsync",
            Self::Os => "headgate, os",
        }
    }
}

/// Starts a daemon with its data in a new folder `name` in `parent`, and waits for its first 202.
pub(crate) fn start(parent: &Path, name: &str, durability: Durability) -> Result<Server> {
    let folder = parent.join(name);
    fs::create_dir_all(folder.join("data"))?;
    let (service, admin) = (free_address()?, free_address()?);
    let durability_name = durability.name();
    let data_dir = folder.join("data");
    let configuration = format!(
        "[server]\nlisten = \"{service}\"\n[admin]\nlisten = \"{admin}\"\ntoken = \"{ADMIN_TOKEN}\"\n\
         [storage]\ndata_dir = {data_dir:?}\ndurability = \"{durability_name}\"\n\
         [limits]\nrequests_per_second = 10000000\nburst = 10000000\n\
         [live]\nconnections_max = 200000\nconnections_per_key_max = 100000\n\
         [[streams]]\nname = \"{STREAM}\"\n[[streams]]\nname = \"{IDLE_STREAM}\"\n\
         [[connectors]]\nname = \"bench\"\nkind = \"ingest\"\n\
         keys = [{{ name = \"bench\", stream = \"{STREAM}\", secret = \"{INGEST_KEY}\" }}]\n\
         [[read_keys]]\nname = \"bench\"\nstreams = [\"{STREAM}\", \"{IDLE_STREAM}\"]\nsecret = \"{READ_KEY}\"\n\
         requests_per_second = 1000000\n"
    );
    let command = daemon::command(&folder, &configuration)?;
    let child = Child::start(command, &folder)?;
    let server = Server::new(durability.title(), Program::Headgate, service, child)?;
    server.warm_up()?;
    Ok(server)
}

//! Starts the daemon for the bench.
//!
//! Called by the measurements, which take one of their own where the state of an earlier one would disturb.
//!
//! **Invariant:** everything but addresses, keys, durability, the request rates and how many renderers there may be is the
//! daemon's default.

use std::fmt::Write as _;
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

/// The ingest key of [`IDLE_STREAM`], which nobody uses.
const IDLE_KEY: &str = "ik_idle_bench_0123456789abcdef";

/// The read keys of all streams. One key may have three quarters of the connections that renderers may have.
pub(crate) const READ_KEYS: [&str; 2] = [
    "rk_live_bench_0123456789abcdef",
    "rk_more_bench_0123456789abcdef",
];

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
    let keys = [(STREAM, INGEST_KEY), (IDLE_STREAM, IDLE_KEY)]
        .map(|(stream, secret)| (stream.to_owned(), secret.to_owned()));
    let server = start_with(parent, name, durability, "", &keys)?;
    server.warm_up()?;
    Ok(server)
}

/// Starts a daemon with these streams and their ingest keys, and further lines of the table `live`; sends nothing.
pub(crate) fn start_with(
    parent: &Path,
    name: &str,
    durability: Durability,
    live: &str,
    keys: &[(String, String)],
) -> Result<Server> {
    let folder = parent.join(name);
    fs::create_dir_all(folder.join("data"))?;
    let (service, admin) = (free_address()?, free_address()?);
    let durability_name = durability.name();
    let data_dir = folder.join("data");
    let (mut tables, mut secrets, mut names) = (String::new(), String::new(), Vec::new());
    for (stream, secret) in keys {
        writeln!(tables, "[[streams]]\nname = {stream:?}")?;
        writeln!(
            secrets,
            "{{ name = {stream:?}, stream = {stream:?}, secret = {secret:?} }},"
        )?;
        names.push(stream);
    }
    let read_keys: String = READ_KEYS
        .iter()
        .enumerate()
        .map(|(number, secret)| {
            format!(
                "[[read_keys]]\nname = \"bench-{number}\"\nstreams = {names:?}\nsecret = {secret:?}\n\
                 requests_per_second = 1000000\n"
            )
        })
        .collect();
    let configuration = format!(
        "[server]\nlisten = \"{service}\"\n[admin]\nlisten = \"{admin}\"\ntoken = \"{ADMIN_TOKEN}\"\n\
         [storage]\ndata_dir = {data_dir:?}\ndurability = \"{durability_name}\"\n\
         [limits]\nrequests_per_second = 10000000\nburst = 10000000\n\
         [live]\nconnections_max = 200000\nconnections_per_key_max = 100000\n{live}\
         {tables}[[connectors]]\nname = \"bench\"\nkind = \"ingest\"\nkeys = [{secrets}]\n{read_keys}"
    );
    let command = daemon::command(&folder, &configuration)?;
    let child = Child::start(command, &folder)?;
    Server::new(durability.title(), Program::Headgate, service, child)
}

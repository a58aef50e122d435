//! What a connection costs that nothing is sent on: the server's memory with many of them, less that before.
//!
//! Called by the bench's main file. Memory of the kernel for sockets is not in it, on any server.
//!
//! **Invariant:** each figure comes from a server that was started for it, so nothing is reused that an earlier
//! case left behind.

use std::path::Path;
use std::thread::sleep;
use std::time::Duration;

use serde::Serialize;

use super::daemon::{self, Durability};
use super::item::IDLE_STREAM;
use super::nchan::Nchan;
use super::renderers::{Renderers, Wanted};
use super::server::{Server, Transport};
use super::usage::{Memory, memory};
use super::{Options, Program};
use crate::Result;
use crate::step;

/// Connections of the smaller case.
const FEW: usize = 1_000;

/// Rest before memory is read.
const REST: Duration = Duration::from_secs(2);

/// Memory of one server and transport.
#[derive(Debug, Serialize)]
pub(crate) struct IdleCase {
    /// The server's title.
    pub(crate) server: &'static str,
    #[serde(skip)]
    pub(crate) program: Program,
    /// How the renderers are connected.
    pub(crate) transport: Transport,
    /// Without any, bytes.
    pub(crate) before: Memory,
    /// With few and with many.
    pub(crate) steps: Vec<IdleStep>,
}

/// Memory with a number of connections.
#[derive(Clone, Copy, Debug, Serialize)]
pub(crate) struct IdleStep {
    /// How many.
    pub(crate) connections: usize,
    /// Of the whole server, bytes.
    pub(crate) memory: Memory,
    /// Of each connection, bytes.
    pub(crate) each: Memory,
}

/// All transports on all programs.
pub(crate) fn measure(
    options: &Options,
    folder: &Path,
    nchan: Option<&Nchan>,
) -> Result<Vec<IdleCase>> {
    let mut cases = Vec::new();
    for transport in [Transport::Sse, Transport::WebSocket] {
        let title = transport.title();
        let name = format!("memory-{title}");
        if options.serves(Program::Headgate) {
            step(&format!("memory: headgate, {title}"));
            // The first start compiles the plugins; what that leaves free in the heap would hide the connections.
            drop(daemon::start(folder, &name, Durability::Fsync)?);
            let server = daemon::start(folder, &name, Durability::Fsync)?;
            cases.push(case(&server, transport, options.connections)?);
        }
        if let Some(nchan) = nchan {
            step(&format!("memory: nchan, {title}"));
            let name = format!("{name}-nchan");
            let server = nchan.start(folder, &name, options.connections)?;
            cases.push(case(&server, transport, options.connections)?);
        }
    }
    Ok(cases)
}

fn case(server: &Server, transport: Transport, many: usize) -> Result<IdleCase> {
    sleep(REST);
    let before = memory(server)?;
    let (mut groups, mut connected, mut steps) = (Vec::new(), 0, Vec::new());
    for connections in [FEW.min(many), many] {
        if connections == connected {
            continue;
        }
        let wanted = Wanted {
            transport,
            count: connections - connected,
            asks: |_| IDLE_STREAM.to_owned(),
        };
        groups.push(Renderers::connect(server, &wanted, None)?);
        connected = connections;
        sleep(REST);
        let memory = memory(server)?;
        let each = |now: f64, before: f64| (now - before) / connections as f64;
        steps.push(IdleStep {
            connections,
            memory,
            each: Memory {
                rss: each(memory.rss, before.rss),
                pss: each(memory.pss, before.pss),
            },
        });
    }
    for group in groups {
        group.finish().map_err(|error| server.explain(error))?;
    }
    Ok(IdleCase {
        server: server.title,
        program: server.program,
        transport,
        before,
        steps,
    })
}

//! The functions of a guest for the connections of a sink.
//!
//! **Invariant**: after a failed call, its connections are closed: half a line must not remain in a connection.

use std::sync::Arc;
use std::time::Duration;

use wasmtime::component::Resource;

use super::Host;
use super::bindings::headgate::sink::wire::{self, Opened};
use crate::wire::{Connection, WAITING_BYTES_MAX};

#[expect(unreachable_pub, reason = "the bindings re-export it")]
pub struct GuestConnection {
    to: String,
    /// `None` in a trial that sends nothing.
    connection: Option<Arc<Connection>>,
}

impl Host {
    /// Closes the connections of the call, because half a line may be in them.
    pub(crate) fn close_taken(&mut self) {
        for to in std::mem::take(&mut self.taken) {
            if let Some(wire) = &self.wire {
                wire.close(&to);
            }
        }
    }
}

impl wire::Host for Host {}

impl wire::HostConnection for Host {
    async fn take(
        &mut self,
        to: String,
    ) -> wasmtime::Result<Result<(Resource<GuestConnection>, Opened), String>> {
        self.charge()?;
        let is_dry = (self.context.trial.as_ref()).is_some_and(|trial| !trial.sends());
        let (connection, opened) = match &self.wire {
            _ if is_dry => (None, Opened::Dry),
            None => wasmtime::bail!("there is no place to connect to here"),
            Some(wire) => {
                let wire = Arc::clone(wire);
                let sink = Arc::clone(&self.context.sink);
                match wire.take(&sink, &to).await {
                    Ok((connection, true)) => (Some(connection), Opened::Fresh),
                    Ok((connection, false)) => (Some(connection), Opened::Known),
                    Err(why) => return Ok(Err(why)),
                }
            }
        };
        self.taken.push(to.clone());
        let connection = self.table.push(GuestConnection { to, connection })?;
        Ok(Ok((connection, opened)))
    }

    async fn send(
        &mut self,
        connection: Resource<GuestConnection>,
        bytes: Vec<u8>,
    ) -> wasmtime::Result<Result<(), String>> {
        self.charge()?;
        let one = self.table.get(&connection)?;
        if let Some(trial) = &self.context.trial {
            let text = String::from_utf8_lossy(&bytes);
            trial.note_act(&format!("send to {}: {}", one.to, text.escape_debug()));
        }
        match one.connection.clone() {
            Some(connection) => Ok(connection.send(bytes).await),
            None => Ok(Ok(())),
        }
    }

    async fn receive(
        &mut self,
        connection: Resource<GuestConnection>,
        max: u32,
        wait: u32,
    ) -> wasmtime::Result<Result<Vec<u8>, String>> {
        self.charge()?;
        let max = (max as usize).min(WAITING_BYTES_MAX);
        let time_max = Duration::from_millis(wait.into());
        match self.table.get(&connection)?.connection.clone() {
            Some(connection) => Ok(connection.receive(max, time_max).await),
            None => Ok(Ok(Vec::new())),
        }
    }

    fn close(&mut self, connection: Resource<GuestConnection>) -> wasmtime::Result<()> {
        let to = self.table.get(&connection)?.to.clone();
        if let Some(wire) = &self.wire {
            wire.close(&to);
        }
        Ok(())
    }

    fn drop(&mut self, connection: Resource<GuestConnection>) -> wasmtime::Result<()> {
        self.table.delete(connection)?;
        Ok(())
    }
}

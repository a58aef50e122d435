//! The small durable state of a sink.
//!
//! **Invariant**: a guest reads its staged values before the stored ones, and stages no more than the limit of a sink.

use super::bindings::headgate::sink::state;
use super::{Host, stage};

/// Maximum keys of a sink's state, bytes of a key, and bytes of a value. It is stored in the pool's file, which all
/// sinks share.
const STATE_KEYS_MAX: u64 = 1_000;
const STATE_KEY_BYTES_MAX: usize = 512;
const STATE_VALUE_BYTES_MAX: usize = 65_536;

impl state::Host for Host {
    /// Staged values come first, because a guest would otherwise not see what it has just set.
    fn get(&mut self, key: String) -> wasmtime::Result<Option<Vec<u8>>> {
        let staged = self.earlier_state.iter().chain(&self.staged.state);
        let mut staged = staged.rev().filter(|(own, _)| *own == key);
        if let Some((_, value)) = staged.next() {
            return Ok(value.clone());
        }
        match &self.context.pool {
            Some(pool) => Ok(pool.sink_value(&self.context.sink, &key)?),
            None => Ok(None),
        }
    }

    fn set(&mut self, key: String, value: Vec<u8>) -> wasmtime::Result<()> {
        if key.is_empty() || key.len() > STATE_KEY_BYTES_MAX {
            wasmtime::bail!("a key of state has 1 to {STATE_KEY_BYTES_MAX} bytes");
        }
        if value.len() > STATE_VALUE_BYTES_MAX {
            wasmtime::bail!("a value of state has at most {STATE_VALUE_BYTES_MAX} bytes");
        }
        if self.get(key.clone())?.is_none() {
            let stored = match &self.context.pool {
                Some(pool) => pool.sink_keys(&self.context.sink)?,
                None => 0,
            };
            let staged = self.earlier_state.len() + self.staged.state.len();
            if stored + staged as u64 >= STATE_KEYS_MAX {
                wasmtime::bail!("the state has at most {STATE_KEYS_MAX} keys");
            }
        }
        self.hold(key.len() + value.len())?;
        stage(&mut self.staged.state, (key, Some(value)))
    }

    fn delete(&mut self, key: String) -> wasmtime::Result<()> {
        stage(&mut self.staged.state, (key, None))
    }
}

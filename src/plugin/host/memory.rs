//! The memory of a guest.
//!
//! **Invariant**: all memories and tables of an instance together stay within the limits, whatever their number.

use wasmtime::ResourceLimiter;

/// Counts the bytes of all memories of an instance together, and the entries of all its tables. A limit for each alone
/// would let a guest multiply it by their number.
#[derive(Debug)]
pub(crate) struct Memory {
    used: usize,
    table_entries: usize,
    pub(super) max: usize,
    /// A guest has requested more. The trap that follows does not name the limit.
    pub(super) refused: bool,
}

impl Memory {
    pub(super) fn new(max: usize) -> Self {
        Self {
            used: 0,
            table_entries: 0,
            max,
            refused: false,
        }
    }

    pub(crate) fn used(&self) -> usize {
        self.used
    }
}

/// Maximum entries of all tables of a guest. Tables use memory of the host that no other limit counts.
const TABLE_ENTRIES_MAX: usize = 100_000;
/// Maximum core instances, tables and memories of a guest. Each memory uses gigabytes of address space, used or not.
const INSTANCES_MAX: usize = 1_000;
const TABLES_MAX: usize = 1_000;
const MEMORIES_MAX: usize = 100;

impl ResourceLimiter for Memory {
    fn memory_growing(
        &mut self,
        current: usize,
        desired: usize,
        _: Option<usize>,
    ) -> wasmtime::Result<bool> {
        let grown = self.used + desired.saturating_sub(current);
        if grown > self.max {
            self.refused = true;
            return Ok(false);
        }
        self.used = grown;
        Ok(true)
    }

    fn table_growing(
        &mut self,
        current: usize,
        desired: usize,
        _: Option<usize>,
    ) -> wasmtime::Result<bool> {
        let grown = self.table_entries + desired.saturating_sub(current);
        if grown > TABLE_ENTRIES_MAX {
            return Ok(false);
        }
        self.table_entries = grown;
        Ok(true)
    }

    fn instances(&self) -> usize {
        INSTANCES_MAX
    }

    fn tables(&self) -> usize {
        TABLES_MAX
    }

    fn memories(&self) -> usize {
        MEMORIES_MAX
    }
}

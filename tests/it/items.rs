//! Items from the body to the pool: flattening, keys, updates, depth.

mod depth; // bodies that nest without end
mod flattened; // what becomes of the fields
mod history; // the values that fields had
mod identity; // which item is meant
mod update; // what an update leaves

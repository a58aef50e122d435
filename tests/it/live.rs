//! Renderers follow streams, and what may be read and removed beside that.
//!
//! Everything goes over real sockets, by both transports; `app/renderer.rs` holds every message to the protocol.

mod access; // who may follow: keys, tickets, origins, and when it ends
mod changes; // update and remove, at which rate, in which order; stale, fresh, heartbeat, bye
mod filtered; // key, where, fields
mod histories; // a property: after any history every renderer holds what the pool holds
mod items; // reading pages of items and single ones
mod limits; // what a read key does not see, by any route
mod removal; // DELETE, and that what was removed stays removed
mod resume; // coming back: from memory, from the file, after a restart, from nowhere
mod secrets; // no secret in a log or an answer
mod slow; // renderers that do not read
mod snapshot; // what a renderer is told first

//! Nodes that share one database: who lives, which of them runs the sinks, and how each follows the others.
//!
//! Every node accepts requests and shows the pool. One node runs the sinks ([`Candidate`]); the others wait for it to stop or
//! to fall silent. Each says every second that it lives ([`Members`]), applies what others have appended to the log
//! ([`Follower`]), and tells operators what it knows ([`Status`]). The one that runs the sinks also makes [`Bases`].
//!
//! Nodes never talk to each other. A node asks the log every 25 ms, and every 5 ms while there is something to read: an idle
//! node costs the database 40 small queries a second.
//!
//! # A change of the catalog
//!
//! It is in the log before it is answered. Requests are stored only by the newest catalog: each group names the newest change
//! that lookups of its node include, and the database refuses a group that names an older one. So a revoked key submits
//! nowhere once the call has returned. The call itself returns when every node that lives has said that its lookups include
//! the change, or after 1.5 s: a new key works everywhere at once. A screen sees nothing newer than the revocation of its
//! key, because both files follow one log, the catalog first.
//!
//! **Invariant**: the node that runs the sinks is known by the number of its claim. The log refuses what another number
//! settles, whatever a node believes.
#![deny(unsafe_code)]

mod bases;
mod candidate;
mod follower;
mod members;
mod status;
#[cfg(test)]
mod tests;

pub use bases::Bases;
pub use candidate::{Candidate, Role};
pub use follower::{Apply, Copy, Follower, KeepPlaces};
pub use members::{JoinError, Member, Members, RemoveError, Said, remove};
pub use status::{ClusterStatus, DatabaseStatus, NodeStatus, Status};

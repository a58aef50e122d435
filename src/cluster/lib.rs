//! Nodes that share one database: who lives, which of them runs the sinks, and how each follows the others.
//!
//! Every node accepts requests and shows the pool. One node runs the sinks ([`Candidate`]); the others wait for it to stop or
//! to fall silent. Each says every second that it lives ([`Members`]), applies what others have appended to the log
//! ([`Follower`]), and tells operators what it knows ([`Status`]). The one that runs the sinks also makes [`Bases`].
//!
//! Nodes never talk to each other. The database tells them that another one has committed something; a node also asks without
//! that, four times a second, or every 25 ms where nothing is told. While there is something to read it asks every 5 ms.
//!
//! The rates of keys are divided among the nodes ([`Shares`]).
//!
//! # A change of the catalog
//!
//! It is in the log before it is answered. Requests are stored only by the newest catalog: each group names the newest change
//! that lookups of its node include, and the database refuses a group that names an older one. So a revoked key submits
//! nowhere once the call has returned. The call itself returns when every node that lives has said that its lookups include
//! the change, or after 7 s: a new key works everywhere at once. A node that is frozen is held for dead after 6 s; one that
//! starts says where its copies are before it serves anybody. A screen sees nothing newer than the revocation of its
//! key, because both files follow one log, the catalog first.
//!
//! # Nodes of two versions
//!
//! Each node says which format of the log it knows. One that knows a newer one than the log has does not open its copies: it
//! says that it lives, follows, and waits until all nodes that live know that format. Then the log is raised, as `replica`
//! says. So older nodes are never shut out while they live, and a newer one never works on tables that it does not know. A
//! node that was frozen meanwhile, or begins late with an older version, meets the new format and ends.
//!
//! **Invariant**: the node that runs the sinks is known by the number of its claim. The log refuses what another number
//! settles, whatever a node believes.
#![deny(unsafe_code)]

mod bases;
mod candidate;
mod follower;
mod hand_over;
mod members;
mod shares;
mod status;
#[cfg(test)]
mod tests;

pub use bases::Bases;
pub use candidate::{Candidate, Role};
pub use follower::{Apply, Copy, Follower, KeepPlaces};
pub use hand_over::HandOver;
pub use members::{JoinError, Member, Members, RemoveError, Said, remove};
pub use shares::{PublishedShare, Shares, ToPublish, Wanted};
pub use status::{ClusterStatus, DatabaseStatus, NodeStatus, Status};

//! What the daemon leaves to others, and what it keeps for itself: who may read its files, how many it opens,
//! and what it can no longer do.

mod confined; // rights that it gives up
mod limits; // open files, and the connections that they allow
mod modes; // of the data folder and the files in it

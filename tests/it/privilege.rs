//! What the daemon leaves to others, and what it keeps for itself: who may read its files.

mod modes; // of the data folder and the files in it

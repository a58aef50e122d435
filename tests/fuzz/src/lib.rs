//! The parsers that strangers reach, each as a function of any bytes that panics where a promise is broken.
//!
//! The programs in `targets` hand libFuzzer's inputs over; README.md says how to run them. The sources under test are
//! those of the project, compiled alone, so that a build takes seconds.
//!
//! **Invariant**: each target asserts what must hold for every input, and nothing of it is known by reading the code
//! under test alone: it is compared with another parser, another way, or a secret that no input knows.

mod bodies;
mod flatten;
mod items;
mod request;
mod verify;

pub use bodies::bodies;
pub use flatten::flatten;
pub use items::items;
pub use verify::verify;

// Inside a module, so that each source finds its own files in the folder of its name; named at the root as they are
// in the project. A library shows nothing as unused.
#[path = "../../../src"]
pub mod project {
    pub mod error;
    pub mod item;
    pub mod sender;
    pub mod text;
    pub mod ingest {
        pub mod flatten;
    }
}

use project::*;

#[path = "../../../src/ingest/flatten/tests/reference.rs"]
mod reference;

//! The parsers that strangers, operators and plugins reach, each fed by libFuzzer through a function that panics where a
//! promise is broken.
//!
//! One program has all targets, and `HEADGATE_FUZZ_TARGET` names the one to run. `run` builds and starts it. Its tests give
//! each target what its corpus has, without libFuzzer.
//!
//! **Invariant**: each target asserts what must hold for every input, and nothing of it is known by reading the code
//! under test alone: it is compared with another parser, another way, or a secret that no input knows.
#![allow(unexpected_cfgs, reason = "tests/fuzz/rustc sets `fuzzing`")]
#![cfg_attr(fuzzing, no_main)]

mod batches;
mod bodies;
mod changes;
mod configuration;
#[cfg(test)]
mod corpus; // the inputs that are known, and changes of them, as tests
mod cursors;
mod flatten;
mod headers;
mod items;
mod presets;
mod request;
mod select;
mod verify;

use std::sync::LazyLock;

/// What is given an input, and panics where a promise is broken.
type Target = fn(&[u8]);

/// The targets, by name.
const TARGETS: [(&str, Target); 11] = [
    ("batches", batches::batches),
    ("bodies", bodies::bodies),
    ("changes", changes::changes),
    ("config", configuration::configuration),
    ("cursors", cursors::cursors),
    ("flatten", flatten::flatten),
    ("headers", headers::headers),
    ("items", items::items),
    ("presets", presets::presets),
    ("select", select::select),
    ("verify", verify::verify),
];

/// The target of this name.
fn target(name: &str) -> Target {
    let found = TARGETS.into_iter().find(|(known, _)| *known == name);
    let (_, target) = found.unwrap_or_else(|| {
        panic!("HEADGATE_FUZZ_TARGET is `{name}`, which is no target; README.md lists them")
    });
    target
}

static TARGET: LazyLock<Target> = LazyLock::new(|| {
    // The first panic counts, where it happens: libFuzzer shows the calls that led there.
    let report = std::panic::take_hook();
    std::panic::set_hook(Box::new(move |panic| {
        report(panic);
        std::process::abort();
    }));
    let name = std::env::var_os("HEADGATE_FUZZ_TARGET").unwrap_or_default();
    target(&name.to_string_lossy())
});

/// What libFuzzer calls with each input.
///
/// # Safety
///
/// `size` bytes at `data` can be read.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn LLVMFuzzerTestOneInput(data: *const u8, size: usize) -> i32 {
    // SAFETY: libFuzzer promises it.
    TARGET(unsafe { std::slice::from_raw_parts(data, size) });
    0
}

#[cfg(not(fuzzing))]
fn main() {
    panic!("built without libFuzzer; start it with tests/fuzz/run");
}

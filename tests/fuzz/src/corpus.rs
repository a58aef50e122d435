//! The corpus as tests: each target is given every input that its corpus has, and random changes of them.
//!
//! They run with what other tests are built of, in a few seconds. What no input of the corpus leads to is found by
//! libFuzzer, which sees the code that an input reaches: `run` starts it.
//!
//! **Invariant**: an input that breaks a promise is left in a file, and the failure says how to repeat it.

use std::fs;
use std::panic::catch_unwind;
use std::path::{Path, PathBuf};

use super::{TARGETS, target};

/// Inputs of a target, most of them changed.
const INPUTS: usize = 400;
/// As long as libFuzzer makes them.
const BYTES_MAX: usize = 4_096;
/// The first state of the random numbers, unless `HEADGATE_SEED` is set.
const SEED: u64 = 0x9e37_79b9_7f4a_7c15;

/// Random numbers that are the same in each run with one seed (xorshift).
struct Random(u64);

impl Random {
    /// `HEADGATE_SEED`, or the same as ever.
    fn seeded() -> Self {
        let given = std::env::var_os("HEADGATE_SEED");
        let given = given.and_then(|seed| seed.to_str()?.parse().ok());
        // 0 would stay 0.
        Self(given.unwrap_or(SEED).max(1))
    }

    /// A number below this one, which is not 0.
    fn below(&mut self, bound: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        usize::try_from(self.0 >> 16).expect("64 bits") % bound
    }

    fn byte(&mut self) -> u8 {
        u8::try_from(self.below(256)).expect("below 256")
    }
}

fn folder_of_the_corpora() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("corpus")
}

/// The inputs of a target, always in the same order.
fn corpus(name: &str) -> Vec<Vec<u8>> {
    let folder = fs::read_dir(folder_of_the_corpora().join(name)).expect("a corpus");
    let mut paths: Vec<PathBuf> = folder
        .map(|entry| entry.expect("an entry").path())
        .collect();
    paths.sort();
    let inputs = paths.iter().map(|path| fs::read(path).expect("a file"));
    inputs.collect()
}

/// An input of the corpus after one to four changes.
fn changed(corpus: &[Vec<u8>], random: &mut Random) -> Vec<u8> {
    let mut input = corpus[random.below(corpus.len())].clone();
    for _ in 0..=random.below(4) {
        let from = random.below(input.len() + 1);
        let to = input.len().min(from + 1 + random.below(16));
        match random.below(4) {
            0 => drop(input.drain(from..to)),
            1 => input[from..to]
                .iter_mut()
                .for_each(|byte| *byte = random.byte()),
            2 => input.insert(from, random.byte()),
            _ => {
                // What follows comes from another input.
                let other = &corpus[random.below(corpus.len())];
                input.truncate(from);
                input.extend_from_slice(&other[random.below(other.len() + 1)..]);
            }
        }
    }
    input.truncate(BYTES_MAX);
    input
}

/// Gives a target its corpus, and changed inputs until there were [`INPUTS`].
fn holds(name: &str) {
    let (target, corpus, mut random) = (target(name), corpus(name), Random::seeded());
    assert!(!corpus.is_empty(), "{name} has no corpus");
    let changes = INPUTS.saturating_sub(corpus.len());
    let changes: Vec<_> = (0..changes)
        .map(|_| changed(&corpus, &mut random))
        .collect();
    for input in corpus.iter().chain(&changes) {
        if catch_unwind(|| target(input)).is_ok() {
            continue;
        }
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../target/fuzz");
        let file = folder.join(format!("{name}-test"));
        fs::create_dir_all(&folder).expect("a folder");
        fs::write(&file, input).expect("a file");
        let file = file.display();
        panic!("an input breaks a promise, as said above; repeat it: tests/fuzz/run {name} {file}");
    }
}

#[test]
fn every_target_has_a_corpus_and_every_corpus_a_target() {
    let folders = fs::read_dir(folder_of_the_corpora()).expect("a folder");
    let folders = folders.map(|entry| entry.expect("an entry").file_name());
    let mut folders: Vec<_> = folders
        .map(|name| name.into_string().expect("a name"))
        .collect();
    folders.sort();
    assert_eq!(folders, TARGETS.map(|(name, _)| name));
}

/// A test for each target, so that they run side by side.
macro_rules! each_holds {
    ($($name:ident)*) => {
        $(
            #[test]
            fn $name() {
                holds(stringify!($name));
            }
        )*
    };
}

each_holds! { batches bodies changes config cursors flatten headers items presets select verify }

//! The test's side of `tests/fixtures/faults/faults.c`: a library between the daemon and the system that fails, kills,
//! delays, records, and shifts the wall clock.
//!
//! Built with `cc` once for all tests. Where there is no compiler the tests that need it are skipped and say so; with
//! `CI` set that is a failure.
//!
//! **Invariant**: the layout of the control file is the one of the library; it may be changed while the daemon runs.

use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;
use std::time::Duration;

use rustix::io::Errno;

use crate::process::{Ended, Process, skipped};
use crate::program::output;
use crate::setup::Setup;

/// Kinds of calls, to be added up.
pub(super) const OPEN: u64 = 1;
pub(super) const WRITE: u64 = 2;
pub(super) const SYNC: u64 = 4;
pub(super) const TRUNCATE: u64 = 8;
/// Removing and renaming.
pub(super) const NAME: u64 = 16;

const OWNER: u64 = 0;
const CLOCK_MS: u64 = 1;
const ARMED: u64 = 2;
const TIMES: u64 = 3;
const COUNTED: u64 = 4;
const HITS: u64 = 5;
const ACTION: u64 = 6;
const ERROR: u64 = 7;
const DELAY_US: u64 = 8;
const KINDS: u64 = 9;
const RECORDING: u64 = 10;
const RECORDS: u64 = 11;
const NAMES_AT: u64 = 96;
const FOLDER_AT: u64 = 1_024;
const LOG_AT: u64 = 2_048;
const CONTROL_BYTES: usize = 4_096;

/// What becomes of a call that was chosen.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Action {
    /// The process is killed before the call.
    Kill,
    /// The call fails.
    Fail(Errno),
    /// Half of what is written arrives; the next chosen calls fail.
    Short(Errno),
    /// The call takes longer.
    Delay(Duration),
    /// The flush fails, and everything that was written to the file since the last one is gone, as on a system that
    /// gives up its dirty pages.
    Drop(Errno),
}

/// One folder's library.
pub(crate) struct Preload {
    library: &'static Path,
    control: File,
    control_path: PathBuf,
    log: PathBuf,
}

impl Preload {
    /// Nothing happens until it is asked for. `None` where there is no compiler.
    pub(crate) fn new(test: &str, folder: &Setup) -> Option<Self> {
        let library = library(test)?;
        let control_path = folder.path("faults.control");
        let log = folder.path("faults.log");
        std::fs::write(&control_path, [0; CONTROL_BYTES]).expect("a control file");
        let control = File::options().read(true).write(true).open(&control_path);
        let preload = Self {
            library,
            control: control.expect("a control file"),
            control_path,
            log,
        };
        let parent = folder.data_dir().parent().expect("a folder around it");
        let parent = std::fs::canonicalize(parent).expect("a folder");
        let name = folder.data_dir().file_name().expect("a name");
        preload.text(FOLDER_AT, &parent.join(name).display().to_string());
        preload.text(LOG_AT, &preload.log.display().to_string());
        Some(preload)
    }

    /// From now on calls of these kinds on these files are counted, from 1.
    pub(super) fn watch(&self, names: &[&str], kinds: u64) {
        self.text(NAMES_AT, &names.join(":"));
        self.set(COUNTED, 0);
        self.set(HITS, 0);
        self.set(KINDS, kinds);
    }

    /// Chooses `times` of the counted calls, from the `first` one.
    pub(super) fn choose(&self, first: u64, times: u64, action: Action) {
        self.set(ARMED, 0);
        let (number, error, delay) = match action {
            Action::Kill => (1, 0, Duration::ZERO),
            Action::Fail(error) => (2, error.raw_os_error(), Duration::ZERO),
            Action::Short(error) => (3, error.raw_os_error(), Duration::ZERO),
            Action::Delay(delay) => (4, 0, delay),
            Action::Drop(error) => (5, error.raw_os_error(), Duration::ZERO),
        };
        self.set(ACTION, number);
        self.set(ERROR, u64::from(error.unsigned_abs()));
        self.set(
            DELAY_US,
            u64::try_from(delay.as_micros()).expect("a short time"),
        );
        self.set(TIMES, times);
        self.set(ARMED, first);
    }

    /// Every counted call from now on.
    pub(super) fn choose_all(&self, action: Action) {
        self.choose(1, u64::MAX, action);
    }

    /// No call is chosen any more.
    pub(super) fn choose_none(&self) {
        self.set(ARMED, 0);
    }

    /// How many calls were counted.
    pub(super) fn counted(&self) -> u64 {
        self.get(COUNTED)
    }

    /// How many chosen calls came.
    pub(super) fn hits(&self) -> u64 {
        self.get(HITS)
    }

    /// Every change of every file of the data folder is recorded, from the next start on.
    pub(super) fn record(&self) {
        self.set(RECORDING, 1);
    }

    /// How many changes and flushes were recorded so far.
    pub(super) fn records(&self) -> u64 {
        self.get(RECORDS)
    }

    /// What was recorded.
    pub(super) fn log(&self) -> &Path {
        &self.log
    }

    /// The daemon's wall clock, from now on, against the true one.
    pub(crate) fn shift_clock(&self, milliseconds: i64) {
        self.set(CLOCK_MS, milliseconds.cast_unsigned());
    }

    /// Starts the daemon under the library.
    pub(crate) fn try_start(&self, folder: &Setup) -> Result<Process, Ended> {
        let started = folder.spawn_as(self.command());
        assert_ne!(self.get(OWNER), 0, "the library was not loaded");
        started
    }

    /// What starts it.
    pub(super) fn command(&self) -> Command {
        let mut command = self.runs();
        command.args(["serve", "--config", "headgate.toml"]);
        command
    }

    /// The program under the library; its arguments follow.
    pub(crate) fn runs(&self) -> Command {
        self.set(OWNER, 0);
        let mut command = Command::new(env!("CARGO_BIN_EXE_headgate"));
        command
            .env("LD_PRELOAD", self.library)
            .env("FAULTS_CONTROL", &self.control_path);
        command
    }

    /// The same when nothing may go wrong.
    pub(crate) fn start(&self, folder: &Setup) -> Process {
        let started = self.try_start(folder);
        started.unwrap_or_else(|ended| panic!("the daemon did not start: {ended:?}"))
    }

    fn text(&self, at: u64, text: &str) {
        let mut bytes = text.as_bytes().to_vec();
        bytes.push(0);
        assert!(bytes.len() < 900, "{text}");
        let written = self.control.write_all_at(&bytes, at);
        written.expect("the control file");
    }

    fn set(&self, word: u64, value: u64) {
        let written = self.control.write_all_at(&value.to_ne_bytes(), word * 8);
        written.expect("the control file");
    }

    fn get(&self, word: u64) -> u64 {
        let mut bytes = [0; 8];
        let read = self.control.read_exact_at(&mut bytes, word * 8);
        read.expect("the control file");
        u64::from_ne_bytes(bytes)
    }
}

/// The library; compiles it the first time.
fn library(test: &str) -> Option<&'static Path> {
    static BUILT: OnceLock<Result<PathBuf, String>> = OnceLock::new();
    match BUILT.get_or_init(build) {
        Ok(path) => Some(path),
        Err(reason) => {
            assert!(std::env::var_os("CI").is_none(), "{test}: {reason}");
            skipped(test, reason);
            None
        }
    }
}

fn build() -> Result<PathBuf, String> {
    let source = concat!(
        env!("CARGO_MANIFEST_DIR"),
        "/tests/fixtures/faults/faults.c"
    );
    let into = PathBuf::from(env!("CARGO_TARGET_TMPDIR"));
    let built = into.join(format!("faults-{}.so", std::process::id()));
    let mut compiler = Command::new("cc");
    compiler
        .args(["-shared", "-fPIC", "-O2", "-Wall", "-Wextra", "-Werror"])
        .args(["-fvisibility=hidden", "-o"])
        .arg(&built)
        .arg(source)
        .args(["-ldl", "-lpthread"]);
    let output = output(&mut compiler).map_err(|error| format!("cc does not run: {error}"))?;
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{source} does not compile: {said}");
    // Another run of the tests may do the same now.
    let library = into.join("faults.so");
    std::fs::rename(&built, &library).map_err(|error| error.to_string())?;
    Ok(library)
}

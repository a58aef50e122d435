//! Compiling what a user supplies: in a process of its own, because a small file can ask for any amount of
//! memory and time.
//!
//! `Plugins` compiles through a [`Compiler`]. The other side is [`compile_standard_input`], which the verb
//! `compile-plugin` of the same program runs: the component comes as standard input, compiled code leaves as
//! standard output, which is a file of the cache.
//!
//! **Invariant**: the compiler takes no more memory and time than its limits, whatever it is given; one runs at a
//! time, and each is waited for. What was refused is not tried again while its bytes are the same.

use std::collections::HashMap;
use std::fs::File;
use std::io::{self, Read, Seek, Write};
use std::os::fd::AsFd;
use std::os::unix::fs::OpenOptionsExt;
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use rustix::process::{Resource, Rlimit, Signal, getrlimit, setrlimit};
use sha2::{Digest as _, Sha256};

use super::cache::{Digest, Unfinished};
use super::explain;
use base::clock;
#[cfg(target_os = "linux")]
use base::process;
use base::text::hex;

/// How often a running compiler is looked at.
const LOOK_EVERY: Duration = Duration::from_millis(5);
/// Bytes that are kept of what a compiler says.
const MESSAGE_BYTES_MAX: u64 = 2_048;
/// Bytes of compiled code: many times what components of the largest size come to.
const CODE_BYTES_MAX: u64 = 2 << 30;
/// What is said for want of memory: by Rust, by the system, by wasmtime.
const NO_MEMORY: [&str; 3] = [
    "memory allocation of",
    "Cannot allocate memory",
    "out of memory",
];
/// How long a component that reached a limit is not tried again: the machine may have been busy.
const BUSY_TIME: Duration = Duration::from_secs(600);

/// What compiling one file may take.
#[derive(Debug, Clone, Copy)]
pub struct CompileLimits {
    pub file_bytes_max: u64,
    /// Address space of the compiler, the program itself included.
    pub memory_bytes_max: u64,
    /// Seconds that it may compute.
    pub cpu_seconds_max: u64,
    /// Time until it is ended.
    pub time_max: Duration,
}

impl From<&settings::Plugins> for CompileLimits {
    fn from(settings: &settings::Plugins) -> Self {
        Self {
            file_bytes_max: settings.file_max_bytes,
            memory_bytes_max: settings.compile_memory_max_bytes,
            cpu_seconds_max: settings.compile_cpu_seconds,
            time_max: Duration::from_secs(settings.compile_timeout_seconds),
        }
    }
}

/// Why there is no compiled code.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Refused {
    /// The compiler's own words.
    #[error("{0}")]
    NotUsable(String),
    /// More memory than it is given.
    #[error(
        "compiling it takes more than {0} bytes of memory; if you trust it, raise plugins.compile_memory_max_bytes"
    )]
    Memory(u64),
    /// More computing than it is given.
    #[error(
        "compiling it takes more than {0} s of computing; if you trust it, raise plugins.compile_cpu_seconds"
    )]
    Cpu(u64),
    /// More time than it is given.
    #[error(
        "compiling it was not done after {0} s; if you trust it, raise plugins.compile_timeout_seconds"
    )]
    Time(u64),
    /// More code than any component makes.
    #[error("it comes to more than {CODE_BYTES_MAX} bytes of compiled code")]
    Code,
    /// It ended in another way.
    #[error("the compiler ended: {0}")]
    Ended(String),
}

impl Refused {
    /// Whether the same bytes may fare better later on.
    fn may_pass(&self) -> bool {
        !matches!(self, Self::NotUsable(_) | Self::Code)
    }
}

/// Why compiling failed.
#[derive(Debug)]
pub(super) enum Failed {
    Refused(Refused),
    /// The compiler could not be run.
    Io(io::Error),
    /// The daemon stops.
    Stopping,
}

impl From<io::Error> for Failed {
    fn from(error: io::Error) -> Self {
        Self::Io(error)
    }
}

/// A file that a user supplies, before anything of it was looked at.
pub(super) struct Source {
    pub(super) file: File,
    pub(super) digest: Digest,
}

impl Source {
    /// Opens a component and reads it once, for its digest.
    ///
    /// # Errors
    /// It cannot be read, is no regular file, or has more than `bytes_max` bytes.
    pub(super) fn open(path: &Path, bytes_max: u64) -> io::Result<Self> {
        // Without waiting: a pipe that nobody writes to is no component either.
        let nonblocking = rustix::fs::OFlags::NONBLOCK.bits();
        let mut file = std::fs::OpenOptions::new()
            .read(true)
            .custom_flags(i32::try_from(nonblocking).unwrap_or_default())
            .open(path)?;
        let metadata = file.metadata()?;
        if !metadata.is_file() {
            return Err(io::Error::other("it is not a regular file"));
        }
        let mut hasher = Sha256::new();
        let read = io::copy(&mut (&file).take(bytes_max + 1), &mut hasher)?;
        if read > bytes_max {
            return Err(io::Error::other(format!(
                "it has {} bytes, more than plugins.file_max_bytes = {bytes_max}",
                metadata.len()
            )));
        }
        file.rewind()?;
        Ok(Self {
            file,
            digest: hasher.finalize().into(),
        })
    }

    /// The bytes whose digest was taken.
    ///
    /// # Errors
    /// They cannot be read, or are others by now.
    pub(super) fn read(self, bytes_max: u64) -> io::Result<Vec<u8>> {
        let mut bytes = Vec::new();
        self.file.take(bytes_max).read_to_end(&mut bytes)?;
        if Sha256::digest(&bytes)[..] != self.digest {
            return Err(io::Error::other("it changed while it was read"));
        }
        Ok(bytes)
    }
}

/// Runs the program that compiles.
pub(super) struct Compiler {
    program: PathBuf,
    limits: CompileLimits,
    /// Held while a compiler runs. What was refused, and when.
    refused: Mutex<HashMap<Digest, (Instant, Refused)>>,
    stopping: AtomicBool,
}

impl Compiler {
    pub(super) fn new(program: &Path, limits: CompileLimits) -> Self {
        Self {
            program: program.to_owned(),
            limits,
            refused: Mutex::default(),
            stopping: AtomicBool::new(false),
        }
    }

    /// Ends the compiler that runs; no other is started.
    pub(super) fn stop(&self) {
        self.stopping.store(true, Ordering::Release);
    }

    /// Has a component compiled into a file of the cache. `done` is asked first, when it is this
    /// component's turn: whether another lane did it meanwhile.
    pub(super) fn compile(
        &self,
        source: Source,
        done: impl Fn() -> bool,
        code: impl FnOnce() -> io::Result<Unfinished>,
    ) -> Result<(), Failed> {
        let mut refused = self.refused.lock().unwrap_or_else(PoisonError::into_inner);
        if done() {
            return Ok(());
        }
        refused.retain(|_, (at, why)| !why.may_pass() || at.elapsed() < BUSY_TIME);
        let digest = source.digest;
        if let Some((_, why)) = refused.get(&digest) {
            return Err(Failed::Refused(why.clone()));
        }
        let code = code()?;
        let mut child = Running(self.start(source, &code)?);
        let status = self.wait(&mut child.0)?;
        let verdict = self.verdict(status, &mut child.0);
        if let Err(Failed::Refused(why)) = &verdict {
            refused.insert(digest, (Instant::now(), why.clone()));
        }
        verdict?;
        Ok(code.finish()?)
    }

    fn start(&self, source: Source, code: &Unfinished) -> io::Result<Child> {
        Command::new(&self.program)
            .arg("compile-plugin")
            .args(["--sha256", &hex(&source.digest)])
            .args(["--file-max-bytes", &self.limits.file_bytes_max.to_string()])
            .args([
                "--memory-max-bytes",
                &self.limits.memory_bytes_max.to_string(),
            ])
            .args(["--cpu-seconds", &self.limits.cpu_seconds_max.to_string()])
            .env_clear()
            .stdin(source.file)
            .stdout(code.file().try_clone()?)
            .stderr(Stdio::piped())
            .spawn()
    }

    /// How it ended; none if it had to be ended.
    fn wait(&self, child: &mut Child) -> Result<Option<ExitStatus>, Failed> {
        let started = Instant::now();
        loop {
            if let Some(status) = child.try_wait()? {
                return Ok(Some(status));
            }
            if self.stopping.load(Ordering::Acquire) {
                return Err(Failed::Stopping);
            }
            if started.elapsed() >= self.limits.time_max {
                return Ok(None);
            }
            clock::sleep_on_own_thread(LOOK_EVERY);
        }
    }

    fn verdict(&self, status: Option<ExitStatus>, child: &mut Child) -> Result<(), Failed> {
        let Some(status) = status else {
            return Err(Failed::Refused(Refused::Time(
                self.limits.time_max.as_secs(),
            )));
        };
        if status.success() {
            return Ok(());
        }
        let mut said = Vec::new();
        if let Some(stderr) = child.stderr.take() {
            // It has ended: all of it is there.
            let _ = stderr.take(MESSAGE_BYTES_MAX).read_to_end(&mut said);
        }
        let said = String::from_utf8_lossy(&said).trim().to_owned();
        let words = said.trim_start_matches("error: ").to_owned();
        let no_memory = NO_MEMORY.iter().any(|words| said.contains(words));
        let signal = status.signal().and_then(Signal::from_named_raw);
        Err(Failed::Refused(match (signal, status.code()) {
            (Some(Signal::XCPU), _) => Refused::Cpu(self.limits.cpu_seconds_max),
            (Some(Signal::XFSZ), _) => Refused::Code,
            _ if no_memory => Refused::Memory(self.limits.memory_bytes_max),
            (_, Some(code)) if code == i32::from(NOT_USABLE) => Refused::NotUsable(words),
            (_, Some(1)) => return Err(Failed::Io(io::Error::other(words))),
            _ => Refused::Ended(format!("{status} {said}").trim_end().to_owned()),
        }))
    }
}

/// A compiler; when dropped it has ended, and was waited for.
struct Running(Child);

impl Drop for Running {
    fn drop(&mut self) {
        // Nothing to do where it has ended already.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// The compiler itself: takes its own limits on, compiles standard input to standard output. `sha256` is the digest
/// that the component must have.
///
/// # Errors
/// Reaching a limit ends the process instead.
pub fn compile_standard_input(limits: &CompileLimits, sha256: &str) -> Result<(), CompilerError> {
    confine(limits)?;
    let input = Source {
        file: handle(io::stdin().as_fd())?,
        digest: settings::digest_of_hex(sha256)
            .ok_or_else(|| io::Error::other("the digest is not 64 hex digits"))?,
    };
    let bytes = input.read(limits.file_bytes_max)?;
    let engine = super::engine().map_err(|error| io::Error::other(format!("{error:#}")))?;
    let code = compile(&engine, &bytes).map_err(CompilerError::NotUsable)?;
    Ok(handle(io::stdout().as_fd())?.write_all(&code)?)
}

/// What a compiler says before it ends.
#[derive(Debug, thiserror::Error)]
pub enum CompilerError {
    /// No component. Whoever waits is told by the exit code [`NOT_USABLE`].
    #[error("{0}")]
    NotUsable(String),
    /// Input, output, or the limits.
    #[error(transparent)]
    Io(#[from] io::Error),
}

/// The exit code that says that the component is to blame.
pub const NOT_USABLE: u8 = 2;

/// Compiled code of a component, for the cache.
pub(super) fn compile(engine: &wasmtime::Engine, bytes: &[u8]) -> Result<Vec<u8>, String> {
    if wasmtime::Engine::detect_precompiled(bytes).is_some() {
        return Err("it is compiled code, which is never loaded; name the component itself".into());
    }
    if let Some(why) = explain::of_bytes(bytes) {
        return Err(why.into());
    }
    engine
        .precompile_component(bytes)
        .map_err(|error| format!("{error:#}"))
}

/// Takes the limits on. Nothing that runs from here on could lift them: nothing of the component runs at all.
fn confine(limits: &CompileLimits) -> io::Result<()> {
    let at_most = |resource, most: u64| {
        let now = getrlimit(resource);
        let limit = Rlimit {
            current: Some(now.current.map_or(most, |now| now.min(most))),
            maximum: now.maximum,
        };
        setrlimit(resource, limit)
    };
    at_most(Resource::Core, 0)?;
    at_most(Resource::Fsize, CODE_BYTES_MAX)?;
    at_most(Resource::As, limits.memory_bytes_max)?;
    at_most(Resource::Cpu, limits.cpu_seconds_max)?;
    // Whoever started it comes first, and does not outlive it.
    let _ = rustix::process::nice(10);
    #[cfg(target_os = "linux")]
    {
        rustix::process::set_parent_process_death_signal(Some(Signal::KILL))?;
        let _ = std::fs::write("/proc/self/oom_score_adj", "1000");
        process::confine_compiler();
    }
    Ok(())
}

/// The file behind a standard stream, without the stream's buffer.
fn handle(stream: std::os::fd::BorrowedFd<'_>) -> io::Result<File> {
    Ok(File::from(stream.try_clone_to_owned()?))
}

//! Compiles the components of users in a separate process, because a small file can require any amount of memory and
//! time.
//!
//! `Plugins` compiles through a [`Compiler`]. The verb `compile-plugin` of the same program runs
//! [`compile_standard_input`] in the other process: the component is its standard input, and a file of the cache is its
//! standard output.
//!
//! **Invariant**: the compiler never exceeds its limits of memory and time. One compiler runs at a time, and its end is
//! always awaited. A rejected component is not compiled again while its bytes are the same.

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

/// Interval at which a running compiler is checked. The standard library has no wait with a time limit.
const LOOK_EVERY: Duration = Duration::from_millis(5);
/// Maximum bytes of a compiler's messages. They are shown to an operator, and a hostile component could cause any
/// number.
const MESSAGE_BYTES_MAX: u64 = 2_048;
/// Maximum bytes of compiled code: a large multiple of the code of the largest components.
const CODE_BYTES_MAX: u64 = 2 << 30;
/// Messages of Rust, the system and wasmtime when memory is exhausted. They are compared as text, because the process
/// ends in several ways when its memory is exhausted.
const NO_MEMORY: [&str; 3] = [
    "memory allocation of",
    "Cannot allocate memory",
    "out of memory",
];
/// Time before a component that reached a limit is compiled again: the machine may have been busy.
const BUSY_TIME: Duration = Duration::from_secs(600);

/// Limits for compiling one file.
#[derive(Debug, Clone, Copy)]
pub struct CompileLimits {
    pub file_bytes_max: u64,
    /// Address space of the compiler, including the program itself.
    pub memory_bytes_max: u64,
    /// Seconds of computing time.
    pub cpu_seconds_max: u64,
    /// Time until the compiler is ended.
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
    /// The message of the compiler.
    #[error("{0}")]
    NotUsable(String),
    /// It needs more memory than the limit.
    #[error(
        "compiling it takes more than {0} bytes of memory; if you trust it, raise plugins.compile_memory_max_bytes"
    )]
    Memory(u64),
    /// It needs more computing time than the limit.
    #[error(
        "compiling it takes more than {0} s of computing; if you trust it, raise plugins.compile_cpu_seconds"
    )]
    Cpu(u64),
    /// It needs more time than the limit.
    #[error(
        "compiling it was not done after {0} s; if you trust it, raise plugins.compile_timeout_seconds"
    )]
    Time(u64),
    /// Its code is larger than that of any real component.
    #[error("it comes to more than {CODE_BYTES_MAX} bytes of compiled code")]
    Code,
    /// The compiler ended in another way.
    #[error("the compiler ended: {0}")]
    Ended(String),
}

impl Refused {
    /// Whether compiling the same bytes later may succeed. A busy machine may reach a limit that an idle one does not.
    fn may_pass(&self) -> bool {
        !matches!(self, Self::NotUsable(_) | Self::Code)
    }
}

/// Why compiling failed.
#[derive(Debug)]
pub(super) enum Failed {
    Refused(Refused),
    /// The compiler could not be started.
    Io(io::Error),
    /// The daemon stops.
    Stopping,
}

impl From<io::Error> for Failed {
    fn from(error: io::Error) -> Self {
        Self::Io(error)
    }
}

/// A file of a user, before any of it was parsed.
pub(super) struct Source {
    pub(super) file: File,
    pub(super) digest: Digest,
}

impl Source {
    /// Opens a component and reads it once, for its digest. The digest comes first, so that the cache and a pin are
    /// compared before anything is parsed.
    ///
    /// # Errors
    /// It cannot be read, is not a regular file, or has more than `bytes_max` bytes.
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

    /// The bytes that have the digest. The file is open in between, and its owner can write to it.
    ///
    /// # Errors
    /// They cannot be read, or have changed.
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
    /// Locked while a compiler runs. Rejected components, and when they were rejected. Without them, each restart of a
    /// sink would compile the same component again.
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

    /// Ends the running compiler and starts no other. A shutdown would otherwise wait for as long as the limits allow.
    pub(super) fn stop(&self) {
        self.stopping.store(true, Ordering::Release);
    }

    /// Compiles a component into a file of the cache. When it is the component's turn, `done` is asked first whether
    /// another lane has compiled it meanwhile.
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

    /// The environment is empty, so that the compiler gets no secret.
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

    /// Its exit status; `None` if it had to be ended.
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

/// A running compiler; dropping it ends it and waits for its end. Otherwise an error in between would leave a process.
struct Running(Child);

impl Drop for Running {
    fn drop(&mut self) {
        // Nothing to do where it has ended already.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// The compiler itself: applies its limits, and compiles standard input to standard output. The component must have the
/// digest `sha256`. The digest is checked again, because the file may have changed since the daemon read it.
///
/// # Errors
/// The process ends instead if it reaches a limit.
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

/// The result of a compiler.
#[derive(Debug, thiserror::Error)]
pub enum CompilerError {
    /// Not a component. The exit code [`NOT_USABLE`] reports it.
    #[error("{0}")]
    NotUsable(String),
    /// An error of input, output, or the limits.
    #[error(transparent)]
    Io(#[from] io::Error),
}

/// The exit code for a component that cannot be used. It differs from 1, so that a fault of the compiler does not count
/// as one of the component.
pub const NOT_USABLE: u8 = 2;

/// Compiled code of a component, for the cache. Compiled code is refused, because it would run unchecked.
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

/// Applies the limits. No later code can lift them: no code of the component runs at all.
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

/// The file of a standard stream, without the stream's buffer.
fn handle(stream: std::os::fd::BorrowedFd<'_>) -> io::Result<File> {
    Ok(File::from(stream.try_clone_to_owned()?))
}

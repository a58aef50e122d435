//! Programs that tests run: to their end, or line by line.
//!
//! **Invariant**: no wait for a program is without a bound. One that does not end is killed with everything that it
//! started, and what it said stands in the failure.
#![expect(
    clippy::disallowed_methods,
    reason = "blocking helpers around a child process: they poll"
)]

use std::io::{self, BufRead, BufReader, Read, Write as _};
use std::os::unix::process::CommandExt as _;
use std::process::{Child, Command, ExitStatus, Output, Stdio};
use std::sync::{Arc, Mutex, mpsc};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process_group};

/// Longer than any program takes that tests run, on a busy machine.
pub(crate) const RUN_MAX: Duration = Duration::from_secs(120);
/// The same for what compiles or installs.
pub(crate) const BUILD_MAX: Duration = Duration::from_secs(900);

/// What a command prints, at its end.
pub(crate) fn output(command: &mut Command) -> io::Result<Output> {
    output_within(RUN_MAX, command, b"")
}

/// The same within another time, with this on its standard input.
pub(crate) fn output_within(
    time_max: Duration,
    command: &mut Command,
    input: &[u8],
) -> io::Result<Output> {
    let stdin = match input.is_empty() {
        true => Stdio::null(),
        false => Stdio::piped(),
    };
    let mut child = command
        .stdin(stdin)
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .process_group(0)
        .spawn()?;
    let group = Pid::from_child(&child);
    let stdout = Heard::from(child.stdout.take().expect("piped"));
    let stderr = Heard::from(child.stderr.take().expect("piped"));
    if let Some(mut stdin) = child.stdin.take() {
        let input = input.to_owned();
        std::thread::spawn(move || stdin.write_all(&input));
    }
    let deadline = Instant::now() + time_max;
    let ended = stdout.ends_before(deadline) && stderr.ends_before(deadline);
    let left = deadline.saturating_duration_since(Instant::now());
    let status = match ended {
        true => ends_within(left, &mut child),
        false => None,
    };
    let Some(status) = status else {
        let _ = kill_process_group(group, Signal::KILL);
        let _ = child.wait();
        let said = [stdout.take(), stderr.take()].concat();
        let said = String::from_utf8_lossy(&said);
        panic!("{command:?} still ran after {time_max:?}; it said:\n{said}");
    };
    Ok(Output {
        status,
        stdout: stdout.take(),
        stderr: stderr.take(),
    })
}

/// How a child ends that was told to.
#[track_caller]
pub(crate) fn wait(child: &mut Child) -> ExitStatus {
    let status = ends_within(RUN_MAX, child);
    status.unwrap_or_else(|| panic!("a child still ran after {RUN_MAX:?}"))
}

/// How a child ends; `None` if it had to be killed after this time.
pub(crate) fn ends_within(time_max: Duration, child: &mut Child) -> Option<ExitStatus> {
    let deadline = Instant::now() + time_max;
    loop {
        let status = child.try_wait().expect("a child");
        if status.is_some() {
            return status;
        }
        if Instant::now() >= deadline {
            child.kill().expect("a child");
            child.wait().expect("a child");
            return None;
        }
        std::thread::sleep(Duration::from_millis(1));
    }
}

/// What has come through a pipe.
struct Heard {
    bytes: Arc<Mutex<Vec<u8>>>,
    ended: mpsc::Receiver<()>,
}

impl Heard {
    fn from(mut pipe: impl Read + Send + 'static) -> Self {
        let bytes = Arc::new(Mutex::new(Vec::new()));
        let (end, ended) = mpsc::channel();
        let heard = Arc::clone(&bytes);
        std::thread::spawn(move || {
            let mut chunk = [0; 16 << 10];
            while let Ok(count @ 1..) = pipe.read(&mut chunk) {
                let mut heard = heard.lock().expect("no panic while held");
                heard.extend_from_slice(&chunk[..count]);
            }
            let _ = end.send(());
        });
        Self { bytes, ended }
    }

    fn ends_before(&self, deadline: Instant) -> bool {
        let left = deadline.saturating_duration_since(Instant::now());
        self.ended.recv_timeout(left).is_ok()
    }

    fn take(&self) -> Vec<u8> {
        std::mem::take(&mut self.bytes.lock().expect("no panic while held"))
    }
}

/// The lines that a child prints, as they come. They are read on and on, so that its pipe is never full.
#[derive(Debug)]
pub(crate) struct Lines(mpsc::Receiver<String>);

impl Lines {
    /// Of a pipe.
    pub(crate) fn of(pipe: impl Read + Send + 'static) -> Self {
        let (print, printed) = mpsc::channel();
        std::thread::spawn(move || {
            let lines = BufReader::new(pipe).lines();
            lines
                .map_while(Result::ok)
                .for_each(|line| drop(print.send(line)));
        });
        Self(printed)
    }

    /// The next line; `None` at the end, or if none comes for so long.
    pub(crate) fn next_within(&self, time_max: Duration) -> Option<String> {
        self.0.recv_timeout(time_max).ok()
    }
}

impl Iterator for Lines {
    type Item = String;

    /// Fails if nothing comes for long.
    fn next(&mut self) -> Option<String> {
        match self.0.recv_timeout(RUN_MAX) {
            Ok(line) => Some(line),
            Err(mpsc::RecvTimeoutError::Disconnected) => None,
            Err(mpsc::RecvTimeoutError::Timeout) => panic!("no line for {RUN_MAX:?}"),
        }
    }
}

//! Starting the daemon of a test: in this process, or as a process of its own.
//!
//! **Invariant**: nothing of the environment of the tests reaches the daemon's configuration.

use std::fs::File;
use std::process::{Child, Command, Stdio};

use headgate::daemon::DaemonError;

use super::Setup;
use crate::app::TestApp;
use crate::process::{Ended, Process};

impl Setup {
    /// Starts the daemon in this process.
    pub(crate) async fn start(self) -> TestApp {
        self.nodes().iter().for_each(Self::spare_compiling);
        let started = TestApp::of(self).await;
        started.unwrap_or_else(|error| panic!("the daemon starts: {error}"))
    }

    /// Why the daemon does not start in this process.
    pub(crate) async fn refused(self) -> DaemonError {
        let started = TestApp::of(self).await;
        started.err().expect("no start")
    }

    /// Starts the daemon as a process of its own and waits until it listens.
    pub(crate) fn spawn(&self) -> Process {
        let started = self.try_spawn();
        started.unwrap_or_else(|ended| panic!("the daemon did not start: {ended:?}"))
    }

    /// The same; [`Ended`] if it ends instead of listening.
    pub(crate) fn try_spawn(&self) -> Result<Process, Ended> {
        self.spare_compiling();
        let mut command = Command::new(env!("CARGO_BIN_EXE_headgate"));
        command.args(["serve", "--config", "headgate.toml"]);
        self.spawn_as(command)
    }

    /// Runs `command`, which becomes the program, and waits until it listens. Relative paths start in the folder.
    pub(crate) fn spawn_as(&self, command: Command) -> Result<Process, Ended> {
        let process = Process::watch(self.child(command), self.clone())?;
        self.wait_for_sinks(&process);
        Ok(process)
    }

    /// The same as [`spawn`](Self::spawn), by a command that becomes the program.
    pub(crate) fn spawn_by(&self, command: Command) -> Process {
        self.spare_compiling();
        let started = self.spawn_as(command);
        started.unwrap_or_else(|ended| panic!("the daemon did not start: {ended:?}"))
    }

    /// Starts the daemon as a process of its own, wherever it listens, and waits for nothing.
    pub(crate) fn spawn_child(&self) -> Child {
        self.spare_compiling();
        let mut command = Command::new(env!("CARGO_BIN_EXE_headgate"));
        command.args(["serve", "--config", "headgate.toml"]);
        self.spawn_child_as(command)
    }

    /// The same with this command.
    pub(crate) fn spawn_child_as(&self, command: Command) -> Child {
        self.child(command)
    }

    /// The same with its output sent elsewhere.
    pub(crate) fn spawn_to(&self, stdout: Stdio, stderr: Stdio) -> Child {
        self.spare_compiling();
        let mut command = Command::new(env!("CARGO_BIN_EXE_headgate"));
        command.args(["serve", "--config", "headgate.toml"]);
        self.child_to(command, stdout, stderr)
    }

    fn child(&self, command: Command) -> Child {
        self.child_to(command, Stdio::piped(), standard_error())
    }

    fn child_to(&self, mut command: Command, stdout: Stdio, stderr: Stdio) -> Child {
        assert!(self.write_stall_max.is_none(), "no setting of the program");
        self.write();
        for (name, _) in std::env::vars_os() {
            if name.to_string_lossy().starts_with("HEADGATE_") {
                command.env_remove(name);
            }
        }
        command
            .current_dir(self.folder.path())
            .stdin(Stdio::null())
            .stdout(stdout)
            .stderr(stderr)
            .spawn()
            .expect("the program starts")
    }
}

/// Where daemons write their logs: to the test, or into the file or device that `HEADGATE_FAULT_LOG` names.
fn standard_error() -> Stdio {
    match std::env::var_os("HEADGATE_FAULT_LOG") {
        Some(path) => {
            let log = File::options().append(true).open(path);
            log.expect("a file that can be written").into()
        }
        None => Stdio::piped(),
    }
}

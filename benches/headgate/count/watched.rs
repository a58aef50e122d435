//! A daemon under valgrind.
//!
//! **Invariant:** only what happens inside [`Watched::count`] is counted.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use super::tally::Tally;
use super::work;
use crate::Result;
use crate::child::{Child, free_address};
use crate::daemon::{self, ADMIN_TOKEN};

/// Longest wait for a dump.
const DUMP_WAIT: Duration = Duration::from_secs(60);

/// Valgrind makes one of a hundred instructions, and a compiler that runs beside it takes half of those.
const START_WAIT: Duration = Duration::from_secs(300);

pub(crate) struct Watched {
    child: Child,
    service: SocketAddr,
    dumps: PathBuf,
    counted: u32,
}

impl Watched {
    /// Starts one with its data in `folder`, another program if one is named, and waits until it is ready.
    pub(crate) fn start(folder: &Path, program: Option<&Path>) -> Result<Self> {
        let (service, admin) = (free_address()?, free_address()?);
        let data = folder.join("data");
        std::fs::create_dir_all(&data)?;
        // Valgrind makes system calls of its own.
        let configuration = format!(
            "[server]\nlisten = \"{service}\"\n[admin]\nlisten = \"{admin}\"\ntoken = \"{ADMIN_TOKEN}\"\n\
             [storage]\ndata_dir = {data:?}\n[system]\nconfine = false\n[runtime]\nworker_threads = 1\n\
             [limits]\nrequests_per_second = 10000000\nburst = 10000000\n{}",
            work::configuration()
        );
        let plain = daemon::command(folder, &configuration)?;
        let program = match program {
            Some(program) => program.canonicalize()?,
            None => PathBuf::from(plain.get_program()),
        };
        let dumps = folder.join("counts");
        let mut command = Command::new("valgrind");
        command
            .args(["--tool=callgrind", "--instr-atstart=no", "--quiet"])
            .arg(format!("--callgrind-out-file={}", dumps.display()))
            .arg(program)
            .args(plain.get_args());
        for (name, value) in plain.get_envs() {
            match value {
                Some(value) => command.env(name, value),
                None => command.env_remove(name),
            };
        }
        let child = Child::start(command, folder)
            .map_err(|error| format!("failed to start valgrind ({error}); is it installed?"))?;
        let mut watched = Self {
            child,
            service,
            dumps,
            counted: 0,
        };
        watched.wait_until_ready()?;
        Ok(watched)
    }

    fn wait_until_ready(&mut self) -> Result<()> {
        self.child.wait_long_for(self.service, START_WAIT)?;
        let begun = Instant::now();
        while begun.elapsed() < START_WAIT {
            if crate::http::get_json(self.service, "/readyz", ADMIN_TOKEN).is_ok() {
                return Ok(());
            }
            std::thread::sleep(Duration::from_millis(50));
        }
        Err((self.child).explain("the daemon under valgrind does not become ready"))
    }

    /// Where it takes requests.
    pub(crate) fn service(&self) -> SocketAddr {
        self.service
    }

    /// What is executed while `work` runs.
    pub(crate) fn count(&mut self, work: impl FnOnce() -> Result<()>) -> Result<Tally> {
        self.control(&["-i", "on"])?;
        work().map_err(|error| self.child.explain(error))?;
        self.control(&["-i", "off"])?;
        self.control(&["-d"])?;
        self.counted += 1;
        let mut name = self.dumps.clone().into_os_string();
        name.push(format!(".{}", self.counted));
        let dump = PathBuf::from(name);
        let begun = Instant::now();
        while begun.elapsed() < DUMP_WAIT {
            // It is written in one go, and ends so.
            if std::fs::read_to_string(&dump).is_ok_and(|text| text.contains("\ntotals: ")) {
                return Tally::read(&dump);
            }
            std::thread::sleep(Duration::from_millis(50));
        }
        Err(format!("valgrind has not written {}", dump.display()).into())
    }

    fn control(&self, arguments: &[&str]) -> Result<()> {
        let output = Command::new("callgrind_control")
            .args(arguments)
            .arg(self.child.id().to_string())
            .output()?;
        match output.status.success() {
            true => Ok(()),
            false => Err(format!(
                "callgrind_control {arguments:?}: {}",
                String::from_utf8_lossy(&output.stderr)
            )
            .into()),
        }
    }

    /// Ends it.
    pub(crate) fn stop(self) -> Result<()> {
        self.child.stop().map(|_| ())
    }
}

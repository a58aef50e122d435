//! Starts nginx with nchan, a push server of long standing, to stand beside the daemon.
//!
//! Called by the measurements that compare. What it does is less: a published message is kept in memory only, it is
//! neither checked nor stored, and there is no pool to take a snapshot from.
//!
//! **Invariant:** one process serves everything (`master_process off`), so its counters are the whole server's, and
//! nothing of a system-wide nginx is read or written.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use super::Program;
use super::server::Server;
use crate::Result;
use crate::child::{Child, free_address};
use crate::options::TARGET_TMP;

/// Where the executable is, if not in `PATH`.
const NGINX: &str = "/usr/sbin/nginx";

/// Where modules are, if nginx does not say.
const MODULES: &str = "/usr/lib/nginx/modules";

/// The configuration that the peer of the same name starts with.
const CONFIGURATION: &str = include_str!("../../peers/nchan/nginx.conf");

/// What it is and what it promises, for the reader of the tables.
pub(crate) const ABOUT: &str = "nchan: in memory only and not durable, a message published is lost with the process; \
     no checks, no pool, no snapshot, no conflation";

/// An nginx that has the module.
#[derive(Clone, Debug)]
pub(crate) struct Nchan {
    program: PathBuf,
    module: PathBuf,
    /// `nginx/1.22.1`
    pub(crate) version: String,
}

impl Nchan {
    /// Looks for it on the system, then where the peer of the same name is installed; the error says what is missing.
    pub(crate) fn find() -> Result<Self> {
        let installed = Path::new(TARGET_TMP).with_file_name("peers/nchan");
        let own = installed.join(NGINX.trim_start_matches('/'));
        let of_system = ["nginx", NGINX].iter().map(PathBuf::from).collect();
        Self::find_in(Path::new("/"), of_system).or_else(|error| {
            Self::find_in(&installed, vec![own])
                .map_err(|_| format!("{error}, or run benches/peers/nchan/run").into())
        })
    }

    /// The first of `programs` that can be started, with the module below `root`.
    fn find_in(root: &Path, programs: Vec<PathBuf>) -> Result<Self> {
        let (program, output) = programs
            .into_iter()
            .find_map(|program| {
                let output = Command::new(&program).arg("-V").output().ok()?;
                Some((program, output))
            })
            .ok_or("there is no nginx in PATH and none at /usr/sbin/nginx: install nginx and libnginx-mod-nchan")?;
        let about = String::from_utf8_lossy(&output.stderr);
        let word_after = |prefix: &str| {
            about
                .split_ascii_whitespace()
                .find_map(|word| word.strip_prefix(prefix))
        };
        let folder = word_after("--modules-path=").unwrap_or(MODULES);
        let module = root
            .join(folder.trim_start_matches('/'))
            .join("ngx_nchan_module.so");
        if !module.is_file() {
            return Err(format!(
                "nginx has no module nchan at {}; Debian has it in libnginx-mod-nchan",
                module.display()
            )
            .into());
        }
        Ok(Self {
            program,
            version: format!("nginx/{}", word_after("nginx/").unwrap_or("?")),
            module,
        })
    }

    /// Starts one in a new folder `name` in `parent`, for up to `connections` renderers.
    pub(crate) fn start(&self, parent: &Path, name: &str, connections: usize) -> Result<Server> {
        let folder = parent.join(name);
        fs::create_dir_all(&folder)?;
        let address = free_address()?;
        let config = folder.join("nginx.conf");
        fs::write(&config, configuration(&self.module, address, connections))?;
        let mut command = Command::new(&self.program);
        command
            .arg("-p")
            .arg(&folder)
            .arg("-c")
            .arg(&config)
            .args(["-e", "stderr"]);
        let child = Child::start(command, &folder)?;
        let server = Server::new("nchan, memory", Program::Nchan, address, child)?;
        server.warm_up()?;
        Ok(server)
    }
}

fn configuration(module: &Path, address: std::net::SocketAddr, connections: usize) -> String {
    CONFIGURATION
        .replace("@MODULE@", &module.display().to_string())
        .replace("@ADDRESS@", &address.to_string())
        .replace("@CONNECTIONS@", &(connections + 1_000).to_string())
}

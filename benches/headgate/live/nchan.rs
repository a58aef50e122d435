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

/// Where the executable is, if not in `PATH`.
const NGINX: &str = "/usr/sbin/nginx";

/// Where modules are, if nginx does not say.
const MODULES: &str = "/usr/lib/nginx/modules";

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
    /// Looks for it; the error says what is missing.
    pub(crate) fn find() -> Result<Self> {
        let ask = |program: &str| Command::new(program).arg("-V").output();
        let (program, output) = match ask("nginx") {
            Ok(output) => ("nginx", output),
            Err(_) => (
                NGINX,
                ask(NGINX).map_err(|_| "there is no nginx in PATH and none at /usr/sbin/nginx")?,
            ),
        };
        let about = String::from_utf8_lossy(&output.stderr);
        let word_after = |prefix: &str| {
            about
                .split_ascii_whitespace()
                .find_map(|word| word.strip_prefix(prefix))
        };
        let folder = word_after("--modules-path=").unwrap_or(MODULES);
        let module = Path::new(folder).join("ngx_nchan_module.so");
        if !module.is_file() {
            return Err(format!(
                "nginx has no module nchan at {}; Debian has it in libnginx-mod-nchan",
                module.display()
            )
            .into());
        }
        Ok(Self {
            program: program.into(),
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
    let module = module.display();
    let worker_connections = connections + 1_000;
    let temp_paths: String = ["client_body", "proxy", "fastcgi", "uwsgi", "scgi"]
        .iter()
        .map(|name| format!("{name}_temp_path {name};\n"))
        .collect();
    format!(
        "load_module {module};\ndaemon off;\nmaster_process off;\nworker_processes 1;\npid nginx.pid;\n\
         error_log stderr error;\nevents {{ worker_connections {worker_connections}; }}\n\
         http {{\naccess_log off;\nkeepalive_requests 100000000;\n{temp_paths}\
         server {{\nlisten {address} backlog=4096;\n\
         location = /pub {{ nchan_publisher http; nchan_channel_id $arg_id; }}\n\
         location = /sub {{ nchan_subscriber eventsource websocket; nchan_channel_id $arg_id; \
         nchan_subscriber_first_message newest; }}\n}}\n}}\n"
    )
}

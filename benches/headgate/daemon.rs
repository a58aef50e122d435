//! Starts the daemon, as a child or inside the bench.
//!
//! **Invariant:** the daemon sees no setting of the user's environment or working folder, only the configuration that
//! the bench writes.

use std::fs;
use std::path::Path;
use std::process::Command;

use headgate::daemon::Daemon;
use settings::Sources;

use crate::Result;

/// The program under measurement.
const PROGRAM: &str = env!("CARGO_BIN_EXE_headgate");

/// The token of the admin listeners of the benches.
pub(crate) const ADMIN_TOKEN: &str = "bench-admin-token-0123456789abcdef";

/// What starts a daemon with this configuration, which is written into `folder`.
pub(crate) fn command(folder: &Path, configuration: &str) -> Result<Command> {
    let file = folder.join("headgate.toml");
    fs::write(&file, configuration)?;
    let mut command = Command::new(PROGRAM);
    for (name, _) in std::env::vars_os() {
        if name.to_string_lossy().starts_with("HEADGATE_") {
            command.env_remove(name);
        }
    }
    command
        .args(["serve", "--config"])
        .arg(&file)
        .env("HEADGATE_PROFILE", "production");
    Ok(command)
}

/// Starts a daemon in this process, on free ports, with its data in `folder`/data; `rest` is the configuration but for
/// listeners and the table `storage`, of which `storage` are further lines.
pub(crate) async fn start_inside(folder: &Path, storage: &str, rest: &str) -> Result<Daemon> {
    let file = folder.join("headgate.toml");
    let text = format!(
        "[server]\nlisten = \"127.0.0.1:0\"\n[admin]\nlisten = \"127.0.0.1:0\"\n\
         [storage]\ndata_dir = {:?}\n{storage}\n{rest}",
        folder.join("data")
    );
    fs::write(&file, text)?;
    let loaded = settings::load(&Sources {
        working_dir: folder.to_owned(),
        config_file: Some(file),
        env: Vec::new(),
        options: Vec::new(),
    });
    let loaded = loaded.map_err(|problems| problems.to_string())?;
    Ok(Daemon::start(&loaded, Some(Path::new(PROGRAM))).await?)
}

//! `headgate serve`: the daemon.
//!
//! SIGHUP, and a change of its files, have the configuration read again: streams, connectors, keys and sinks change at
//! once, everything else at the next start.
//!
//! **Invariant**: the first SIGTERM or SIGINT stops in order, the second at once, which is safe because
//! `kill -9` is safe.

use std::io::IsTerminal as _;
use std::os::unix::process::CommandExt as _;
use std::path::PathBuf;
use std::process::Command;

use tokio_util::sync::CancellationToken;

use super::confine::Confined;
use super::error::CliError;
use super::port::Ports;
use super::signals::Signals;
use super::{ConfigArgs, load_with, logging, program, tentative, with_fitting_sinks};
use crate::daemon::{Daemon, DaemonError, Files};
use base::process;
use base::text::shell_quoted;
use http::sessions::SessionError;
use settings::{Engine, Listen, Loaded, Runtime, SettingOption, Settings};
use sqlite::suspect;

/// Arguments of `headgate serve`.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  HEADGATE_PROFILE=production headgate serve --config /etc/headgate.toml
  headgate serve --listen 127.0.0.1:9090 --data-dir /var/lib/headgate

On a terminal, it prints a link that signs in to the admin pages. Otherwise, `headgate sign-in` gets a link from the
running daemon.")]
pub struct ServeArgs {
    /// A configuration file over the built-in defaults and the files in ./config
    #[arg(long, value_name = "FILE", env = "HEADGATE_CONFIG")]
    config: Option<PathBuf>,
    /// Address of the service listener: host:port or unix:/path; overrides server.listen
    #[arg(long, value_name = "ADDRESS")]
    listen: Option<String>,
    /// Data directory; overrides storage.data_dir
    #[arg(long, value_name = "DIR")]
    data_dir: Option<String>,
    /// Print a link that signs in to the admin pages also where standard output is no terminal: whoever reads it is an
    /// administrator
    #[arg(long)]
    invite: bool,
}

/// Runs the verb.
///
/// # Errors
/// Exit code 2 for the configuration, 70 for storage, 1 for everything else.
pub fn run(args: &ServeArgs) -> Result<(), CliError> {
    process::keep_files_private();
    let mut loaded = args.load()?;
    listen_again(&mut loaded);
    let mut listened = None;
    logging::start(&loaded.settings.log)?;
    process::take_open_files();
    for warning in &loaded.warnings {
        tracing::warn!("{warning}");
    }
    // What it confines itself to has no view of other processes.
    let ports = Ports::of(&loaded.settings);
    let confined = Confined::by(&loaded)?;
    let served = run_to_end(&loaded.settings.runtime, async {
        let mut signals = Signals::new()?;
        let (daemon, files) = tokio::select! {
            started = start(&loaded, &ports) => started?,
            () = ends_start(&loaded.settings, &mut signals) => return Ok(()),
        };
        listened = Some((daemon.service_address.clone(), daemon.admin_address.clone()));
        if args.invite || std::io::stdout().is_terminal() {
            invite(&daemon).await?;
        } else {
            say_how_to_sign_in(&daemon);
        }
        let load = || confined.look_at(args.load());
        let config = ConfigArgs::of_file(args.config.clone());
        let named = || tentative(&config, args.options());
        run_until_signalled(daemon, files, signals, load, named).await
    });
    if served.is_err() && suspect::any_in(&loaded.settings.storage.data_dir) {
        start_again(listened)?;
    }
    served
}

impl ServeArgs {
    /// The configuration, with what the options of the verb set.
    fn load(&self) -> Result<Loaded, CliError> {
        let config = ConfigArgs::of_file(self.config.clone());
        load_with(&config, self.options()).and_then(with_fitting_sinks)
    }

    fn options(&self) -> Vec<SettingOption> {
        let options = [
            ("--listen", ["server", "listen"], &self.listen),
            ("--data-dir", ["storage", "data_dir"], &self.data_dir),
        ];
        let options = options.into_iter().filter_map(|(option, setting, value)| {
            let value = value.clone()?;
            Some(SettingOption {
                option,
                setting,
                value,
            })
        });
        options.collect()
    }
}

/// A node may wait for others before it is started, for as long as they run: a signal ends it. What a daemon alone does
/// before, it finishes.
async fn ends_start(settings: &Settings, signals: &mut Signals) {
    match settings.storage.engine {
        Engine::File => std::future::pending().await,
        Engine::Postgres => signals.end.next().await,
    }
}

/// Where the daemon listened, in the environment of the one that follows it: a port that the system chose stays.
const SERVICE_AT: &str = "STARTED_AGAIN_SERVICE";
const ADMIN_AT: &str = "STARTED_AGAIN_ADMIN";

/// Listens where the daemon before this one did, if this process was another daemon before.
fn listen_again(loaded: &mut Loaded) {
    let settings = &mut loaded.settings;
    for (name, listen) in [
        (SERVICE_AT, &mut settings.server.listen),
        (ADMIN_AT, &mut settings.admin.listen),
    ] {
        let at = std::env::var_os(name);
        let at = at
            .as_ref()
            .and_then(|at| Some(at.to_str()?.split_once("://")?.1));
        if let (Some(at), Listen::Tcp(address)) = (at, listen) {
            *address = at.to_owned();
        }
    }
}

/// A damaged file is repaired by a start. So that nobody has to make one, this process becomes the next daemon: the
/// system closes everything that the old one held, as a kill would, and nothing is copied back. Returns if that was done
/// often enough: then a person must look.
fn start_again(listened: Option<(String, String)>) -> Result<(), CliError> {
    /// How often it was done, in the environment of the next.
    const TIMES: &str = "STARTED_AGAIN_AFTER_DAMAGE";
    const TIMES_MAX: u32 = 3;
    let times = std::env::var_os(TIMES);
    let times = times.and_then(|times| times.to_str()?.parse().ok());
    let times: u32 = times.unwrap_or(0);
    if times >= TIMES_MAX {
        tracing::error!(
            "files of the data directory were found damaged repeatedly; run `headgate repair` to check all of them"
        );
        return Ok(());
    }
    let mut next = Command::new(program()?);
    next.args(std::env::args_os().skip(1));
    next.env(TIMES, (times + 1).to_string());
    if let Some((service, admin)) = listened {
        next.env(SERVICE_AT, service).env(ADMIN_AT, admin);
    }
    let error = next.exec();
    Err(CliError::failed(format!("cannot start again: {error}")))
}

/// Runs the daemon's future on a runtime as configured. When it has ended nothing is waited for: a
/// second signal must end the process at once.
pub(super) fn run_to_end(
    settings: &Runtime,
    daemon: impl Future<Output = Result<(), CliError>>,
) -> Result<(), CliError> {
    let runtime = runtime(settings)?;
    let done = runtime.block_on(daemon);
    runtime.shutdown_background();
    done
}

fn runtime(settings: &Runtime) -> Result<tokio::runtime::Runtime, CliError> {
    let threads = match settings.worker_threads {
        0 => match std::thread::available_parallelism().map_or(1, usize::from) {
            cores @ 0..=2 => cores.min(1),
            cores => (cores - 1).min(8),
        },
        threads => threads,
    };
    tokio::runtime::Builder::new_multi_thread()
        .worker_threads(threads.max(1))
        .enable_all()
        .build()
        .map_err(|error| CliError::failed(format!("cannot start the runtime: {error}")))
}

/// Starts the daemon and says where it listens. With it the files as they were before it read them: what is changed
/// from then on is taken.
pub(super) async fn start(loaded: &Loaded, ports: &Ports) -> Result<(Daemon, Files), CliError> {
    let files = Files::of(loaded);
    let daemon = Daemon::start(loaded, Some(&program()?))
        .await
        .map_err(|error| ports.explain(error))?;
    logging::print(&format!(
        "service listening on {}\nadmin listening on {}\n",
        daemon.service_address, daemon.admin_address
    ));
    Ok((daemon, files))
}

/// Prints a link that signs in to the pages once. It is for whoever sees it now: what a log keeps others read later.
pub(super) async fn invite(daemon: &Daemon) -> Result<(), CliError> {
    let Some(address) = reachable(&daemon.admin_address) else {
        say_how_to_sign_in(daemon);
        return Ok(());
    };
    let main = daemon.operator.access.main();
    let invitation = match daemon.sessions.invite(&main).await {
        Ok(invitation) => invitation,
        Err(SessionError::Random(error)) => {
            return Err(CliError::failed(format!("no random numbers: {error}")));
        }
        Err(SessionError::Database(error)) => {
            tracing::warn!(%error, "no sign-in link was made");
            say_how_to_sign_in(daemon);
            return Ok(());
        }
    };
    logging::print(&super::sign_in::sentence(&address, &invitation.path()));
    Ok(())
}

/// Where there may be nobody to read it, or no way from a browser to the listener, the link waits until it is asked for.
fn say_how_to_sign_in(daemon: &Daemon) {
    let url = match reachable(&daemon.admin_address) {
        Some(address) => address,
        // Only whoever has put something in front of the socket knows by what address it is opened.
        None => "https://…".to_owned(),
    };
    logging::print(&format!(
        "to sign in to the admin pages: headgate sign-in --admin-url {url} --data-dir {}\n",
        shell_quoted(&daemon.data_dir.to_string_lossy())
    ));
}

/// The address of the admin listener as a browser opens it: it has no way to a Unix socket, and none to an address that
/// stands for all of them.
fn reachable(address: &str) -> Option<String> {
    if address.starts_with("unix:") {
        return None;
    }
    let address = address
        .replace("0.0.0.0:", "127.0.0.1:")
        .replace("[::]:", "[::1]:");
    Some(address)
}

/// Serves until SIGTERM or SIGINT; on SIGHUP, and when a file has changed, takes what `load` brings. `named` is what can
/// be read of what cannot be used: it is read again when a file that it names has changed.
pub(super) async fn run_until_signalled(
    daemon: Daemon,
    mut files: Files,
    signals: Signals,
    load: impl Fn() -> Result<Loaded, CliError>,
    named: impl Fn() -> Option<Loaded>,
) -> Result<(), CliError> {
    let Signals {
        mut end,
        mut hang_up,
    } = signals;
    let stop = CancellationToken::new();
    let reload = daemon.reload();
    let serving = daemon.run(stop.cancelled());
    let signalled = async {
        end.next().await;
        stop.cancel();
        end.next().await;
    };
    let reloading = async {
        loop {
            tokio::select! {
                Some(()) = hang_up.recv() => {}
                () = files.changed() => {}
            }
            files.remember();
            match load() {
                Ok(loaded) => {
                    files.follow(&loaded);
                    reload.apply(&loaded).await;
                }
                Err(error) => {
                    if let Some(tentative) = named() {
                        files.follow_too(&tentative);
                    }
                    reload.keep(&error.to_string()).await;
                }
            }
        }
    };
    tokio::select! {
        done = serving => done.map_err(failed),
        never = reloading => never,
        () = signalled => Err(CliError::failed("stopped by a second signal; no accepted request is lost")),
    }
}

/// The daemon's error with its exit code.
pub(super) fn failed(error: DaemonError) -> CliError {
    CliError {
        code: error.exit_code(),
        message: error.to_string(),
    }
}

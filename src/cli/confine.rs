//! What `serve` and `demo` keep within reach of the daemon before they give up the rest.
//!
//! **Invariant**: the daemon may write where its data and its backups are, and read what its configuration names; whatever
//! the system's libraries need for names, time and certificates can be read too. A file that is named later is found if
//! it lies in a folder that was within reach at the start.

use std::collections::BTreeSet;
use std::os::unix::fs::DirBuilderExt as _;
use std::path::{Path, PathBuf};

use serde_json::Value;

use super::error::CliError;
use super::serve::failed;
use crate::daemon;
use base::process::{self, Held, Reach};
use settings::{Listen, Loaded, Storage};

/// Of the system: names of hosts and users, certificates, time zones, processes and processors, devices without memory.
const SYSTEM: &[&str] = &[
    "/dev/null",
    "/dev/random",
    "/dev/urandom",
    "/etc",
    "/proc",
    "/sys/devices/system/cpu",
    "/sys/fs/cgroup",
    "/usr/local/share/ca-certificates",
    "/usr/share",
];
/// What lies elsewhere on some systems, and is found by a link.
const LINKS: &[&str] = &[
    "/etc/hosts",
    "/etc/localtime",
    "/etc/nsswitch.conf",
    "/etc/pki/tls/certs/ca-bundle.crt",
    "/etc/resolv.conf",
    "/etc/ssl/cert.pem",
    "/etc/ssl/certs",
    "/etc/ssl/certs/ca-certificates.crt",
];
/// Variables that name files which libraries read.
const VARIABLES: &[&str] = &[
    "PGPASSFILE",
    "PGSSLCERT",
    "PGSSLKEY",
    "PGSSLROOTCERT",
    "SSL_CERT_DIR",
    "SSL_CERT_FILE",
];

/// What a daemon kept within reach; none if nothing is out of it.
pub(super) struct Confined(Option<Reach>);

impl Confined {
    /// Gives up what the daemon does not need, unless `system.confine` says otherwise. Before the first thread.
    ///
    /// # Errors
    /// The data folder cannot be made.
    pub(super) fn by(loaded: &Loaded) -> Result<Self, CliError> {
        if process::is_root() {
            tracing::warn!(
                "running as root is not needed; run headgate as a dedicated user, for example with User= in the systemd unit"
            );
        }
        if !loaded.settings.system.confine {
            return Ok(Self(None));
        }
        let data_dir = daemon::data_folder(&loaded.settings.storage.data_dir).map_err(failed)?;
        if let Err(error) = sqlite::keep_temporary_files_in(&data_dir) {
            tracing::warn!(%error, "cannot keep temporary files of SQLite in the data directory");
        }
        let reach = reach(loaded, &data_dir);
        let held = process::confine(&reach);
        let shown = |paths: &[PathBuf]| {
            let paths: Vec<String> = paths
                .iter()
                .map(|path| path.display().to_string())
                .collect();
            paths.join(", ")
        };
        tracing::info!(
            landlock = %held,
            writes = shown(&reach.write),
            "dropped: other files, core dumps, debuggers, new privileges; system.confine = false keeps them"
        );
        Ok(Self((!matches!(held, Held::Nothing(_))).then_some(reach)))
    }

    /// A configuration that was read again: one with files out of reach is refused, and the reason says what to do.
    pub(super) fn look_at(&self, read: Result<Loaded, CliError>) -> Result<Loaded, CliError> {
        let Some(reach) = &self.0 else {
            return read;
        };
        let (place, advice) = (
            "the daemon has been allowed to read since its start (system.confine)",
            "restart the daemon, or move the file to a directory that the configuration named at the start",
        );
        match read {
            Ok(loaded) => match named_files(&loaded)
                .iter()
                .find(|file| !reach.may_read(file))
            {
                None => Ok(loaded),
                Some(file) => Err(CliError::wrong_use(format!(
                    "{} is outside the files that {place}; {advice}",
                    file.display()
                ))),
            },
            Err(error) if error.message.contains("Permission denied") => Err(CliError {
                message: format!(
                    "{}\nif it is outside the files that {place}: {advice}",
                    error.message
                ),
                ..error
            }),
            Err(error) => Err(error),
        }
    }
}

fn reach(loaded: &Loaded, data_dir: &Path) -> Reach {
    let settings = &loaded.settings;
    let mut write = vec![data_dir.to_owned()];
    // What was put on another disk.
    let entries = data_dir.read_dir().into_iter().flatten().flatten();
    let links = entries.filter(|entry| entry.file_type().is_ok_and(|kind| kind.is_symlink()));
    for place in links.filter_map(|link| link.path().canonicalize().ok()) {
        write.push(match place.is_dir() {
            true => place,
            false => parent_of(&place),
        });
    }
    for dir in (settings.admin.backup_dirs.iter()).chain(&settings.plugins.folders) {
        let mut made = std::fs::DirBuilder::new();
        if let Err(error) = made.recursive(true).mode(0o700).create(dir) {
            tracing::warn!(dir = %dir.display(), %error, "cannot create this directory, in which the daemon is to write");
        }
        write.push(dir.clone());
    }
    let token_file = &settings.admin.token_file;
    let is_made = |file: &Path| file.metadata().is_ok_and(|found| found.len() > 0);
    if settings.admin.token.is_none() && !is_made(token_file) {
        // This start makes it.
        let folder = parent_of(token_file);
        let is_own = folder.canonicalize().is_ok_and(|folder| folder == data_dir);
        write.extend((!is_own).then_some(folder));
    }
    let mut read: BTreeSet<_> = SYSTEM.iter().map(PathBuf::from).collect();
    read.insert(PathBuf::from("config"));
    let links = LINKS.iter().map(PathBuf::from);
    for file in links.chain(named_files(loaded)) {
        // A file that is replaced is another one of the same name.
        read.insert(folder_of(&file));
        if let Ok(file) = file.canonicalize() {
            read.insert(folder_of(&file));
        }
    }
    let variables = VARIABLES.iter().filter_map(std::env::var_os);
    read.extend(variables.map(PathBuf::from));
    let home = std::env::var_os("HOME");
    read.extend(home.map(|home| PathBuf::from(home).join(".pgpass")));
    let listeners = [&settings.server.listen, &settings.admin.listen].into_iter();
    let sockets = listeners.filter_map(|listen| match listen {
        Listen::Unix(path) => Some(parent_of(path)),
        Listen::Tcp(_) => None,
    });
    Reach {
        read: read.into_iter().collect(),
        write,
        // The compiler makes itself the first to go when memory runs out. For root the kernel's own settings lie there.
        change: match process::is_root() {
            true => Vec::new(),
            false => vec![PathBuf::from("/proc")],
        },
        sockets: sockets.collect(),
        run: run(),
    }
}

/// Files that a configuration names, and its own. Whatever begins with "/" counts as one, whichever setting it is, but
/// for folders that are written, and for what sinks make of their own settings.
fn named_files(loaded: &Loaded) -> Vec<PathBuf> {
    let mut settings = loaded.settings.clone();
    settings.storage = Storage::default();
    settings.admin.backup_dirs.clear();
    settings.plugins.folders.clear();
    let mut files = loaded.files.clone();
    if settings.admin.token.is_none() {
        files.push(settings.admin.token_file.clone());
    }
    for sink in &mut settings.sinks {
        sink.config = Value::Null;
        sink.folder = None;
        // Certificates of a database.
        let url = sink.postgres.iter().map(|postgres| postgres.url.reveal());
        let queries = url.filter_map(|url| Some(url.split_once('?')?.1));
        let values = queries.flat_map(|query| form_urlencoded::parse(query.as_bytes()));
        let paths =
            values.filter(|(name, value)| name.starts_with("ssl") && value.starts_with('/'));
        files.extend(paths.map(|(_, path)| PathBuf::from(path.into_owned())));
    }
    let mut values = vec![serde_json::to_value(&settings).unwrap_or_default()];
    while let Some(value) = values.pop() {
        match value {
            Value::String(text) if text.starts_with('/') => files.push(PathBuf::from(text)),
            Value::Array(list) => values.extend(list),
            Value::Object(table) => values.extend(table.into_iter().map(|(_, value)| value)),
            _ => {}
        }
    }
    files
}

/// The folder that is read for a file. One in the root of the file system stands for itself, not for everything.
fn folder_of(file: &Path) -> PathBuf {
    match parent_of(file) {
        root if root == Path::new("/") => file.to_owned(),
        folder => folder,
    }
}

fn parent_of(file: &Path) -> PathBuf {
    match file.parent() {
        Some(folder) if folder.as_os_str().is_empty() => PathBuf::from("."),
        Some(folder) => folder.to_owned(),
        None => file.to_owned(),
    }
}

/// This program, which compiles components and starts again after damage, and the folders of the libraries that it has
/// loaded, where others lie that it loads to find names of hosts.
fn run() -> Vec<PathBuf> {
    let mut run = BTreeSet::from([PathBuf::from("/proc/self/exe")]);
    let maps = std::fs::read_to_string("/proc/self/maps").unwrap_or_default();
    let files = maps
        .lines()
        .filter_map(|line| Some(Path::new(&line[line.find('/')?..])));
    let is_library = |file: &&Path| {
        let name = file.file_name().unwrap_or_default().to_string_lossy();
        name.ends_with(".so") || name.contains(".so.")
    };
    run.extend(files.filter(is_library).map(folder_of));
    run.into_iter().collect()
}

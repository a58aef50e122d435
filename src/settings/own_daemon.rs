//! How operators on its machine reach the daemon of a configuration.
//!
//! The command line asks, before it talks to the admin listener.
//!
//! **Invariant**: what stands elsewhere in the configuration, such as a secret that only the daemon can read, is no
//! obstacle.

use std::path::PathBuf;
use std::sync::Arc;

use super::loader::Loader;
use super::merge;
use super::problem::{Origin, Problems};
use super::validate::Validator;
use super::{Admin, Problem, Sources};

/// The settings that say where the admin listener is, and its token.
const ASKED: [&str; 4] = [
    "admin.listen",
    "admin.tls",
    "admin.token",
    "storage.data_dir",
];

/// What an operator needs of a configuration.
#[derive(Debug, Clone)]
pub struct OwnDaemon {
    /// The admin listener, with its token, or the file that the daemon keeps it in.
    pub admin: Admin,
    /// Where the daemon keeps its data.
    pub data_dir: PathBuf,
}

/// How the daemon of a configuration is reached.
///
/// # Errors
///
/// A source cannot be read as a whole, or one of these settings is wrong.
pub fn own_daemon(sources: &Sources) -> Result<OwnDaemon, Problems> {
    let mut loader = Loader::new(sources);
    loader.all(sources);
    let Loader {
        layers,
        mut problems,
        unread,
        ..
    } = loader;
    if unread {
        return Err(Problems(Problems::sorted(problems)));
    }
    let (mut settings, origins) = merge::merge(layers).map_err(|(path, message)| {
        let origin = Origin::of(0, &Arc::from("merged configuration"));
        Problems(vec![Problem {
            origin,
            path,
            message,
        }])
    })?;
    let mut validator = Validator::new(&origins, &sources.env);
    validator.admin_token(&mut settings);
    problems.append(&mut validator.problems);
    problems.retain(|problem| is_asked(&problem.path));
    match problems.is_empty() {
        true => Ok(OwnDaemon {
            admin: settings.admin,
            data_dir: settings.storage.data_dir,
        }),
        false => Err(Problems(Problems::sorted(problems))),
    }
}

fn is_asked(path: &str) -> bool {
    ASKED.iter().any(|asked| {
        let rest = path.strip_prefix(asked);
        rest.is_some_and(|rest| rest.is_empty() || rest.starts_with('.'))
    })
}

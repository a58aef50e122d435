//! The admin token: from the configuration, or made once and kept in a file.
//!
//! Nodes of a cluster accept one token. The first node that finds none in the cluster makes it, in its own file, and
//! leaves its digest in the database; the others know only that.
//!
//! **Invariant**: a token is in its file before anything accepts it. The database never has it.

use std::io::ErrorKind;
use std::path::Path;

use super::DaemonError;
use super::node::RunningNode;
use base::whole_file;
use catalog::KeyHash;
use catalog::key::{KeyKind, generate};
use operate::access::Access;
use settings::{Engine, Settings};

/// What a daemon that is no node accepts, or one whose configuration says it; none: the cluster knows.
pub(super) fn of_alone(settings: &Settings) -> Result<Option<KeyHash>, DaemonError> {
    let admin = &settings.admin;
    if let Some(token) = &admin.token {
        return Ok(Some(KeyHash::of(token.reveal())));
    }
    if settings.storage.engine == Engine::Postgres {
        return Ok(None);
    }
    let token = match read(&admin.token_file)? {
        Some(token) => token,
        None => make(&admin.token_file)?,
    };
    Ok(Some(KeyHash::of(&token)))
}

/// Who may use the admin listener. `own` is what [`of_alone`] returned.
pub(super) async fn access(
    own: Option<KeyHash>,
    settings: &Settings,
    node: Option<&RunningNode>,
) -> Result<Access, DaemonError> {
    let main = match (own, node) {
        (None, Some(node)) => of_cluster(settings, node).await?,
        (own, _) => own.unwrap_or(KeyHash::NONE),
    };
    Ok(Access::of_digest(main, &settings.admin))
}

/// What all nodes accept. It is made if there is none. The token is in the file first. Otherwise a kill in between
/// would leave a digest of a token that nobody has.
async fn of_cluster(settings: &Settings, node: &RunningNode) -> Result<KeyHash, DaemonError> {
    let path = &settings.admin.token_file;
    let own = read(path)?;
    let known = match node.access.admin_token().await? {
        Some(known) => KeyHash::from_bytes(known),
        None => {
            let token = match &own {
                Some(own) => KeyHash::of(own),
                None => KeyHash::of(&make(path)?),
            };
            let known = node.access.put_admin_token(*token.as_bytes()).await?;
            let known = KeyHash::from_bytes(known);
            if own.is_none() && known != token {
                // Another node was first.
                std::fs::remove_file(path).map_err(|error| failed(path, &error))?;
            }
            known
        }
    };
    if own.is_some_and(|own| KeyHash::of(&own) != known) {
        tracing::warn!(
            "the admin token in {} is not the one of the cluster, and is not accepted; replace the file with that of another node, or set admin.token on all nodes",
            path.display()
        );
    }
    Ok(known)
}

/// The token in its file. Empty is none: a power cut took what was in it, so nobody can know it.
fn read(path: &Path) -> Result<Option<String>, DaemonError> {
    match std::fs::read_to_string(path) {
        Ok(text) if !text.trim().is_empty() => Ok(Some(text.trim().to_owned())),
        Ok(_) => Ok(None),
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(None),
        Err(error) => Err(failed(path, &error)),
    }
}

/// The file is replaced as a whole and is for this user only, because the token opens everything.
fn make(path: &Path) -> Result<String, DaemonError> {
    let random = generate(KeyKind::Ingest).map_err(|error| failed(path, &error))?;
    let token = format!("at_{}", random.expose().trim_start_matches("ik_live_"));
    let line = format!("{token}\n");
    whole_file::write(path, line.as_bytes(), 0o600).map_err(|error| failed(path, &error))?;
    Ok(token)
}

fn failed(path: &Path, error: &dyn std::fmt::Display) -> DaemonError {
    DaemonError::DataFolder(format!(
        "cannot use the admin token file {}: {error}; see admin.token in the configuration",
        path.display()
    ))
}

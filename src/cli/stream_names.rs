//! Streams whose names are the daemon's: those that begin with `_`.
//!
//! The start, each reload and `check` ask what is declared; `check` also what was made at run time.
//!
//! **Invariant**: a stream that was used before names began to be the daemon's goes on.

use super::error::CliError;
use settings::{Loaded, OF_DAEMON, Problem, is_daemons, quoted};

/// Declared streams that are new and have such a name.
pub(super) fn invalid_names(loaded: &Loaded) -> Vec<Problem> {
    let data_dir = &loaded.settings.storage.data_dir;
    let pool = data_dir.join(pool::FILE);
    let streams = loaded.settings.streams.iter().enumerate();
    let new = streams.filter(|(_, stream)| {
        // What cannot be read is no reason to refuse what may have been there.
        is_daemons(&stream.name) && !pool::copy::has_had(&pool, &stream.name).unwrap_or(true)
    });
    let problems = new.map(|(index, stream)| {
        let message = format!(
            "{} needs another name: names that begin with \"_\" are reserved",
            quoted(&stream.name)
        );
        loaded.problem(&format!("streams[{index}].name"), message)
    });
    problems.collect()
}

/// Sentences about streams that were made at run time and have such a name.
///
/// # Errors
/// The catalog cannot be read.
pub(super) fn made_before(loaded: &Loaded) -> Result<Vec<String>, CliError> {
    let path = loaded.settings.storage.data_dir.join(catalog::FILE);
    let streams = catalog::streams_of(&path);
    let mut streams = streams.map_err(|error| CliError::failed(error.to_string()))?;
    streams.retain(|name| is_daemons(name));
    let said = streams
        .iter()
        .map(|name| format!("the stream {}: {OF_DAEMON}", quoted(name)));
    Ok(said.collect())
}

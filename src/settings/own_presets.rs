//! Presets of one's own: files of a folder in the data folder, and `[[presets]]` of the configuration.
//!
//! [`load`](super::load) takes them before it checks anything, for connectors and keys name them; the command line takes
//! them alone.
//!
//! **Invariant**: they count together or not at all. A preset can weaken what is verified, so a file or a folder that
//! others can write is refused.

use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::loader::Loader;
use super::problem::{Origin, Problem, Problems};
use super::{Sources, merge};
use base::tree::{Data, Node};
use webhook::format::{Draft, FILE_LEN_MAX};
use webhook::{Preset, PresetOrigin};

const FILES_MAX: usize = 1_000;

/// Takes those of these sources; returns those that counted before.
pub(super) fn take(sources: &Sources) -> Result<Vec<&'static Preset>, Problems> {
    let mut loader = Loader::new(sources);
    loader.all(sources);
    let Loader {
        layers,
        presets: declared,
        mut own_problems,
        unread,
        ..
    } = loader;
    // What is wrong beside them is said by whoever loads the whole.
    let merged = (!unread).then(|| merge::merge(layers).ok()).flatten();
    let Some((settings, _)) = merged else {
        return Ok(webhook::own());
    };
    let folder = sources.working_dir.join(settings.storage.presets_dir());
    let mut layers = vec![of_folder(&folder, &mut own_problems)];
    layers.extend(declared);
    if own_problems.is_empty() {
        match webhook::resolve_own(Vec::new(), &layers) {
            Ok(own) => return Ok(webhook::set_own(own)),
            Err((origin, error)) => {
                own_problems.push(problem(origin.shown(), error.line, error.message));
            }
        }
    }
    Err(Problems(Problems::sorted(own_problems)))
}

fn problem(source: &str, line: Option<usize>, message: String) -> Problem {
    Problem {
        origin: Origin {
            line,
            ..Origin::of(0, &Arc::from(source))
        },
        path: String::new(),
        message,
    }
}

/// The presets that a source of the configuration has.
pub(super) fn of_node(source: &str, node: Node, problems: &mut Vec<Problem>) -> Vec<Draft> {
    let line = node.line;
    let Data::List(nodes) = node.data else {
        let message = "presets: expected a list of tables, [[presets]]".to_owned();
        problems.push(problem(source, line, message));
        return Vec::new();
    };
    let drafts = nodes.into_iter().filter_map(|node| {
        let line = node.line;
        let draft = Draft::of("", PresetOrigin::Own(source.to_owned()), node);
        let draft = draft.map_err(|error| {
            problems.push(problem(
                source,
                error.line.or(line),
                format!("presets: {}", error.message),
            ));
        });
        draft.ok()
    });
    drafts.collect()
}

/// Those of the folder, by their names; none if it is not there.
fn of_folder(folder: &Path, problems: &mut Vec<Problem>) -> Vec<Draft> {
    let Ok(entries) = folder.read_dir() else {
        return Vec::new();
    };
    let files = entries.flatten().map(|entry| entry.path());
    let mut files: Vec<PathBuf> = files
        .filter(|path| path.extension().is_some_and(|end| end == "toml"))
        .collect();
    files.sort();
    let mut wrong = |path: &Path, line: Option<usize>, message: String| {
        problems.push(problem(&path.display().to_string(), line, message));
    };
    if files.len() > FILES_MAX {
        wrong(
            folder,
            None,
            format!("it has more than {FILES_MAX} presets"),
        );
        return Vec::new();
    }
    if let Some(why) = (!files.is_empty())
        .then(|| writable_by_others(folder))
        .flatten()
    {
        wrong(folder, None, why);
        return Vec::new();
    }
    let drafts = files.iter().filter_map(|path| match read(path) {
        Ok(draft) => Some(draft),
        Err((line, message)) => {
            wrong(path, line, message);
            None
        }
    });
    drafts.collect()
}

fn read(path: &Path) -> Result<Draft, (Option<usize>, String)> {
    if let Some(why) = writable_by_others(path) {
        return Err((None, why));
    }
    let unreadable = |error: std::io::Error| (None, format!("cannot be read: {error}"));
    if path.metadata().map_err(unreadable)?.len() > FILE_LEN_MAX as u64 {
        return Err((None, format!("a preset has at most {FILE_LEN_MAX} bytes")));
    }
    let text = std::fs::read_to_string(path).map_err(unreadable)?;
    let name = path.file_stem().unwrap_or_default().to_string_lossy();
    let origin = PresetOrigin::Own(path.display().to_string());
    Draft::parse(&name, origin, &text).map_err(|error| (error.line, error.message))
}

/// Who can change it beside this user, in a sentence that says what to do.
fn writable_by_others(path: &Path) -> Option<String> {
    use rustix::process::getegid;
    let metadata = path.metadata().ok()?;
    // This user's own group is often nobody else.
    let by_group = metadata.mode() & 0o020 != 0 && metadata.gid() != getegid().as_raw();
    (metadata.mode() & 0o002 != 0 || by_group).then(|| {
        format!(
            "other users of this machine can write to it, and a preset decides which senders are trusted; run `chmod go-w {}`",
            path.display()
        )
    })
}

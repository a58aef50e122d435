//! `headgate preset list` and `show`, and deliveries that were captured.
//!
//! Called by the command line.
//!
//! **Invariant**: no daemon is asked: presets are files.

use std::path::Path;

use serde_json::{Map, Value, json};

use crate::error::CliError;
use crate::output::{Table, json_line, json_pretty, print, shown, shown_lines};
use webhook::{ItemKey, Path as ItemPath, Preset, SentDelivery};

/// The most bytes of a delivery that was captured.
const DELIVERY_BYTES_MAX: u64 = 16 * 1_024 * 1_024;

/// What `headgate preset list` is told.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  headgate preset list
  headgate preset list --output toml > presets.toml")]
pub struct ListArgs {
    /// How to print them
    #[arg(long, value_enum, default_value = "table")]
    output: PresetOutput,
}

/// How presets are printed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
enum PresetOutput {
    /// Aligned columns, for people.
    Table,
    /// A JSON array.
    Json,
    /// A line of JSON for each.
    Ndjson,
    /// As `[[presets]]` of a configuration.
    Toml,
}

/// What `headgate preset show` is told.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Example:
  headgate preset show standard > presets/mine.toml")]
pub struct ShowArgs {
    /// Its name, one of `headgate preset list`
    name: String,
}

/// Runs `headgate preset list`.
///
/// # Errors
/// Standard output cannot be written.
pub fn list(args: &ListArgs) -> Result<(), CliError> {
    let all = webhook::presets();
    let described = || all.iter().map(|preset| described(preset));
    match args.output {
        PresetOutput::Table => print(&table(&all).to_string()),
        PresetOutput::Json => print(&json_pretty(&described().collect::<Vec<_>>())?),
        PresetOutput::Ndjson => described().try_for_each(|one| print(&json_line(&one)?)),
        PresetOutput::Toml => (all.iter()).try_for_each(|one| print(&shown_lines(&one.to_entry()))),
    }
}

/// Runs `headgate preset show`.
///
/// # Errors
/// There is no such preset.
pub fn show(args: &ShowArgs) -> Result<(), CliError> {
    print(&shown_lines(&preset(&args.name)?.to_toml()))
}

/// The preset of this name.
///
/// # Errors
/// There is none.
pub fn preset(name: &str) -> Result<&'static Preset, CliError> {
    webhook::preset(name).ok_or_else(|| {
        CliError::wrong_use(format!(
            "there is no preset {}; `headgate preset list` lists them",
            shown(name)
        ))
    })
}

fn table(all: &[&Preset]) -> Table {
    let mut table = Table::new(&["NAME", "TOOL", "BY", "ITEM KEY", "ANSWER", "PROVED", "FROM"]);
    for preset in all {
        let key = preset.item_key.as_ref().map(ItemKey::described);
        let cells = [
            &preset.name,
            &preset.title,
            by(preset),
            key.as_deref().unwrap_or("-"),
            &preset.answer.status.to_string(),
            preset.proved(),
            preset.origin.shown(),
        ];
        table.row(&cells);
    }
    table
}

fn by(preset: &Preset) -> &'static str {
    match preset.published() {
        Some(published) => published,
        None if preset.signed() => "secret",
        None => "key in the URL",
    }
}

fn described(preset: &Preset) -> Value {
    json!({
        "name": preset.name,
        "title": preset.title,
        "by": by(preset),
        "item_key": preset.item_key.as_ref().map(ItemKey::described),
        "items": preset.items.as_ref().map(ItemPath::text),
        "answer": preset.answer.status,
        "proved": preset.proved(),
        "from": preset.origin.shown(),
        "unsigned_body": preset.verify.as_ref().is_some_and(|verify| verify.unsigned_body),
        "ignored_events": preset.ignore,
        "signs_url": preset.signs_url(),
        "secret": preset.secret_hint,
        "options": (preset.options.iter())
            .map(|option| (option.name.clone(), Value::from(option.hint.as_str())))
            .collect::<Map<_, _>>(),
        "events": preset.events_hint,
    })
}

/// A delivery of a file: perhaps a line with its method and target, the lines of its headers, an empty line, its body.
///
/// # Errors
/// It cannot be read, or is none.
pub fn captured(file: &Path) -> Result<SentDelivery, CliError> {
    use std::io::Read as _;
    let wrong = |what: &str| {
        let file = file.display().to_string();
        CliError::wrong_use(format!("{}: {what}", shown(&file)))
    };
    let mut bytes = Vec::new();
    std::fs::File::open(file)
        .and_then(|file| file.take(DELIVERY_BYTES_MAX).read_to_end(&mut bytes))
        .map_err(|error| wrong(&error.to_string()))?;
    SentDelivery::read(&bytes).map_err(|what| wrong(&what))
}

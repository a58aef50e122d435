//! `headgate preset list`, `show`, `new` and `guess`, and captured deliveries.
//!
//! Called by the command line.
//!
//! **Invariant**: no daemon is called: presets are files.

use std::io::Write as _;
use std::path::{Path, PathBuf};

use serde_json::{Map, Value, json};

use crate::configuration::{ConfigArgs, use_presets};
use crate::error::CliError;
use crate::output::{Table, json_line, json_pretty, note, print, shown, shown_lines};
use webhook::{ItemKey, Path as ItemPath, Preset, SentDelivery};

/// Maximum bytes of a captured delivery.
const DELIVERY_BYTES_MAX: u64 = 16 * 1_024 * 1_024;

/// The template of a new preset.
const SCAFFOLD: &str = include_str!("preset/scaffold.toml");

/// Arguments of `headgate preset list`.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  headgate preset list
  headgate preset list --output toml > presets.toml")]
pub struct ListArgs {
    /// Output format
    #[arg(long, value_enum, default_value = "table")]
    output: PresetOutput,
    #[command(flatten)]
    config: ConfigArgs,
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

/// Arguments of `headgate preset show`.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Example:
  headgate preset show standard > presets/mine.toml")]
pub struct ShowArgs {
    /// Its name, one of `headgate preset list`
    name: String,
    #[command(flatten)]
    config: ConfigArgs,
}

/// Runs `headgate preset list`.
///
/// # Errors
/// Presets of the configuration are invalid.
pub fn list(args: &ListArgs) -> Result<(), CliError> {
    use_presets(&args.config)?;
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
/// The preset does not exist, or a preset of the configuration is invalid.
pub fn show(args: &ShowArgs) -> Result<(), CliError> {
    use_presets(&args.config)?;
    print(&shown_lines(&preset(&args.name)?.to_toml()))
}

/// Arguments of `headgate preset new`.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Example:
  headgate preset new meters && headgate preset test meters.toml

The file is a preset that passes its test. Edit it as the provider's documentation requires, and keep it in the
directory `presets` of the data directory.")]
pub struct NewArgs {
    /// Its name: a to z, 0 to 9, `_` and `-`
    name: String,
}

/// Arguments of `headgate preset guess`.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Example:
  headgate preset guess --delivery captured.http")]
pub struct FitArgs {
    /// File with a delivery that was captured: the lines of its headers, an empty line, its body
    #[arg(long, value_name = "FILE")]
    delivery: PathBuf,
    #[command(flatten)]
    config: ConfigArgs,
}

/// Runs `headgate preset new`.
///
/// # Errors
/// The name is invalid, or the file exists.
pub fn new(args: &NewArgs) -> Result<(), CliError> {
    let text = SCAFFOLD.replace("NAME", &args.name);
    let read = Preset::read(&args.name, &text);
    read.map_err(|error| CliError::wrong_use(shown(&error.message).into_owned()))?;
    let path = format!("{}.toml", args.name);
    std::fs::File::create_new(&path)
        .and_then(|mut file| file.write_all(text.as_bytes()))
        .map_err(|error| CliError::failed(format!("cannot write {path}: {error}")))?;
    print(&format!("{path}\n"))?;
    note(&format!("try it: headgate preset test {path}"));
    Ok(())
}

/// Runs `headgate preset guess`.
///
/// # Errors
/// The file is not a delivery, or no preset matches.
pub fn fit(args: &FitArgs) -> Result<(), CliError> {
    use_presets(&args.config)?;
    let sent = captured(&args.delivery)?;
    let headers = sent.headers.iter();
    let headers: Vec<(&str, Option<&str>)> = headers
        .map(|(name, value)| (name.as_str(), Some(value.as_str())))
        .collect();
    let fits = webhook::fitting(&headers, Some(&sent.body));
    if fits.is_empty() {
        return Err(CliError::failed(
            "no preset matches the signature of this delivery; to write one, use `headgate preset new`",
        ));
    }
    let mut table = Table::new(&["NAME", "TOOL", "FOUND"]);
    for fit in fits {
        let preset = fit.preset;
        table.row(&[&preset.name, &preset.title, &fit.found.join(", ")]);
    }
    print(&table.to_string())?;
    note(
        "several tools use the same headers: `headgate preset test NAME --delivery FILE --secret-file FILE` finds the right preset",
    );
    Ok(())
}

/// The preset of this name.
///
/// # Errors
/// The preset does not exist.
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
        "unsigned_body": preset.has_unsigned_body(),
        "ignored_events": preset.ignore,
        "signs_url": preset.signs_url(),
        "secret": preset.secret_hint,
        "options": (preset.options.iter())
            .map(|option| (option.name.clone(), Value::from(option.hint.as_str())))
            .collect::<Map<_, _>>(),
        "events": preset.events_hint,
    })
}

/// Reads a delivery from a file: an optional line with its method and target, its headers, an empty line, its body.
///
/// # Errors
/// It cannot be read, or is not a delivery.
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

//! Options of `headgate connector create` and `headgate key` about a provider.
//!
//! **Invariant**: a secret is read from a file or from standard input, never from the command line, which other users
//! can see.

use std::io::Read as _;
use std::path::{Path, PathBuf};
use std::time::Duration;

use reqwest::Method;
use serde_json::{Map, Value, json};

use crate::client::{AdminArgs, CallError, Refusal};
use crate::configuration::use_presets;
use crate::error::CliError;
use crate::output::{note, shown, shown_lines};
use crate::resource::Resource;
use base::text::percent_encoded;
use webhook::{Options, Preset, SetupPlaces, ToolSetup};
use wire::{ConnectorData, PresetData};

/// Maximum bytes of a secret file.
const SECRET_BYTES_MAX: u64 = 64 * 1024;

/// What is told of how a tool signs, beside its preset.
#[derive(Debug, clap::Args)]
pub(crate) struct VerifyArgs {
    #[command(flatten)]
    secret: SecretArgs,
    /// File with the verify token that Meta sends in its challenge; `-`: standard input
    #[arg(long, value_name = "FILE")]
    verify_token_file: Option<PathBuf>,
    /// Further option of `verify`, such as header=X-Signature or timestamp.header=X-Time; can be repeated
    #[arg(long = "option", value_name = "NAME=VALUE", value_parser = option)]
    options: Vec<(String, Value)>,
}

/// Maximum retries until the daemon has loaded a new preset file, and the pause between them.
const NEW_PRESET_TRIES: u32 = 40;
const NEW_PRESET_PAUSE: Duration = Duration::from_millis(250);

const NUMBERS: [&str; 2] = ["tolerance_seconds", "answer"];

/// Parses an option into its name and value.
fn option(text: &str) -> Result<(String, Value), String> {
    let (name, value) = text
        .split_once('=')
        .filter(|(name, _)| !name.is_empty())
        .ok_or("expected NAME=VALUE, such as header=X-Signature")?;
    if matches!(name, "scheme" | "secret" | "verify_token") {
        return Err(format!("{name} is not an option: see --help"));
    }
    let number = value
        .parse::<u64>()
        .ok()
        .filter(|_| NUMBERS.contains(&name));
    Ok((
        name.to_owned(),
        number.map_or_else(|| value.into(), Value::from),
    ))
}

impl VerifyArgs {
    /// Whether any option was given.
    pub(crate) fn is_reported(&self) -> bool {
        self.secret.secret_file.is_some()
            || self.verify_token_file.is_some()
            || !self.options.is_empty()
    }

    /// `verify` of a key with this preset and secret; without a secret, the key waits for that of the provider.
    fn verify(&self, preset: &Preset, secret: Option<String>) -> Result<Value, CliError> {
        let mut verify = Map::new();
        verify.insert("scheme".to_owned(), preset.name.as_str().into());
        verify.insert("secret".to_owned(), secret.into());
        if let Some(file) = &self.verify_token_file {
            verify.insert("verify_token".to_owned(), read_secret(file)?.into());
        }
        for (name, value) in &self.options {
            let is_of_preset = preset.options.iter().any(|option| option.name == *name);
            let (table, field) = match name.split_once('.') {
                None if is_of_preset && !Options::has_field(name) => (
                    verify.entry("options").or_insert_with(|| json!({})),
                    name.as_str(),
                ),
                Some((table, field)) => (verify.entry(table).or_insert_with(|| json!({})), field),
                None => {
                    verify.insert(name.clone(), value.clone());
                    continue;
                }
            };
            let Some(table) = table.as_object_mut() else {
                let message = format!("--option {}: that is not a table", shown(name));
                return Err(CliError::wrong_use(message));
            };
            table.insert(field.to_owned(), value.clone());
        }
        for option in &preset.options {
            let is_given = verify.contains_key(&option.name)
                || verify
                    .get("options")
                    .is_some_and(|given| given.get(&option.name).is_some());
            if let Some(without) = option.without.as_deref().filter(|_| !is_given) {
                note(&format!("without --option {}=…, {without}", option.name));
            }
        }
        Ok(verify.into())
    }
}

/// What is told of the secret that a tool signs with.
#[derive(Debug, clap::Args)]
pub(crate) struct SecretArgs {
    /// File with the secret that the tool shows, or with its certificate or key set; `-`: standard input
    #[arg(long, value_name = "FILE")]
    pub secret_file: Option<PathBuf>,
}

impl SecretArgs {
    /// The secret, if a file was named.
    pub(crate) fn read(&self) -> Result<Option<String>, CliError> {
        self.secret_file.as_deref().map(read_secret).transpose()
    }
}

/// Reads the secret from a file, or from standard input.
///
/// # Errors
/// It cannot be read, or is empty.
pub fn read_secret(file: &Path) -> Result<String, CliError> {
    let failed = |error: std::io::Error| {
        CliError::wrong_use(format!("{} cannot be read: {error}", file.display()))
    };
    let mut text = String::new();
    match file == Path::new("-") {
        true => std::io::stdin()
            .take(SECRET_BYTES_MAX)
            .read_to_string(&mut text),
        false => std::fs::File::open(file)
            .map_err(failed)?
            .take(SECRET_BYTES_MAX)
            .read_to_string(&mut text),
    }
    .map_err(failed)?;
    match text.trim() {
        "" => Err(CliError::wrong_use(format!("{} is empty", file.display()))),
        secret => Ok(secret.to_owned()),
    }
}

/// Whether the preset is in a file that the daemon has not loaded yet: it checks its directory every two seconds.
fn is_new(admin: &AdminArgs, name: &str, refusal: &Refusal) -> bool {
    let is_unknown = refusal.code.as_deref() == Some("PRESET_NOT_FOUND");
    is_unknown && use_presets(&admin.config).is_ok() && webhook::preset(name).is_some()
}

/// The daemon's preset with this name.
pub(crate) async fn preset_of_daemon(admin: &AdminArgs, name: &str) -> Result<Preset, CliError> {
    let presets = Resource::new(admin, "preset", "/api/admin/presets")?;
    let below = format!("/{}", percent_encoded(name));
    let mut tries = NEW_PRESET_TRIES;
    let found: PresetData = loop {
        match presets.ask(Method::GET, &below).await {
            Err(CallError::Refused(refusal)) if tries > 0 && is_new(admin, name, &refusal) => {
                tries -= 1;
                tokio::time::sleep(NEW_PRESET_PAUSE).await;
            }
            answer => break answer?,
        }
    };
    let text = found
        .toml
        .ok_or_else(|| presets.foreign("it has no file"))?;
    Preset::read(&found.name, &text).map_err(|error| presets.foreign(&error.to_string()))
}

/// The settings of a provider's key: the verification of its deliveries, or, without signatures, the permission to be
/// in a URL.
pub(crate) fn key_of(preset: &Preset, args: &VerifyArgs) -> Result<Map<String, Value>, CliError> {
    let mut body = Map::new();
    match (preset.signed(), args.secret.read()?) {
        (true, secret) if secret.is_some() || preset.sends_secret().is_some() => {
            body.insert("verify".to_owned(), args.verify(preset, secret)?);
        }
        (true, _) => {
            return Err(CliError::wrong_use(format!(
                "give the {} with --secret-file FILE, or `-` for standard input. {}",
                preset.published().unwrap_or("secret"),
                preset.secret_hint
            )));
        }
        (false, None) => drop(body.insert("allow_in_url".to_owned(), true.into())),
        (false, Some(_)) => {
            return Err(CliError::wrong_use(format!(
                "{} has no signature that Headgate can verify: omit --secret-file, and give it the URL with the key",
                preset.title
            )));
        }
    }
    Ok(body)
}

/// Prints the provider's own settings, or the steps to configure it.
fn note_setup(setup: &ToolSetup, places: SetupPlaces<'_>) {
    if let Some(snippet) = &setup.snippet {
        let file = setup.file.as_deref().unwrap_or("its configuration");
        note(&format!(
            "or, with the key in a header, in {}:\n",
            shown(file)
        ));
        note(&shown_lines(places.fill(snippet).trim_matches('\n')));
        note("");
    }
    for (number, step) in (1..).zip(&setup.steps) {
        note(&format!("{number}. {}", shown(&places.fill(step))));
    }
}

/// Prints what to configure at the provider, with the key in the response of the daemon.
pub(super) fn print(preset: &Preset, made: &ConnectorData) {
    let Some(key) = made.keys.first() else {
        return;
    };
    let url = match &key.url {
        Some(url) => url.clone(),
        None => format!("https://YOUR.PUBLIC.ADDRESS{}", key.path),
    };
    let with_key = match &made.secret {
        Some(secret) => format!("{url}?access_token={secret}"),
        None => url.clone(),
    };
    note(&format!(
        "the URL for {}: {}",
        preset.title,
        shown(&with_key)
    ));
    if let (Some(setup), Some(secret)) = (&preset.setup, &made.secret) {
        let places = SetupPlaces {
            url: &url,
            key: secret,
            stream: key.stream(),
        };
        note_setup(setup, places);
    }
    if key.signing().is_some_and(|signing| signing.awaits_secret) {
        note(
            "enter the URL there first: the tool then sends its secret, and `headgate key take-secret` prints it for you to paste there",
        );
    }
    if key.url.is_none() {
        note("to show the whole URL here and on the connector's page, set server.public_url");
    }
    if !preset.events_hint.is_empty() {
        note(&format!("events worth choosing: {}", preset.events_hint));
    }
}

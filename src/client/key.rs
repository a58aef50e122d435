//! `headgate key`: the ingest keys of a running daemon, and keys for a configuration file.
//!
//! Called by the command line; all verbs except `key new` call the admin API.
//!
//! **Invariant**: a key is printed once, on standard output, and stored nowhere.

use reqwest::Method;
use serde::Serialize;
use serde_json::Value;

use super::client::AdminArgs;
use super::connector::tool::{self, SecretArgs, VerifyArgs};
use super::error::CliError;
use super::output::{json_pretty, note, plain, print, shown, when};
use super::record::{KEY, NEW_KEY, Settings};
use super::resource::{Column, ListArgs, Resource, declared, given};
use crate::Running;
use base::text::percent_encoded;
use settings::Key;
use wire::{KeyData, MadeKey, TakenSecret};

mod new;

/// Arguments of `headgate key`.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Example:
  headgate key new --output json")]
pub struct KeyArgs {
    #[command(subcommand)]
    command: KeyCommand,
}

#[derive(Debug, clap::Subcommand)]
enum KeyCommand {
    /// Create a key of a connector and print it once
    Create(CreateArgs),
    /// List the keys of a connector
    List(KeysArgs),
    /// Replace a key with a new one; the old key expires after a grace period
    Rotate(RotateArgs),
    /// Accept the signing secret that a provider sent, and print it once to paste into the provider's settings
    #[command(after_help = "\
Example:
  headgate key take-secret notion main

Standard output has only the secret. From then on, the key uses it. If the key is defined in the configuration, set the
secret there.")]
    TakeSecret(Named),
    /// Change the expiry or description of a key
    Change(ChangeArgs),
    /// Revoke a key permanently
    #[command(after_help = "\
Example:
  headgate key revoke shop main")]
    Revoke(Named),
    /// Delete a key: it is rejected from now on, and no longer listed
    #[command(after_help = "\
Example:
  headgate key delete shop main")]
    Delete(Named),
    /// Create a key without a daemon and print it once, with its hash for a configuration file
    New(new::NewArgs),
}

/// Arguments of `headgate key create`.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Example:
  SHOP_KEY=$(headgate key create shop main --stream orders)
  headgate key create shop main --stream orders --verify shopify --secret-file shopify.secret

Standard output has only the key. A key that verifies signatures has no text.")]
struct CreateArgs {
    /// The connector
    connector: String,
    /// The key's name: letters, digits, `_`, `.` or `-`
    name: String,
    #[command(flatten)]
    settings: Settings<NEW_KEY>,
    /// The tool that signs with it, one of `headgate preset list`; its secret comes with --secret-file
    #[arg(long, value_name = "PRESET")]
    verify: Option<String>,
    #[command(flatten)]
    signing: VerifyArgs,
    /// Create a test key: its requests are checked and logged, but reach no sink
    #[arg(long)]
    test: bool,
    #[command(flatten)]
    made: MadeArgs,
}

/// Arguments of `headgate key list`.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Example:
  headgate key list shop --output json")]
struct KeysArgs {
    /// The connector
    connector: String,
    #[command(flatten)]
    list: ListArgs,
}

/// Arguments of `headgate key rotate`.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  headgate key rotate shop main                # the old key stays valid for a day
  headgate key rotate shop main --grace 15m
  headgate key rotate shop main --grace 0      # the old key expires now
  headgate key rotate shop main --secret-file new.secret    # the provider's new signing secret")]
struct RotateArgs {
    /// The connector
    connector: String,
    /// The key's name
    name: String,
    /// Grace period of the old key: seconds, or 90s, 15m, 12h, 7d
    #[arg(long, value_name = "TIME", default_value = "24h", value_parser = seconds)]
    grace: u64,
    /// Expiry of the new key; default: the expiry of the old key
    #[arg(long, value_name = "TIME")]
    expires: Option<String>,
    #[command(flatten)]
    secret: SecretArgs,
    #[command(flatten)]
    made: MadeArgs,
}

/// Arguments of `headgate key change`.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  headgate key change shop main --expires 2030-01-31T00:00:00Z
  headgate key change shop main --expires never")]
struct ChangeArgs {
    #[command(flatten)]
    key: Named,
    #[command(flatten)]
    settings: Settings<KEY>,
}

/// Which key.
#[derive(Debug, clap::Args)]
struct Named {
    /// The connector
    connector: String,
    /// The key's name
    name: String,
    #[command(flatten)]
    admin: AdminArgs,
}

/// How a new key is printed, and who makes it.
#[derive(Debug, clap::Args)]
pub(super) struct MadeArgs {
    /// Output format
    #[arg(long, value_enum, default_value = "text")]
    pub(super) output: MadeOutput,
    #[command(flatten)]
    pub(super) admin: AdminArgs,
}

/// How a new key is printed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub(super) enum MadeOutput {
    /// The key, alone on standard output.
    Text,
    /// All that the daemon says.
    Json,
}

const COLUMNS: &[Column<KeyData>] = &[
    setting("NAME", "name"),
    Column::new("PREFIX", |one| plain(&one.prefix)),
    setting("STREAM", "stream"),
    Column::new("STATE", |one| plain(&one.state)),
    setting("EXPIRES", "expires_at"),
    Column::new("LAST USED", |one| when(&one.last_used_at)),
    Column::new("LAST REJECTED", |one| when(&one.last_refused_at)),
    Column::new("DECLARED", |one| declared(one.declared)),
    Column::new("PATH", |one| plain(&one.path)),
    setting("DESCRIPTION", "description"),
];

/// A column with a setting.
const fn setting(heading: &'static str, name: &str) -> Column<KeyData> {
    Column::setting(heading, Key::FIELDS, name, |one| &one.settings)
}

/// Runs the verb.
pub fn run(args: KeyArgs) -> Running {
    Box::pin(execute(args))
}

async fn execute(args: KeyArgs) -> Result<(), CliError> {
    match args.command {
        KeyCommand::New(args) => new::run(args),
        KeyCommand::Create(args) => create(args).await,
        KeyCommand::List(args) => {
            let none = "the connector has no keys; create one with `headgate key create CONNECTOR NAME --stream STREAM`";
            let keys = keys_of(&args.list.admin, &args.connector)?;
            keys.list(args.list.output, none, COLUMNS).await
        }
        KeyCommand::Rotate(args) => rotate(args).await,
        KeyCommand::TakeSecret(key) => take_secret(&key).await,
        KeyCommand::Change(args) => {
            let keys = args.key.keys()?;
            keys.change(&args.key.name, args.settings.0, &Settings::<KEY>::options())
                .await
        }
        KeyCommand::Revoke(key) => revoke(&key).await,
        KeyCommand::Delete(key) => key.keys()?.delete(&key.name, "").await,
    }
}

fn keys_of(admin: &AdminArgs, connector: &str) -> Result<Resource, CliError> {
    let path = format!("/api/admin/connectors/{}/keys", percent_encoded(connector));
    Resource::new(admin, "key", path)
}

impl Named {
    fn keys(&self) -> Result<Resource, CliError> {
        keys_of(&self.admin, &self.connector)
    }
}

async fn create(args: CreateArgs) -> Result<(), CliError> {
    let mut body = args.settings.0;
    body.insert("name".to_owned(), args.name.into());
    body.insert("test".to_owned(), args.test.into());
    match &args.verify {
        Some(name) => {
            let preset = tool::preset_of_daemon(&args.made.admin, name).await?;
            body.extend(tool::key_of(&preset, &args.signing)?);
        }
        None if args.signing.is_reported() => {
            let message = "--secret-file, --verify-token-file and --option need a provider: name it with --verify";
            return Err(CliError::wrong_use(message));
        }
        None => {}
    }
    let keys = keys_of(&args.made.admin, &args.connector)?;
    let made: MadeKey = keys.call(Method::POST, "", Some(body)).await?;
    let hint = format!(
        "send with it: POST {} on the service listener",
        shown(&made.key.path)
    );
    print_key(&keys, args.made.output, &made, &hint)
}

async fn rotate(args: RotateArgs) -> Result<(), CliError> {
    let body = given([
        ("grace_seconds", Some(args.grace.into())),
        ("expires_at", args.expires.map(Value::from)),
        ("secret", args.secret.read()?.map(Value::from)),
    ]);
    let keys = keys_of(&args.made.admin, &args.connector)?;
    let below = format!("/{}/rotate", percent_encoded(&args.name));
    let made: MadeKey = keys.call(Method::POST, &below, Some(body)).await?;
    let Some(old) = &made.previous else {
        return Err(keys.foreign("it does not say which key it replaces"));
    };
    let hint = match old.state.as_str() {
        "revoked" => format!("the old key, {}, has expired", shown(&old.prefix)),
        _ => format!(
            "the old key, {}, expires at {}; it is listed as {}",
            shown(&old.prefix),
            shown(&when(&old.expires_at())),
            shown(old.name())
        ),
    };
    print_key(&keys, args.made.output, &made, &hint)
}

async fn take_secret(key: &Named) -> Result<(), CliError> {
    let keys = key.keys()?;
    let below = format!("/{}/take-secret", percent_encoded(&key.name));
    let taken: TakenSecret = keys.call(Method::POST, &below, None).await?;
    print(&format!("{}\n", shown(&taken.secret)))?;
    note("enter the secret in the provider's settings: it is not shown again");
    match taken.key.declared {
        true => note("also set it as `secret` of the key's `verify` in the configuration"),
        false => note("requests signed with it are accepted from now on"),
    }
    Ok(())
}

async fn revoke(key: &Named) -> Result<(), CliError> {
    let keys = key.keys()?;
    keys.revoke(&key.name).await?;
    // Keys that a rotation replaced are listed as the name and their public id.
    let listed: Vec<KeyData> = keys.entries(usize::MAX).await?;
    let older = listed.iter().filter_map(|listed| {
        let name = listed.name();
        let (was, _) = name.rsplit_once('.')?;
        (was == key.name && listed.state == "active").then_some((name, listed))
    });
    for (name, older) in older {
        let until = older.expires_at();
        let until = until.map_or_else(String::new, |at| format!(" until {}", when(&at)));
        note(&format!(
            "an older key is still valid{}: {} ({})",
            shown(&until),
            shown(name),
            shown(&older.prefix)
        ));
    }
    Ok(())
}

/// Prints a new ingest key. A key that verifies signatures has no text.
fn print_key(
    keys: &Resource,
    output: MadeOutput,
    made: &MadeKey,
    hint: &str,
) -> Result<(), CliError> {
    let verify = made.key.signing();
    match (output, &made.secret, verify) {
        (_, None, None) => Err(keys.foreign("it has no key")),
        (_, Some(secret), _) => print_made(output, made, secret, hint),
        (MadeOutput::Json, ..) => print(&json_pretty(made)?),
        (MadeOutput::Text, None, Some(signing)) => {
            note(match signing.awaits_secret {
                true => {
                    "it has no secret yet: `headgate key take-secret` accepts the secret that the provider sends"
                }
                false => "requests signed with this secret are accepted from now on",
            });
            note(hint);
            Ok(())
        }
    }
}

/// Prints a new key: the key on standard output, everything else on standard error.
pub(super) fn print_made(
    output: MadeOutput,
    made: &impl Serialize,
    secret: &str,
    hint: &str,
) -> Result<(), CliError> {
    match output {
        MadeOutput::Json => print(&json_pretty(made)?),
        MadeOutput::Text => {
            print(&format!("{}\n", shown(secret)))?;
            note("the key is not shown again");
            note(hint);
            Ok(())
        }
    }
}

/// Parses a duration: seconds, or a number with s, m, h or d.
fn seconds(text: &str) -> Result<u64, String> {
    let (number, unit) = match text.strip_suffix(|unit: char| unit.is_ascii_lowercase()) {
        Some(number) => (number, &text[number.len()..]),
        None => (text, "s"),
    };
    let factor = match unit {
        "s" => 1,
        "m" => 60,
        "h" => 3_600,
        "d" => 86_400,
        _ => return Err("expected seconds, or a number with s, m, h or d".to_owned()),
    };
    let number = number.parse::<u64>().ok();
    let seconds = number.and_then(|number| number.checked_mul(factor));
    seconds.ok_or_else(|| "expected seconds, or a number with s, m, h or d".to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_have_units() {
        let check =
            |text: &str, expected: Option<u64>| assert_eq!(seconds(text).ok(), expected, "{text}");
        check("0", Some(0));
        check("90", Some(90));
        check("90s", Some(90));
        check("15m", Some(900));
        check("24h", Some(86_400));
        check("7d", Some(604_800));
        for wrong in [
            "",
            "h",
            "-1",
            "1.5h",
            "1w",
            "1 h",
            "ä",
            "99999999999999999999",
            "9999999999999999999d",
        ] {
            check(wrong, None);
        }
    }
}

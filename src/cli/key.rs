//! `headgate key`: the ingest keys of a running daemon, and keys for a configuration file.
//!
//! Called by the command line; all but `key new` ask the admin API.
//!
//! **Invariant**: the key is printed once, on standard output, and kept nowhere.

use reqwest::Method;
use serde_json::{Value, json};

use super::client::{AdminArgs, Client};
use super::error::CliError;
use super::output::{ListOutput, Table, json_pretty, note, plain, print, print_list, shown};
use crate::text::percent_encoded;

mod new;

/// What `headgate key` is told.
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
    List(ListArgs),
    /// Make a new key in place of one, which ends after a grace
    Rotate(RotateArgs),
    /// Change when a key ends
    Change(ChangeArgs),
    /// Revoke a key, for good: nothing is accepted with it from now on
    Revoke(RevokeArgs),
    /// Delete a key: it is refused from now on, and no longer listed
    Delete(DeleteArgs),
    /// Make a key and print it once, with its hash for a configuration file
    New(new::NewArgs),
}

/// What `headgate key create` is told.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Example:
  SHOP_KEY=$(headgate key create shop main --stream orders)

Standard output has the key and nothing else.")]
struct CreateArgs {
    /// The connector
    connector: String,
    /// The key's name: letters, digits, `_`, `.` or `-`
    name: String,
    /// The one stream that it may submit to
    #[arg(long)]
    stream: String,
    /// A test key: its requests are checked and logged, and reach no sink
    #[arg(long)]
    test: bool,
    /// When it ends, such as 2030-01-31T00:00:00Z
    #[arg(long, value_name = "TIME")]
    expires: Option<String>,
    /// How to print it
    #[arg(long, value_enum, default_value = "text")]
    output: MadeOutput,
    #[command(flatten)]
    admin: AdminArgs,
}

/// What `headgate key list` is told.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Example:
  headgate key list shop --output json")]
struct ListArgs {
    /// The connector
    connector: String,
    /// How to print them
    #[arg(long, value_enum, default_value = "table")]
    output: ListOutput,
    #[command(flatten)]
    admin: AdminArgs,
}

/// What `headgate key rotate` is told.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  headgate key rotate shop main                # the old key lives on for a day
  headgate key rotate shop main --grace 15m
  headgate key rotate shop main --grace 0      # it ends now")]
struct RotateArgs {
    /// The connector
    connector: String,
    /// The key's name
    name: String,
    /// How long the old key can still be used: seconds, or 90s, 15m, 12h, 7d
    #[arg(long, value_name = "TIME", default_value = "24h", value_parser = seconds)]
    grace: u64,
    /// When the new key ends; without it, when the old one would have
    #[arg(long, value_name = "TIME")]
    expires: Option<String>,
    /// How to print it
    #[arg(long, value_enum, default_value = "text")]
    output: MadeOutput,
    #[command(flatten)]
    admin: AdminArgs,
}

/// What `headgate key change` is told.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  headgate key change shop main --expires 2030-01-31T00:00:00Z
  headgate key change shop main --expires never")]
struct ChangeArgs {
    #[command(flatten)]
    key: Named,
    /// When it ends, such as 2030-01-31T00:00:00Z; or `never`
    #[arg(long, value_name = "TIME", value_parser = time_or_never)]
    expires: Value,
}

/// What `headgate key revoke` is told.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Example:
  headgate key revoke shop main")]
struct RevokeArgs {
    #[command(flatten)]
    key: Named,
}

/// What `headgate key delete` is told.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Example:
  headgate key delete shop main")]
struct DeleteArgs {
    #[command(flatten)]
    key: Named,
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

/// How a new key is printed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub(super) enum MadeOutput {
    /// The key, alone on standard output.
    Text,
    /// All that the daemon says.
    Json,
}

/// Runs the verb.
pub async fn run(args: KeyArgs) -> Result<(), CliError> {
    match args.command {
        KeyCommand::New(args) => new::run(args),
        KeyCommand::Create(args) => create(&args).await,
        KeyCommand::List(args) => list(&args).await,
        KeyCommand::Rotate(args) => rotate(&args).await,
        KeyCommand::Change(args) => change(&args).await,
        KeyCommand::Revoke(args) => revoke(&args).await,
        KeyCommand::Delete(args) => delete(&args).await,
    }
}

fn keys_of(connector: &str) -> String {
    format!("/api/admin/connectors/{}/keys", percent_encoded(connector))
}

async fn create(args: &CreateArgs) -> Result<(), CliError> {
    let body = json!({
        "name": args.name,
        "stream": args.stream,
        "test": args.test,
        "expires_at": args.expires,
    });
    let client = args.admin.client()?;
    let path = keys_of(&args.connector);
    let made = client.change(Method::POST, &path, Some(&body)).await?.data;
    let hint = format!(
        "send with it: POST {} on the service listener",
        shown(&plain(&made["key"]["path"]))
    );
    print_made(&client, args.output, &made, &hint)
}

async fn list(args: &ListArgs) -> Result<(), CliError> {
    let client = args.admin.client()?;
    let path = keys_of(&args.connector);
    let keys = client.list(&path, "", usize::MAX).await?;
    let none = "the connector has no keys; create one with `headgate key create CONNECTOR NAME --stream STREAM`";
    print_list(args.output, &keys, none, |keys| {
        let mut table = Table::new(&[
            "NAME",
            "PREFIX",
            "STREAM",
            "STATE",
            "EXPIRES",
            "LAST USED",
            "DECLARED",
            "PATH",
        ]);
        for key in keys {
            let cell = |name: &str| plain(&key[name]);
            table.row(&[
                &cell("name"),
                &cell("prefix"),
                &cell("stream"),
                &cell("state"),
                &cell("expires_at"),
                &cell("last_used_at"),
                &cell("declared"),
                &cell("path"),
            ]);
        }
        table
    })
}

async fn rotate(args: &RotateArgs) -> Result<(), CliError> {
    let mut body = json!({"grace_seconds": args.grace});
    if let Some(expires) = &args.expires {
        body["expires_at"] = json!(expires);
    }
    let client = args.admin.client()?;
    let path = format!(
        "{}/{}/rotate",
        keys_of(&args.connector),
        percent_encoded(&args.name)
    );
    let made = client.change(Method::POST, &path, Some(&body)).await?.data;
    let old = |name: &str| shown(&plain(&made["previous"][name])).into_owned();
    let hint = match old("state").as_str() {
        "revoked" => format!("the old one, {}, has ended", old("prefix")),
        _ => format!(
            "the old one, {}, ends at {}; it is listed as {}",
            old("prefix"),
            old("expires_at"),
            old("name")
        ),
    };
    print_made(&client, args.output, &made, &hint)
}

async fn change(args: &ChangeArgs) -> Result<(), CliError> {
    let body = json!({"expires_at": args.expires});
    args.key
        .done(Method::PATCH, "", Some(&body), "changed")
        .await
}

async fn revoke(args: &RevokeArgs) -> Result<(), CliError> {
    let client = args.key.admin.client()?;
    let keys = keys_of(&args.key.connector);
    let path = format!("{keys}/{}/revoke", percent_encoded(&args.key.name));
    let done = client.change(Method::POST, &path, None).await?.data;
    print_done("key", &done, "revoked")?;
    // Those that rotations replaced are listed under the name and their public ids.
    let listed = client.list(&keys, "", usize::MAX).await?;
    let older = listed.iter().filter(|key| {
        let replaced = plain(&key["name"]);
        let was = replaced.rsplit_once('.').map(|(was, _)| was);
        was == Some(&args.key.name) && key["state"] == "active"
    });
    for key in older {
        let until = match &key["expires_at"] {
            Value::Null => String::new(),
            until => format!(" until {}", plain(until)),
        };
        note(&format!(
            "an older key of it still works{}: {} ({})",
            shown(&until),
            shown(&plain(&key["name"])),
            shown(&plain(&key["prefix"]))
        ));
    }
    Ok(())
}

async fn delete(args: &DeleteArgs) -> Result<(), CliError> {
    args.key.done(Method::DELETE, "", None, "deleted").await
}

impl Named {
    async fn done(
        &self,
        method: Method,
        action: &str,
        body: Option<&Value>,
        what: &str,
    ) -> Result<(), CliError> {
        let path = format!(
            "{}/{}{action}",
            keys_of(&self.connector),
            percent_encoded(&self.name)
        );
        let done = self.admin.client()?.change(method, &path, body).await?.data;
        print_done("key", &done, what)
    }
}

/// Says what was done to a key that exists.
pub(super) fn print_done(kind: &str, key: &Value, what: &str) -> Result<(), CliError> {
    let (name, prefix) = (plain(&key["name"]), plain(&key["prefix"]));
    print(&format!(
        "{kind} {} ({}) {what}\n",
        shown(&name),
        shown(&prefix)
    ))
}

/// Reads the word `never`, or a time, which the daemon checks.
pub(super) fn time_or_never(text: &str) -> Result<Value, std::convert::Infallible> {
    Ok(match text {
        "never" => Value::Null,
        time => json!(time),
    })
}

/// Prints a key that the daemon made: itself on standard output, all else beside it.
pub(super) fn print_made(
    client: &Client,
    output: MadeOutput,
    made: &Value,
    hint: &str,
) -> Result<(), CliError> {
    let secret = made["secret"].as_str();
    let secret = secret.ok_or_else(|| client.foreign("it has no key".to_owned()))?;
    match output {
        MadeOutput::Json => print(&json_pretty(made)?),
        MadeOutput::Text => {
            print(&format!("{}\n", shown(secret)))?;
            note("this is the only time that the key is shown");
            note(hint);
            Ok(())
        }
    }
}

/// Reads a duration: seconds, or a number with s, m, h or d.
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
        _ => return Err("give seconds, or a number with s, m, h or d".to_owned()),
    };
    let number = number.parse::<u64>().ok();
    let seconds = number.and_then(|number| number.checked_mul(factor));
    seconds.ok_or_else(|| "give seconds, or a number with s, m, h or d".to_owned())
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

//! `headgate read-key`: the read keys of a running daemon.
//!
//! Called by the command line; asks the admin API.
//!
//! **Invariant**: the key is printed once, on standard output, alone on its line, and kept nowhere.

use reqwest::Method;

use super::client::AdminArgs;
use super::error::CliError;
use super::key::{MadeArgs, print_made};
use super::output::{cut, plain, when};
use super::record::{NEW_READ_KEY, READ_KEY, Settings};
use super::resource::{Column, ListArgs, Resource, declared};
use wire::{MadeReadKey, ReadKeyData};

/// What `headgate read-key` is told.
#[derive(Debug, clap::Args)]
pub struct ReadKeyArgs {
    #[command(subcommand)]
    command: ReadKeyCommand,
}

#[derive(Debug, clap::Subcommand)]
enum ReadKeyCommand {
    /// List the read keys
    #[command(after_help = "\
Example:
  headgate read-key list --output json")]
    List(ListArgs),
    /// Create a read key and print it once
    Create(CreateArgs),
    /// Change a read key; its connections are closed and can reconnect
    Change(ChangeArgs),
    /// Revoke a read key permanently; its connections are closed
    #[command(after_help = "\
Example:
  headgate read-key revoke lobby-screen")]
    Revoke(Named),
    /// Delete a read key: it is rejected from now on, and no longer listed
    #[command(after_help = "\
Example:
  headgate read-key delete lobby-screen")]
    Delete(Named),
}

/// What `headgate read-key create` is told.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Example:
  headgate read-key create lobby-screen --stream orders --stream news")]
struct CreateArgs {
    /// Its name: letters, digits, `_`, `.` or `-`
    name: String,
    #[command(flatten)]
    settings: Settings<NEW_READ_KEY>,
    #[command(flatten)]
    made: MadeArgs,
}

/// What `headgate read-key change` is told.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Example:
  headgate read-key change lobby-screen --stream orders --expires never")]
struct ChangeArgs {
    #[command(flatten)]
    key: Named,
    #[command(flatten)]
    settings: Settings<READ_KEY>,
}

/// Which key.
#[derive(Debug, clap::Args)]
struct Named {
    /// Its name
    name: String,
    #[command(flatten)]
    admin: AdminArgs,
}

const COLUMNS: &[Column<ReadKeyData>] = &[
    Column::new("NAME", |one| plain(&one.settings["name"])),
    Column::new("PREFIX", |one| plain(&one.prefix)),
    Column::new("STREAMS", |one| {
        let streams = one.settings["streams"].as_array().into_iter().flatten();
        cut(streams.map(plain).collect::<Vec<_>>().join(", "))
    }),
    Column::new("STATE", |one| plain(&one.state)),
    Column::new("EXPIRES", |one| when(&one.settings["expires_at"])),
    Column::new("DECLARED", |one| declared(one.declared)),
    Column::new("DESCRIPTION", |one| {
        cut(plain(&one.settings["description"]))
    }),
];

/// Runs the verb.
pub async fn run(args: ReadKeyArgs) -> Result<(), CliError> {
    let keys = |admin| Resource::new(admin, "read key", "/api/admin/read-keys");
    match args.command {
        ReadKeyCommand::List(args) => {
            let none = "there are no read keys; create one with `headgate read-key create NAME --stream STREAM`";
            keys(&args.admin)?.list(args.output, none, COLUMNS).await
        }
        ReadKeyCommand::Create(args) => {
            let mut body = args.settings.0;
            body.insert("name".to_owned(), args.name.into());
            let keys = keys(&args.made.admin)?;
            let made: MadeReadKey = keys.call(Method::POST, "", Some(body)).await?;
            let hint = "a page that shows it: http://…/render/STREAM#KEY on the service listener";
            print_made(args.made.output, &made, &made.secret, hint)
        }
        ReadKeyCommand::Change(args) => {
            let options = Settings::<READ_KEY>::options();
            let keys = keys(&args.key.admin)?;
            keys.change(&args.key.name, args.settings.0, &options).await
        }
        ReadKeyCommand::Revoke(key) => keys(&key.admin)?.revoke(&key.name).await,
        ReadKeyCommand::Delete(key) => keys(&key.admin)?.delete(&key.name, "").await,
    }
}

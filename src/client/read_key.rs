//! `headgate read-key`: the read keys of a running daemon.
//!
//! Called by the command line; calls the admin API.
//!
//! **Invariant**: the key is printed once, alone on a line of standard output, and stored nowhere.

use reqwest::Method;

use super::client::AdminArgs;
use super::error::CliError;
use super::key::{MadeArgs, print_made};
use super::output::plain;
use super::record::{NEW_READ_KEY, READ_KEY, Settings};
use super::resource::{Column, ListArgs, Resource, declared};
use crate::Running;
use settings::ReadKey;
use wire::{MadeReadKey, ReadKeyData};

/// Arguments of `headgate read-key`.
#[derive(Debug, clap::Args)]
pub struct ReadKeyArgs {
    #[command(subcommand)]
    command: ReadKeyCommand,
}

/// The kind of read keys of a verb.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    /// All read keys.
    Any,
    /// Operate keys.
    Operate,
}

#[derive(Debug, clap::Subcommand)]
pub(super) enum ReadKeyCommand {
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

/// Arguments of `headgate read-key create`.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Example:
  headgate read-key create lobby-screen --stream orders --stream news")]
pub(super) struct CreateArgs {
    /// Its name: letters, digits, `_`, `.` or `-`
    name: String,
    #[command(flatten)]
    settings: Settings<NEW_READ_KEY>,
    #[command(flatten)]
    made: MadeArgs,
}

/// Arguments of `headgate read-key change`.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Example:
  headgate read-key change lobby-screen --stream orders --expires never")]
pub(super) struct ChangeArgs {
    #[command(flatten)]
    key: Named,
    #[command(flatten)]
    settings: Settings<READ_KEY>,
}

/// Which key.
#[derive(Debug, clap::Args)]
pub(super) struct Named {
    /// Its name
    name: String,
    #[command(flatten)]
    admin: AdminArgs,
}

const COLUMNS: &[Column<ReadKeyData>] = &[
    setting("NAME", "name"),
    Column::new("PREFIX", |one| plain(&one.prefix)),
    setting("STREAMS", "streams"),
    Column::new("STATE", |one| plain(&one.state)),
    setting("EXPIRES", "expires_at"),
    Column::new("DECLARED", |one| declared(one.declared)),
    setting("DESCRIPTION", "description"),
];

/// A column with a setting.
const fn setting(heading: &'static str, name: &str) -> Column<ReadKeyData> {
    Column::setting(heading, ReadKey::FIELDS, name, |one| &one.settings)
}

pub fn run(args: ReadKeyArgs) -> Running {
    Box::pin(execute(args))
}

async fn execute(args: ReadKeyArgs) -> Result<(), CliError> {
    run_as(Kind::Any, args.command).await
}

/// Runs a verb for keys of a kind.
pub(super) async fn run_as(kind: Kind, command: ReadKeyCommand) -> Result<(), CliError> {
    let (noun, verb, page) = match kind {
        Kind::Any => (
            "read key",
            "read-key",
            "a page that shows it: http://…/render",
        ),
        Kind::Operate => (
            "operate key",
            "operate-key",
            "a page for a phone or a tablet: http://…/operate",
        ),
    };
    let keys = |admin| Resource::new(admin, noun, "/api/admin/read-keys");
    match command {
        ReadKeyCommand::List(args) => {
            let none = format!(
                "no {noun}s; create one with `headgate {verb} create NAME --stream STREAM`"
            );
            let wanted = |one: &ReadKeyData| kind == Kind::Any || one.operates();
            let keys = keys(&args.admin)?;
            keys.list_those(wanted, args.output, &none, COLUMNS).await
        }
        ReadKeyCommand::Create(args) => {
            let mut body = args.settings.0;
            body.insert("name".to_owned(), args.name.into());
            if kind == Kind::Operate {
                body.insert("operate".to_owned(), true.into());
            }
            let keys = keys(&args.made.admin)?;
            let made: MadeReadKey = keys.call(Method::POST, "", Some(body)).await?;
            let hint = format!("{page}/STREAM#KEY on the service listener");
            print_made(args.made.output, &made, &made.secret, &hint)
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

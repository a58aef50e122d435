//! `headgate operate-key`: the read keys of a running daemon that can also override and hold items.
//!
//! Called by the command line; calls the admin API.
//!
//! **Invariant**: the verbs are those of `read-key`; keys of other kinds are neither listed nor created here.

use super::error::CliError;
use super::read_key::{ChangeArgs, CreateArgs, Kind, Named, ReadKeyCommand, run_as};
use super::resource::ListArgs;
use crate::Running;

/// What `headgate operate-key` is told.
#[derive(Debug, clap::Args)]
pub struct OperateKeyArgs {
    #[command(subcommand)]
    command: OperateKeyCommand,
}

#[derive(Debug, clap::Subcommand)]
enum OperateKeyCommand {
    /// List the operate keys
    #[command(after_help = "\
Example:
  headgate operate-key list --output json")]
    List(ListArgs),
    /// Create an operate key and print it once
    #[command(after_help = "\
Example:
  headgate operate-key create desk --stream scores")]
    Create(CreateArgs),
    /// Change an operate key; its connections are closed and can reconnect
    #[command(after_help = "\
Example:
  headgate operate-key change desk --stream scores --expires never")]
    Change(ChangeArgs),
    /// Revoke an operate key permanently; its connections are closed
    #[command(after_help = "\
Example:
  headgate operate-key revoke desk")]
    Revoke(Named),
    /// Delete an operate key: it is rejected from now on, and no longer listed
    #[command(after_help = "\
Example:
  headgate operate-key delete desk")]
    Delete(Named),
}

pub fn run(args: OperateKeyArgs) -> Running {
    Box::pin(execute(args))
}

async fn execute(args: OperateKeyArgs) -> Result<(), CliError> {
    let command = match args.command {
        OperateKeyCommand::List(args) => ReadKeyCommand::List(args),
        OperateKeyCommand::Create(args) => ReadKeyCommand::Create(args),
        OperateKeyCommand::Change(args) => ReadKeyCommand::Change(args),
        OperateKeyCommand::Revoke(key) => ReadKeyCommand::Revoke(key),
        OperateKeyCommand::Delete(key) => ReadKeyCommand::Delete(key),
    };
    run_as(Kind::Operate, command).await
}

//! `headgate key new`: keys for a configuration file.
//!
//! Called by the verb's `run`. It works without a daemon: the configuration file contains only the hash of a key, so
//! any user can read the file.
//!
//! **Invariant**: the key is printed once, on standard output, and stored nowhere.

use serde_json::json;

use super::MadeOutput;
use crate::error::CliError;
use crate::output::{json_pretty, print};
use base::key::{KeyKind, KeyText, generate};

/// Arguments of `headgate key new`.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  headgate key new
  headgate key new --read --output json")]
pub(super) struct NewArgs {
    /// Create a test key: its requests are checked and logged, but reach no sink
    #[arg(long, conflicts_with = "read")]
    test: bool,
    /// Create a read key, for renderers; read keys cannot send items
    #[arg(long)]
    read: bool,
    /// Create an operate key: a read key that can also override and hold what is shown
    #[arg(long, conflicts_with_all = ["test", "read"])]
    operate: bool,
    /// Output format
    #[arg(long, value_enum, default_value = "text")]
    output: MadeOutput,
}

pub(super) fn run(args: NewArgs) -> Result<(), CliError> {
    let kind = match (args.test, args.read, args.operate) {
        (true, ..) => KeyKind::IngestTest,
        (_, true, _) => KeyKind::Read,
        (_, _, true) => KeyKind::Operate,
        _ => KeyKind::Ingest,
    };
    let key = generate(kind)
        .map_err(|error| CliError::failed(format!("the system gives no randomness: {error}")))?;
    print(&match args.output {
        MadeOutput::Text => as_text(kind, &key),
        MadeOutput::Json => json_pretty(&json!({
            "key": key.expose(),
            "sha256": key.hash().to_string(),
            "prefix": key.prefix(),
        }))?,
    })
}

fn as_text(kind: KeyKind, key: &KeyText) -> String {
    let hash = key.hash();
    let example = match kind {
        KeyKind::Read => format!(
            "[[read_keys]]\n\
             name = \"lobby-screen\"\n\
             streams = [\"orders\"]\n\
             sha256 = \"{hash}\""
        ),
        KeyKind::Operate => format!(
            "[[read_keys]]\n\
             name = \"desk\"\n\
             streams = [\"orders\"]\n\
             operate = true\n\
             sha256 = \"{hash}\""
        ),
        KeyKind::Ingest | KeyKind::IngestTest => format!(
            "[[streams]]\n\
             name = \"orders\"\n\n\
             [[connectors]]\n\
             name = \"shop\"\n\
             kind = \"ingest\"\n\n\
             [[connectors.keys]]\n\
             name = \"main\"\n\
             stream = \"orders\"\n\
             sha256 = \"{hash}\""
        ),
    };
    format!(
        "{key}\n\n\
         This is the only time that the key is shown. Give it to the program that uses it.\n\
         A configuration file needs its hash only:\n\n\
         sha256 = \"{hash}\"\n\n\
         For example:\n\n\
         {example}\n",
        key = key.expose()
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_text_shows_the_key_once_and_the_hash_that_finds_it() {
        for kind in [
            KeyKind::Ingest,
            KeyKind::IngestTest,
            KeyKind::Read,
            KeyKind::Operate,
        ] {
            let key = generate(kind).expect("the system has randomness");
            let text = as_text(kind, &key);
            assert_eq!(text.matches(key.expose()).count(), 1);
            assert_eq!(text.lines().next(), Some(key.expose()));
            assert!(text.contains(&format!("\nsha256 = \"{}\"\n", key.hash())));
            let reads = matches!(kind, KeyKind::Read | KeyKind::Operate);
            assert_eq!(text.contains("[[read_keys]]"), reads);
        }
    }
}

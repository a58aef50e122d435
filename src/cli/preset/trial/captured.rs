//! One delivery that was captured, checked, and printed as a vector.
//!
//! **Invariant**: its secret is printed only if somebody asks for it.

use std::path::Path;

use super::super::super::error::CliError;
use super::super::super::output::{note, print, shown_lines};
use super::TestArgs;
use client::connector::read_secret;
use client::preset::captured;
use webhook::{Preset, SentDelivery};

pub(super) fn run(
    preset: &'static Preset,
    delivery: &Path,
    secret: &Path,
    args: &TestArgs,
) -> Result<(), CliError> {
    let mut sent = SentDelivery {
        secret: read_secret(secret)?,
        options: args.options.clone(),
        valid: true,
        ..captured(delivery)?
    };
    sent.now = sent.sent_at(preset).map(|at| at.seconds());
    if let Err(why) = sent.checked(preset) {
        let mut without = sent.clone();
        let cut = without.body.pop_if(|last| *last == b'\n').is_some();
        let hint = match cut && without.checked(preset).is_ok() {
            true => {
                "; without its final line break, the body matches the signature: an editor added the line break"
            }
            false => "",
        };
        return Err(CliError::failed(format!(
            "the delivery is rejected: {why}{hint}"
        )));
    }
    note("it is verified; as a vector of the preset:");
    if !args.with_secret {
        sent.secret.clear();
        note("the secret is omitted: add it, or use --with-secret");
    }
    print(&shown_lines(&format!("[[vectors]]\n{}", sent.to_toml())))
}

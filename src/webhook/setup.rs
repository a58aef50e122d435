//! The settings of a verification, judged: which preset they name, and whether all of them apply to it.
//!
//! [`Verifier::new`](super::Verifier::new) is the one caller.
//!
//! **Invariant**: an option that would have no effect is an error.

use super::options::Options;
use super::preset::{Preset, Way};
use super::{InvalidVerifier, preset, presets};

const WITH_A_KEY: &str = "use an ingest key with `allow_in_url` in the URL instead";
/// Named where a wrong scheme resembles none.
const COMMON: [&str; 7] = [
    "standard", "stripe", "github", "shopify", "slack", "hmac", "token",
];
const SUGGESTED_MAX: usize = 4;
const SHOWN_CHARS_MAX: usize = 40;

/// The preset that the options name, if they are options of such a preset.
pub(super) fn preset_of(options: &Options) -> Result<&'static Preset, InvalidVerifier> {
    let Some(preset) = preset(&options.scheme) else {
        return Err(unknown(&options.scheme));
    };
    if preset.way == Way::Key {
        return Err(InvalidVerifier::new(
            "scheme",
            format!("{} signs nothing; {WITH_A_KEY}", preset.title),
        ));
    }
    if preset.name != "hmac" {
        check_unused(preset, options)?;
    }
    check_details(preset, options)?;
    if let Some(answer) = options.answer
        && ![200, 202, 204].contains(&answer)
    {
        return Err(InvalidVerifier::new(
            "answer",
            format!("{answer} is none of 200, 202 and 204"),
        ));
    }
    Ok(preset)
}

/// The URL of the options, for a scheme that signs it; for others it means nothing.
pub(super) fn url(options: &Options, signs_url: bool) -> Result<Option<String>, InvalidVerifier> {
    let Some(url) = &options.url else {
        return Ok(None);
    };
    if !url.starts_with("https://") && !url.starts_with("http://") {
        return Err(InvalidVerifier::new(
            "url",
            "it does not begin with https://; enter the whole URL that is registered in the tool",
        ));
    }
    Ok(signs_url.then(|| url.clone()))
}

/// Options that only `hmac` takes (`token` takes three of them).
fn check_unused(preset: &Preset, options: &Options) -> Result<(), InvalidVerifier> {
    let token = preset.name == "token";
    let unused = [
        ("header", options.header.is_some() && !token),
        ("prefix", options.prefix.is_some()),
        ("separator", options.separator.is_some()),
        ("signed", options.signed.is_some()),
        ("hash", options.hash.is_some()),
        ("encoding", options.encoding.is_some()),
        ("secret_encoding", options.secret_encoding.is_some()),
        ("timestamp", options.timestamp.is_some()),
        ("id", options.id.is_some() && !token),
        ("event", options.event.is_some() && !token),
    ];
    if let Some((field, _)) = unused.into_iter().find(|(_, given)| *given) {
        let message = format!(
            "`{}` has its own; leave it out, or use the scheme `hmac`",
            preset.name
        );
        return Err(InvalidVerifier::new(field, message));
    }
    Ok(())
}

/// What one tool has alone: there where it is needed, and nowhere else.
fn check_details(preset: &Preset, options: &Options) -> Result<(), InvalidVerifier> {
    for (name, given) in options.details() {
        let known = preset.details.iter().find(|detail| detail.name == name);
        match (known, given) {
            (None, Some(_)) => {
                let message = format!("`{}` has none; leave it out", preset.name);
                return Err(InvalidVerifier::new(name, message));
            }
            (Some(detail), Some("")) => {
                return Err(InvalidVerifier::new(
                    name,
                    format!("it is empty. {}", detail.hint),
                ));
            }
            (Some(detail), None) if detail.without.is_none() => {
                return Err(InvalidVerifier::new(
                    name,
                    format!("it is missing. {}", detail.hint),
                ));
            }
            _ => {}
        }
    }
    Ok(())
}

fn unknown(scheme: &str) -> InvalidVerifier {
    let shown: String = scheme.chars().take(SHOWN_CHARS_MAX).collect();
    let lower = shown.to_lowercase();
    let start: String = lower.chars().take(2).collect();
    let resembles = |name: &&str| {
        (start.len() > 1 && name.starts_with(&start)) || (name.len() > 2 && lower.contains(*name))
    };
    let names = presets().iter().map(|preset| preset.name);
    let near: Vec<&str> = names.filter(resembles).take(SUGGESTED_MAX).collect();
    let near = if near.is_empty() {
        COMMON.join(", ")
    } else {
        near.join(", ")
    };
    let message = format!(
        "`{}` is unknown; did you mean one of {near}? `headgate connector presets` lists all",
        shown.escape_debug()
    );
    InvalidVerifier::new("scheme", message)
}

//! The settings of a verification, judged: which preset they name, and whether all of them apply to it.
//!
//! [`Verifier::new`](super::Verifier::new) is the one caller.
//!
//! **Invariant**: an option that would have no effect is an error.

use super::options::Options;
use super::preset::{Algorithm, Preset};
use super::{InvalidVerifier, preset, presets};

const WITH_A_KEY: &str = "use an ingest key with `allow_in_url` in the URL instead";
/// Named where a wrong scheme resembles none. A list of all would be too long for a message.
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
    let Some(verify) = &preset.verify else {
        return Err(InvalidVerifier::new(
            "scheme",
            format!("{} does not sign requests; {WITH_A_KEY}", preset.title),
        ));
    };
    check_unused(preset, verify.algorithm, options)?;
    check_details(preset, options)?;
    if let Some(answer) = options.answer
        && ![200, 202, 204].contains(&answer)
    {
        return Err(InvalidVerifier::new(
            "answer",
            format!("expected 200, 202 or 204, found {answer}"),
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
            "it does not begin with https://; enter the whole URL that is registered at the provider",
        ));
    }
    Ok(signs_url.then(|| url.clone()))
}

/// Options that mean nothing for what has code of its own, or for a fixed secret. A user could otherwise believe that
/// the option protects something.
fn check_unused(
    preset: &Preset,
    algorithm: Algorithm,
    options: &Options,
) -> Result<(), InvalidVerifier> {
    let is_code = matches!(
        algorithm,
        Algorithm::Twilio | Algorithm::Sns | Algorithm::Paypal | Algorithm::Pubsub
    );
    let signs =
        !is_code && (algorithm != Algorithm::Token || !preset.verify_by_secret().is_empty());
    let unused = [
        ("header", options.header.is_some() && is_code),
        ("signature", options.signature.is_some() && is_code),
        ("algorithm", options.algorithm.is_some() && is_code),
        ("prefix", options.prefix.is_some() && is_code),
        ("separator", options.separator.is_some() && !signs),
        ("signed", options.signed.is_some() && !signs),
        ("hash", options.hash.is_some() && !signs),
        ("encoding", options.encoding.is_some() && !signs),
        (
            "secret_encoding",
            options.secret_encoding.is_some() && !signs,
        ),
        ("timestamp", options.timestamp.is_some() && !signs),
        ("id", options.id.is_some() && is_code),
        ("event", options.event.is_some() && is_code),
    ];
    if let Some((field, _)) = unused.into_iter().find(|(_, given)| *given) {
        let message = format!(
            "the preset `{}` already defines it; omit it, or use the scheme `hmac`",
            preset.name
        );
        return Err(InvalidVerifier::new(field, message));
    }
    Ok(())
}

/// What one tool has alone: there where it is needed, and nowhere else.
fn check_details(preset: &Preset, options: &Options) -> Result<(), InvalidVerifier> {
    let given = options.details();
    for (name, _) in &given {
        if preset.options.iter().all(|option| option.name != *name) {
            let message = format!("the preset `{}` does not use it; omit it", preset.name);
            return Err(InvalidVerifier::new(field_of(name), message));
        }
    }
    for option in &preset.options {
        let set = given.iter().find(|(name, _)| *name == option.name);
        let wrong = match set {
            Some((_, "")) => "it is empty",
            None if option.required => "it is missing",
            _ => continue,
        };
        let message = match Options::has_field(&option.name) {
            true => format!("{wrong}. {}", option.hint),
            false => format!("`{}`: {wrong}. {}", option.name, option.hint),
        };
        return Err(InvalidVerifier::new(field_of(&option.name), message));
    }
    Ok(())
}

/// The field of the settings that holds an option.
fn field_of(name: &str) -> &'static str {
    match name {
        "topic" => "topic",
        "webhook_id" => "webhook_id",
        "audience" => "audience",
        "email" => "email",
        _ => "options",
    }
}

fn unknown(scheme: &str) -> InvalidVerifier {
    let shown: String = scheme.chars().take(SHOWN_CHARS_MAX).collect();
    let lower = shown.to_lowercase();
    let start: String = lower.chars().take(2).collect();
    let resembles = |name: &&str| {
        (start.len() > 1 && name.starts_with(&start)) || (name.len() > 2 && lower.contains(*name))
    };
    let names = presets().into_iter().map(|preset| preset.name.as_str());
    let near: Vec<&str> = names.filter(resembles).take(SUGGESTED_MAX).collect();
    let near = if near.is_empty() {
        COMMON.join(", ")
    } else {
        near.join(", ")
    };
    let message = format!(
        "`{}` is unknown; did you mean one of {near}? `headgate preset list` lists all",
        shown.escape_debug()
    );
    InvalidVerifier::new("scheme", message)
}

//! The presets that there are: those that are part of the program, and those of the user.
//!
//! Settings look a scheme up with [`preset`]; the command line and the pages list [`presets`].
//!
//! **Invariant**: names are unique. What was handed out stays good: a preset lives as long as the process.

use std::sync::{LazyLock, PoisonError, RwLock};

use super::format::{Draft, FormatError, resolve_all};
use super::preset::{Preset, PresetOrigin};

/// The user's, over those that are part of the program.
static OWN: RwLock<Vec<&'static Preset>> = RwLock::new(Vec::new());

pub fn preset(name: &str) -> Option<&'static Preset> {
    let own = OWN.read().unwrap_or_else(PoisonError::into_inner);
    let mine = own.iter().copied().find(|preset| preset.name == name);
    mine.or_else(|| built_in(name))
}

fn built_in(name: &str) -> Option<&'static Preset> {
    BUILT_IN.iter().find(|preset| preset.name == name)
}

/// All presets, also those that Headgate takes with an ingest key only: those of the program, at their end `hmac` and
/// `token`, then the user's. One that the user replaced stands where it stood.
pub fn presets() -> Vec<&'static Preset> {
    let own = own();
    let now = |of: &'static Preset| own.iter().copied().find(|one| one.name == of.name);
    let known = BUILT_IN.iter().map(|preset| now(preset).unwrap_or(preset));
    let more = own.iter().copied();
    known
        .chain(more.filter(|one| built_in(&one.name).is_none()))
        .collect()
}

/// The user's presets, over these: later ones replace earlier ones of their name. The names `hmac` and `token` cannot
/// be replaced, because settings of keys define those.
///
/// # Errors
/// The name and place of the first that is wrong, and what is wrong with it.
pub fn resolve_own(
    mut own: Vec<Preset>,
    layers: &[Vec<Draft>],
) -> Result<Vec<Preset>, (PresetOrigin, FormatError)> {
    for drafts in layers {
        let generic = |draft: &&Draft| ["hmac", "token"].contains(&draft.name());
        if let Some(draft) = drafts.iter().find(generic) {
            let message =
                "the names `hmac` and `token` are reserved; choose another name for the preset";
            return Err((draft.origin().clone(), FormatError::new(None, message)));
        }
        let found = |name: &str| own.iter().find(|one| one.name == name);
        let known = |name: &str| found(name).or_else(|| built_in(name));
        let next = resolve_all(drafts, known).map_err(|(name, error)| {
            let draft = drafts.iter().find(|draft| draft.name() == name);
            (
                draft.map_or(PresetOrigin::BuiltIn, |draft| draft.origin().clone()),
                error,
            )
        })?;
        own.retain(|one| next.iter().all(|other| other.name != one.name));
        own.extend(next);
    }
    Ok(own)
}

/// From now on these are the user's; returns those that were. What is as it was stays the same, because a preset
/// lives as long as the process. An unchanged one is not made again, so that a reload leaks no memory and changes no
/// key.
pub fn set_own(presets: Vec<Preset>) -> Vec<&'static Preset> {
    let known = own();
    let kept = presets.into_iter().map(|preset| {
        let same = known.iter().copied().find(|one| **one == preset);
        same.unwrap_or_else(|| Box::leak(Box::new(preset)))
    });
    restore_own(kept.collect());
    known
}

/// The user's.
pub fn own() -> Vec<&'static Preset> {
    OWN.read().unwrap_or_else(PoisonError::into_inner).clone()
}

/// From now on these are the user's again. A reload that fails must leave what was there.
pub fn restore_own(presets: Vec<&'static Preset>) {
    *OWN.write().unwrap_or_else(PoisonError::into_inner) = presets;
}

static BUILT_IN: LazyLock<Vec<Preset>> = LazyLock::new(|| {
    let drafts: Result<Vec<Draft>, _> = (FILES.iter())
        .map(|(name, text)| Draft::parse(name, PresetOrigin::BuiltIn, text))
        .collect();
    // A test reads all of them.
    let drafts = drafts.unwrap_or_default();
    resolve_all(&drafts, |_| None).unwrap_or_default()
});

macro_rules! files {
    ($($name:literal)+) => {
        &[$(($name, include_str!(concat!("presets/", $name, ".toml")))),+]
    };
}

/// In the order in which they are listed.
pub(super) static FILES: &[(&str, &str)] = files! {
    "standard" "svix" "stripe" "github" "gitlab" "shopify" "slack" "twilio" "sendgrid" "mailgun"
    "hubspot" "zoom" "meta" "x" "discord" "square" "linear" "notion" "jira" "bitbucket" "paddle"
    "intercom" "typeform" "calendly" "dropbox" "telegram" "trello" "graph" "pagerduty" "twitch"
    "zendesk" "line" "circleci" "sentry" "woocommerce" "eventgrid" "cloudevents" "sns" "pubsub"
    "paypal" "elevenlabs" "adyen" "airtable" "alertmanager" "asana" "box" "buildkite" "calcom"
    "clerk" "clickup" "cloudinary" "customerio" "discord_interactions" "docusign" "easypost" "figma"
    "fluentbit" "gocardless" "grafana" "headgate" "heroku" "homeassistant" "intuit" "kick" "klaviyo"
    "kofi" "lemonsqueezy" "livekit" "make" "mandrill" "mollie" "monday" "monday_board" "mux" "n8n"
    "netlify" "nodered" "nylas" "okta" "openai" "pandadoc" "patreon" "paystack" "plaid" "polar" "pusher"
    "qstash" "razorpay" "recurly" "replicate" "resend" "sanity" "sinch" "standard_ed25519"
    "storyblok" "strava" "supabase" "teams" "telegraf" "telnyx" "tiktok" "tiltify" "uptimekuma"
    "vercel" "vonage" "webex" "webflow" "whatsapp" "wise" "workos" "xero" "zapier" "hmac" "token"
};

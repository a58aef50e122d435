//! The presets that there are: those that are part of the program, and those of the user.
//!
//! Settings look a scheme up with [`preset`]; the command line and the pages list [`presets`].
//!
//! **Invariant**: names are unique. What was handed out stays good: a preset lives as long as the process.

use std::sync::LazyLock;

use super::format::{Draft, resolve_all};
use super::preset::{Preset, PresetOrigin};

/// The preset of this name.
pub fn preset(name: &str) -> Option<&'static Preset> {
    BUILT_IN.iter().find(|preset| preset.name == name)
}

/// All presets, also those that Headgate takes with an ingest key only, and at the end `hmac` and `token`.
pub fn presets() -> Vec<&'static Preset> {
    BUILT_IN.iter().collect()
}

static BUILT_IN: LazyLock<Vec<Preset>> = LazyLock::new(|| {
    let drafts: Result<Vec<Draft>, _> = (FILES.iter())
        .map(|(name, text)| Draft::parse(name, PresetOrigin::BuiltIn, text))
        .collect();
    // A test reads all of them.
    let drafts = drafts.unwrap_or_default();
    resolve_all(&drafts, |_| None).unwrap_or_default()
});

/// Files of this folder.
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
    "netlify" "nodered" "nylas" "okta" "openai" "pandadoc" "paystack" "plaid" "polar" "pusher"
    "qstash" "razorpay" "recurly" "replicate" "resend" "sanity" "sinch" "standard_ed25519"
    "storyblok" "strava" "supabase" "teams" "telegraf" "telnyx" "tiktok" "tiltify" "uptimekuma"
    "vercel" "vonage" "webex" "webflow" "whatsapp" "wise" "workos" "xero" "zapier" "hmac" "token"
};

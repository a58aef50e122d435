//! The table of the tools that Headgate knows by name.
//!
//! Settings look a scheme up with [`preset`]; the command line and the pages list [`presets`].
//!
//! **Invariant**: names are unique and in lower case, and every row that signs says how.

use super::preset::{
    Algorithm, Encoding, Part, Place, Preset, SecretForm, Source, Time, Unit, Way,
};

mod cloud;
mod code;
mod commerce;
mod messages;

pub fn preset(name: &str) -> Option<&'static Preset> {
    TABLE.iter().find(|preset| preset.name == name)
}

/// All presets, also those that Headgate takes with an ingest key only, and at the end `hmac` and `token`.
pub fn presets() -> &'static [Preset] {
    &TABLE
}

static TABLE: [Preset; 43] = [
    cloud::STANDARD,
    cloud::SVIX,
    commerce::STRIPE,
    code::GITHUB,
    code::GITLAB,
    commerce::SHOPIFY,
    messages::SLACK,
    messages::TWILIO,
    messages::SENDGRID,
    messages::MAILGUN,
    commerce::HUBSPOT,
    messages::ZOOM,
    messages::META,
    messages::X,
    messages::DISCORD,
    commerce::SQUARE,
    code::LINEAR,
    cloud::NOTION,
    code::JIRA,
    code::BITBUCKET,
    commerce::PADDLE,
    messages::INTERCOM,
    commerce::TYPEFORM,
    commerce::CALENDLY,
    cloud::DROPBOX,
    messages::TELEGRAM,
    code::TRELLO,
    cloud::GRAPH,
    code::PAGERDUTY,
    messages::TWITCH,
    commerce::ZENDESK,
    messages::LINE,
    code::CIRCLECI,
    code::SENTRY,
    commerce::WOOCOMMERCE,
    cloud::EVENTGRID,
    cloud::CLOUDEVENTS,
    cloud::SNS,
    cloud::PUBSUB,
    commerce::PAYPAL,
    cloud::ELEVENLABS,
    HMAC,
    TOKEN,
];

/// What most tools do: HMAC-SHA256 of the body in hexadecimal digits.
const BASE: Preset = Preset {
    name: "",
    title: "",
    way: Way::Signature,
    signature: Source::Header(""),
    token_header: None,
    separator: None,
    prefix: "",
    algorithm: Algorithm::HmacSha256,
    encoding: Encoding::Hex,
    secret: SecretForm::Text,
    secret_prefix: "",
    message: &[Part::Body],
    timestamp: None,
    tolerance_seconds: 300,
    id: None,
    id_scope: None,
    event: None,
    event_in_item: false,
    item_key: None,
    item_key_or: None,
    items: None,
    version: None,
    removals: &[],
    omit: &[],
    answer: 202,
    ignore: &[],
    handshake: None,
    secret_hint: "",
    details: &[],
    events_hint: "",
    retries_4xx: true,
};

const HMAC: Preset = Preset {
    name: "hmac",
    title: "Another tool that signs (HMAC)",
    secret_hint: "The tool shows it where the webhook is set up, as signing secret, or lets you choose it there.",
    ..BASE
};

const TOKEN: Preset = Preset {
    name: "token",
    title: "Another tool that sends a fixed secret in a header",
    way: Way::Token,
    message: &[],
    secret_hint: "You choose it: enter the same text as the value of the header in the tool.",
    ..BASE
};

/// `{ts}.{body}`, Stripe's layout, which others took over.
const TIMESTAMP_DOT_BODY: &[Part<&str>] = &[Part::Timestamp, Part::Text("."), Part::Body];
/// `v0:{ts}:{body}`, Slack's layout.
const VERSION_TIMESTAMP_BODY: &[Part<&str>] = &[
    Part::Text("v0:"),
    Part::Timestamp,
    Part::Text(":"),
    Part::Body,
];
const TIMESTAMP_BODY: &[Part<&str>] = &[Part::Timestamp, Part::Body];

const fn part(prefix: &'static str) -> Option<Time<&'static str>> {
    let place = Place::Part(prefix);
    Some(Time {
        place,
        unit: Unit::Seconds,
    })
}

const fn time(source: Source<&'static str>, unit: Unit) -> Option<Time<&'static str>> {
    let place = Place::Source(source);
    Some(Time { place, unit })
}

const fn header(name: &'static str) -> Option<Source<&'static str>> {
    Some(Source::Header(name))
}

const fn body(path: &'static str) -> Option<Source<&'static str>> {
    Some(Source::Body(path))
}

//! Rows: chat, mail, telephone, meetings and social networks.
//!
//! The table of [`presets`](super::presets) lists them.
//!
//! **Invariant**: facts about a tool, and nothing else.

use super::{BASE, TIMESTAMP_BODY, VERSION_TIMESTAMP_BODY, body, header, time};
use crate::preset::{Algorithm, Encoding, Handshake, Part, Preset, SecretForm, Source, Unit, Way};

pub(super) const SLACK: Preset = Preset {
    name: "slack",
    title: "Slack",
    signature: Source::Header("X-Slack-Signature"),
    prefix: "v0=",
    message: VERSION_TIMESTAMP_BODY,
    timestamp: time(Source::Header("X-Slack-Request-Timestamp"), Unit::Seconds),
    id: body("event_id"),
    event: body("event.type"),
    item_key: Some("event_id"),
    handshake: Some(Handshake::Signed {
        mark: Source::Body("type"),
        value: "url_verification",
        echo: Some("challenge"),
    }),
    secret_hint: "api.slack.com/apps, your app, Basic Information: Signing Secret.",
    events_hint: "message.channels, app_mention, reaction_added",
    ..BASE
};

pub(super) const TWILIO: Preset = Preset {
    name: "twilio",
    title: "Twilio",
    way: Way::Twilio,
    signature: Source::Header("X-Twilio-Signature"),
    algorithm: Algorithm::HmacSha1,
    encoding: Encoding::Base64,
    message: &[],
    id: header("I-Twilio-Idempotency-Token"),
    item_key: Some("MessageSid"),
    // Of calls.
    item_key_or: Some("CallSid"),
    // JSON in an answer to a message is a warning in Twilio's console.
    answer: 204,
    secret_hint: "Twilio Console, Account Info: Auth Token.",
    ..BASE
};

pub(super) const SENDGRID: Preset = Preset {
    name: "sendgrid",
    title: "SendGrid",
    signature: Source::Header("X-Twilio-Email-Event-Webhook-Signature"),
    algorithm: Algorithm::P256,
    encoding: Encoding::Base64,
    secret: SecretForm::PublicDer,
    message: TIMESTAMP_BODY,
    timestamp: time(
        Source::Header("X-Twilio-Email-Event-Webhook-Timestamp"),
        Unit::Seconds,
    ),
    item_key: Some("sg_event_id"),
    secret_hint: "SendGrid, Settings, Mail Settings, Event Webhook, Signature Verification: Verification Key, a public key.",
    events_hint: "Delivered, Bounced, Opened, Clicked",
    ..BASE
};

/// The signature covers its own timestamp and token, not the event.
pub(super) const MAILGUN: Preset = Preset {
    name: "mailgun",
    title: "Mailgun",
    way: Way::Mailgun,
    signature: Source::Body("signature.signature"),
    message: &[Part::Timestamp, Part::Id],
    timestamp: time(Source::Body("signature.timestamp"), Unit::Seconds),
    // It is not documented whether a retry renews the time in the body, so no clock is checked by default.
    tolerance_seconds: 0,
    id: body("signature.token"),
    event: body("event-data.event"),
    item_key: Some("event-data.id"),
    answer: 200,
    secret_hint: "Mailgun, Sending, Webhooks: HTTP webhook signing key.",
    events_hint: "delivered, opened, clicked, failed",
    ..BASE
};

pub(super) const ZOOM: Preset = Preset {
    name: "zoom",
    title: "Zoom",
    signature: Source::Header("x-zm-signature"),
    prefix: "v0=",
    message: VERSION_TIMESTAMP_BODY,
    timestamp: time(Source::Header("x-zm-request-timestamp"), Unit::Seconds),
    event: body("event"),
    item_key: Some("payload.object.id"),
    answer: 200,
    handshake: Some(Handshake::EncryptedToken),
    secret_hint: "Zoom App Marketplace, your app, Features, Access: Secret Token.",
    events_hint: "meeting.started, meeting.ended, meeting.participant_joined",
    retries_4xx: false,
    version: Some("event_ts"),
    removals: &["meeting.deleted", "webinar.deleted"],
    ..BASE
};

pub(super) const META: Preset = Preset {
    name: "meta",
    title: "Meta (WhatsApp, Messenger, Instagram)",
    signature: Source::Header("X-Hub-Signature-256"),
    prefix: "sha256=",
    event: body("object"),
    items: Some("entry"),
    answer: 200,
    handshake: Some(Handshake::VerifyToken),
    secret_hint: "Meta for Developers, your app, App settings, Basic: App secret; the verify token is a word that you choose.",
    events_hint: "messages",
    ..BASE
};

pub(super) const X: Preset = Preset {
    name: "x",
    title: "X",
    signature: Source::Header("x-twitter-webhooks-signature"),
    prefix: "sha256=",
    encoding: Encoding::Base64,
    answer: 200,
    handshake: Some(Handshake::ResponseToken),
    secret_hint: "X developer portal, your app, Keys and tokens: API Key Secret (the consumer secret).",
    ..BASE
};

pub(super) const DISCORD: Preset = Preset {
    name: "discord",
    title: "Discord",
    signature: Source::Header("X-Signature-Ed25519"),
    algorithm: Algorithm::Ed25519,
    secret: SecretForm::PublicHex,
    message: TIMESTAMP_BODY,
    timestamp: time(Source::Header("X-Signature-Timestamp"), Unit::Seconds),
    event: body("event.type"),
    answer: 204,
    handshake: Some(Handshake::Signed {
        mark: Source::Body("type"),
        value: "0",
        echo: None,
    }),
    secret_hint: "Discord Developer Portal, your app, General Information: Public Key.",
    events_hint: "Application Authorized, Entitlement Create",
    ..BASE
};

pub(super) const INTERCOM: Preset = Preset {
    name: "intercom",
    title: "Intercom",
    signature: Source::Header("X-Hub-Signature"),
    prefix: "sha1=",
    algorithm: Algorithm::HmacSha1,
    id: body("id"),
    event: body("topic"),
    item_key: Some("data.item.id"),
    ignore: &["ping"],
    secret_hint: "Intercom Developer Hub, your app, Basic information: Client secret.",
    events_hint: "conversation.user.created, user.created",
    ..BASE
};

pub(super) const TELEGRAM: Preset = Preset {
    name: "telegram",
    title: "Telegram",
    way: Way::Token,
    signature: Source::Header("X-Telegram-Bot-Api-Secret-Token"),
    message: &[],
    id: body("update_id"),
    item_key: Some("update_id"),
    secret_hint: "You choose it: pass the same text as secret_token to setWebhook.",
    ..BASE
};

pub(super) const TWITCH: Preset = Preset {
    name: "twitch",
    title: "Twitch",
    signature: Source::Header("Twitch-Eventsub-Message-Signature"),
    prefix: "sha256=",
    message: &[Part::Id, Part::Timestamp, Part::Body],
    timestamp: time(
        Source::Header("Twitch-Eventsub-Message-Timestamp"),
        Unit::Rfc3339,
    ),
    tolerance_seconds: 600,
    id: header("Twitch-Eventsub-Message-Id"),
    event: header("Twitch-Eventsub-Subscription-Type"),
    item_key: Some("@delivery"),
    handshake: Some(Handshake::Signed {
        mark: Source::Header("Twitch-Eventsub-Message-Type"),
        value: "webhook_callback_verification",
        echo: Some("challenge"),
    }),
    secret_hint: "You choose it: pass the same text as transport.secret when you create the EventSub subscription.",
    events_hint: "stream.online, stream.offline, channel.follow",
    ..BASE
};

pub(super) const LINE: Preset = Preset {
    name: "line",
    title: "LINE",
    signature: Source::Header("x-line-signature"),
    encoding: Encoding::Base64,
    secret_hint: "LINE Developers Console, your channel, Basic settings: Channel secret.",
    ..BASE
};

//! Rows: the Standard Webhooks family, clouds, storage and documents.
//!
//! The table of [`presets`](super::presets) lists them.
//!
//! **Invariant**: facts about a tool, and nothing else.

use super::{BASE, TIMESTAMP_DOT_BODY, body, part, time};
use crate::preset::{Detail, Encoding, Handshake, Part, Preset, SecretForm, Source, Unit, Way};

/// `{id}.{ts}.{body}`
pub(super) const STANDARD_MESSAGE: &[Part<&str>] = &[
    Part::Id,
    Part::Text("."),
    Part::Timestamp,
    Part::Text("."),
    Part::Body,
];

pub(super) const STANDARD: Preset = Preset {
    name: "standard",
    title: "Standard Webhooks (OpenAI, Clerk, Resend, Replicate, Supabase)",
    signature: Source::EitherHeader("webhook-signature", "svix-signature"),
    separator: Some(' '),
    prefix: "v1,",
    encoding: Encoding::Base64,
    secret: SecretForm::Whsec,
    message: STANDARD_MESSAGE,
    timestamp: time(
        Source::EitherHeader("webhook-timestamp", "svix-timestamp"),
        Unit::Seconds,
    ),
    id: Some(Source::EitherHeader("webhook-id", "svix-id")),
    event: body("type"),
    item_key: Some("data.id"),
    secret_hint: "The tool shows it as the signing secret of the endpoint; it begins with whsec_ (a public key with whpk_).",
    version: Some("timestamp"),
    ..BASE
};

pub(super) const SVIX: Preset = Preset {
    name: "svix",
    title: "Svix",
    secret_hint: "The endpoint's page in Svix, or in the portal of the tool that uses it: Signing Secret, which begins with whsec_.",
    // Its own names come first, so that a missing header is named as Svix names it.
    signature: Source::EitherHeader("svix-signature", "webhook-signature"),
    timestamp: time(
        Source::EitherHeader("svix-timestamp", "webhook-timestamp"),
        Unit::Seconds,
    ),
    id: Some(Source::EitherHeader("svix-id", "webhook-id")),
    ..STANDARD
};

pub(super) const ELEVENLABS: Preset = Preset {
    name: "elevenlabs",
    title: "ElevenLabs",
    signature: Source::Header("ElevenLabs-Signature"),
    separator: Some(','),
    prefix: "v0=",
    message: TIMESTAMP_DOT_BODY,
    timestamp: part("t="),
    event: body("type"),
    item_key: Some("data.conversation_id"),
    item_key_or: Some("data.agent_id"),
    secret_hint: "ElevenLabs, Developers, Webhooks: the secret that is shown once when the webhook is made.",
    events_hint: "post_call_transcription",
    ..BASE
};

pub(super) const NOTION: Preset = Preset {
    name: "notion",
    title: "Notion",
    signature: Source::Header("X-Notion-Signature"),
    prefix: "sha256=",
    id: body("id"),
    event: body("type"),
    item_key: Some("entity.id"),
    handshake: Some(Handshake::OwnSecret {
        field: "verification_token",
    }),
    secret_hint: "Notion makes it, and sends it as its verification token when the webhook is created there.",
    events_hint: "page.created, page.content_updated, page.properties_updated",
    removals: &[
        "page.deleted",
        "database.deleted",
        "data_source.deleted",
        "comment.deleted",
    ],
    version: Some("timestamp"),
    ..BASE
};

pub(super) const DROPBOX: Preset = Preset {
    name: "dropbox",
    title: "Dropbox",
    signature: Source::Header("X-Dropbox-Signature"),
    handshake: Some(Handshake::Query {
        method: "GET",
        parameter: "challenge",
    }),
    secret_hint: "Dropbox App Console, your app, Settings: App secret.",
    events_hint: "Dropbox names the accounts with changes and nothing else.",
    ..BASE
};

pub(super) const GRAPH: Preset = Preset {
    name: "graph",
    title: "Microsoft Graph",
    way: Way::Graph,
    signature: Source::Body("value[].clientState"),
    message: &[],
    item_key: Some("id"),
    items: Some("value"),
    omit: &["clientState"],
    answer: 202,
    handshake: Some(Handshake::Query {
        method: "POST",
        parameter: "validationToken",
    }),
    secret_hint: "You choose it: pass the same text as clientState when you create the subscription.",
    ..BASE
};

/// What is known by a key in the request.
const KEYED: Preset = Preset {
    way: Way::Key,
    message: &[],
    secret_hint: "It signs nothing: use an ingest key with allow_in_url in the URL, or in a header if the tool can send one.",
    ..BASE
};

pub(super) const EVENTGRID: Preset = Preset {
    name: "eventgrid",
    title: "Azure Event Grid",
    id: body("id"),
    // The second is of its own schema.
    event: Some(Source::EitherBody("type", "eventType")),
    item_key: Some("id"),
    handshake: Some(Handshake::Keyed {
        methods: &["OPTIONS"],
    }),
    id_scope: Some("source"),
    ..KEYED
};

pub(super) const CLOUDEVENTS: Preset = Preset {
    name: "cloudevents",
    title: "CloudEvents",
    id: body("id"),
    event: body("type"),
    item_key: Some("id"),
    handshake: Some(Handshake::Keyed {
        methods: &["OPTIONS"],
    }),
    id_scope: Some("source"),
    ..KEYED
};

pub(super) const SNS: Preset = Preset {
    name: "sns",
    title: "Amazon SNS",
    way: Way::Sns,
    signature: Source::Body("Signature"),
    message: &[],
    id: body("MessageId"),
    event: body("Type"),
    item_key: Some("MessageId"),
    handshake: Some(Handshake::Subscription),
    secret_hint: "The certificate in PEM that SigningCertURL in any message of the region leads to.",
    details: &[Detail {
        name: "topic",
        label: "Topic ARN",
        hint: "Amazon SNS console, Topics, your topic: the ARN, such as arn:aws:sns:eu-west-1:123456789012:orders.",
        without: None,
    }],
    ..BASE
};

pub(super) const PUBSUB: Preset = Preset {
    name: "pubsub",
    title: "Google Pub/Sub",
    way: Way::Pubsub,
    signature: Source::Header("Authorization"),
    message: &[],
    id: body("message.messageId"),
    secret_hint: "Google's key set in JSON, from https://www.googleapis.com/oauth2/v3/certs.",
    details: &[
        Detail {
            name: "audience",
            label: "Audience",
            hint: "Google Cloud console, Pub/Sub, your push subscription, Enable authentication: the audience; without one there it is the whole URL.",
            without: None,
        },
        Detail {
            name: "email",
            label: "Service account",
            hint: "The e-mail address of the service account that is chosen there.",
            without: Some(
                "whoever has an account at Google can have tokens with this audience made, and so send here",
            ),
        },
    ],
    ..BASE
};

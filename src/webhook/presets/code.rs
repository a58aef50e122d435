//! Rows: code, tickets, builds and on-call.
//!
//! The table of [`presets`](super::presets) lists them.
//!
//! **Invariant**: facts about a tool, and nothing else.

use super::cloud::STANDARD;
use super::{BASE, body, header, time};
use crate::preset::{Algorithm, Encoding, Handshake, Part, Preset, Source, Unit};

pub(super) const GITHUB: Preset = Preset {
    name: "github",
    title: "GitHub",
    signature: Source::Header("X-Hub-Signature-256"),
    prefix: "sha256=",
    id: header("X-GitHub-Delivery"),
    event: header("X-GitHub-Event"),
    event_in_item: true,
    item_key: Some("@delivery"),
    ignore: &["ping"],
    secret_hint: "You choose it: repository or organization, Settings, Webhooks: Secret.",
    events_hint: "push, issues, pull_request, release, workflow_run",
    ..BASE
};

/// A signing token is a secret of Standard Webhooks; the older secret token is sent as it is.
pub(super) const GITLAB: Preset = Preset {
    name: "gitlab",
    title: "GitLab",
    signature: Source::Header("webhook-signature"),
    timestamp: time(Source::Header("webhook-timestamp"), Unit::Seconds),
    token_header: Some("X-Gitlab-Token"),
    // Both are the same text; the first is signed.
    id: Some(Source::EitherHeader("webhook-id", "Idempotency-Key")),
    event: header("X-Gitlab-Event"),
    event_in_item: true,
    item_key: Some("@delivery"),
    secret_hint: "Project or group, Settings, Webhooks: the Signing token (whsec_…) that GitLab shows once, or the Secret token that you choose.",
    events_hint: "Push events, Issues events, Merge request events, Pipeline events",
    ..STANDARD
};

pub(super) const BITBUCKET: Preset = Preset {
    name: "bitbucket",
    title: "Bitbucket",
    signature: Source::Header("X-Hub-Signature"),
    prefix: "sha256=",
    id: header("X-Request-UUID"),
    event: header("X-Event-Key"),
    event_in_item: true,
    item_key: Some("@delivery"),
    ignore: &["diagnostics:ping"],
    secret_hint: "You choose it: Repository settings, Webhooks, your webhook: Secret.",
    events_hint: "repo:push, pullrequest:created, pullrequest:fulfilled",
    ..BASE
};

pub(super) const JIRA: Preset = Preset {
    name: "jira",
    title: "Jira",
    signature: Source::Header("X-Hub-Signature"),
    prefix: "sha256=",
    id: header("X-Atlassian-Webhook-Identifier"),
    event: body("webhookEvent"),
    item_key: Some("issue.key"),
    secret_hint: "Jira settings, System, WebHooks, your webhook: Secret.",
    events_hint: "Issue created, updated and deleted",
    version: Some("timestamp"),
    removals: &["jira:issue_deleted"],
    ..BASE
};

pub(super) const LINEAR: Preset = Preset {
    name: "linear",
    title: "Linear",
    signature: Source::Header("Linear-Signature"),
    // It is not documented whether a retry renews the time in the body, so no clock is checked by default.
    timestamp: time(Source::Body("webhookTimestamp"), Unit::Milliseconds),
    tolerance_seconds: 0,
    id: header("Linear-Delivery"),
    event: header("Linear-Event"),
    event_in_item: true,
    item_key: Some("data.id"),
    answer: 200,
    secret_hint: "Linear, Settings, API, your webhook: Signing secret.",
    events_hint: "Issues, Comments, Projects",
    version: Some("data.updatedAt"),
    ..BASE
};

pub(super) const TRELLO: Preset = Preset {
    name: "trello",
    title: "Trello",
    signature: Source::Header("X-Trello-Webhook"),
    algorithm: Algorithm::HmacSha1,
    encoding: Encoding::Base64,
    message: &[Part::Body, Part::Url],
    id: body("action.id"),
    event: body("action.type"),
    item_key: Some("model.id"),
    answer: 200,
    handshake: Some(Handshake::Head),
    secret_hint: "trello.com/power-ups/admin, your Power-Up, API key: Secret.",
    ..BASE
};

pub(super) const PAGERDUTY: Preset = Preset {
    name: "pagerduty",
    title: "PagerDuty",
    signature: Source::Header("X-PagerDuty-Signature"),
    separator: Some(','),
    prefix: "v1=",
    id: header("X-Webhook-Id"),
    event: body("event.event_type"),
    item_key: Some("event.data.id"),
    secret_hint: "PagerDuty shows it once, when the webhook subscription is created.",
    events_hint: "incident.triggered, incident.acknowledged, incident.resolved",
    version: Some("event.occurred_at"),
    ..BASE
};

pub(super) const CIRCLECI: Preset = Preset {
    name: "circleci",
    title: "CircleCI",
    signature: Source::Header("circleci-signature"),
    separator: Some(','),
    prefix: "v1=",
    id: body("id"),
    event: body("type"),
    item_key: Some("@delivery"),
    secret_hint: "You choose it: Project Settings, Webhooks, your webhook: Secret token.",
    events_hint: "workflow-completed, job-completed",
    ..BASE
};

pub(super) const SENTRY: Preset = Preset {
    name: "sentry",
    title: "Sentry",
    signature: Source::Header("Sentry-Hook-Signature"),
    id: header("Request-ID"),
    event: header("Sentry-Hook-Resource"),
    event_in_item: true,
    item_key: Some("@delivery"),
    secret_hint: "Sentry, Settings, Developer Settings, your integration: Client Secret.",
    events_hint: "issue, error, metric_alert",
    ..BASE
};

//! Bodies as tools send them, to try a connector without its tool.
//!
//! Whoever sends a test takes one of [`Preset::samples`], fills it, and has it signed by
//! [`Verifier::sign`](super::Verifier::sign). The names and numbers in them are invented.
//!
//! **Invariant**: every preset that checks a signature or a token has a sample, which passes once it is filled and signed.

use super::clock::written;
use super::preset::{Preset, Unit};
use base::clock::Unix;

const JSON: &str = "application/json";
const FORM: &str = "application/x-www-form-urlencoded";

/// A body with places for an id and the time: [`fill`](Sample::fill) puts them in.
#[derive(Debug, Clone, Copy)]
pub struct Sample {
    /// The event's name as the tool writes it, in a header or in the body; for tools that name none, what happened.
    pub event: &'static str,
    /// The body, with `{id}`, `{now}` (RFC 3339) and `{now_s}` (Unix seconds) where those belong.
    pub body: &'static str,
    pub content_type: &'static str,
}

impl Sample {
    /// The body of one delivery. An id is what needs no escape in JSON: letters, digits, `-` and `_`.
    pub fn fill(&self, id: &str, now: Unix) -> String {
        // The id comes last, so that nothing in it is taken for a place.
        self.body
            .trim_end()
            .replace("{now}", &written(Unit::Rfc3339, now))
            .replace("{now_s}", &written(Unit::Seconds, now))
            .replace("{id}", id)
    }
}

impl Preset {
    /// Deliveries worth trying, the most common first; none for tools that are known by an ingest key.
    pub fn samples(&self) -> &'static [Sample] {
        let mut all = SAMPLES.iter();
        all.find(|(name, _)| *name == self.name)
            .map_or(&[], |(_, samples)| samples)
    }
}

/// A sample from the file of this name.
macro_rules! json {
    ($event:literal, $file:literal) => {
        Sample {
            event: $event,
            body: include_str!(concat!("samples/", $file, ".json")),
            content_type: JSON,
        }
    };
}

/// In the order of the table of presets.
static SAMPLES: &[(&str, &[Sample])] = &[
    ("standard", STANDARD),
    ("svix", &[json!("invoice.paid", "svix")]),
    ("stripe", STRIPE),
    ("github", GITHUB),
    ("gitlab", GITLAB),
    ("shopify", SHOPIFY),
    ("slack", SLACK),
    ("twilio", TWILIO),
    ("sendgrid", &[json!("delivered", "sendgrid")]),
    ("mailgun", &[json!("delivered", "mailgun")]),
    ("hubspot", &[json!("contact.propertyChange", "hubspot")]),
    ("zoom", &[json!("meeting.started", "zoom")]),
    ("meta", &[json!("whatsapp_business_account", "meta")]),
    ("x", &[json!("tweet_create_events", "x")]),
    ("discord", &[json!("APPLICATION_AUTHORIZED", "discord")]),
    ("square", SQUARE),
    ("linear", &[json!("Issue", "linear")]),
    ("notion", &[json!("page.properties_updated", "notion")]),
    ("jira", &[json!("jira:issue_updated", "jira")]),
    ("bitbucket", &[json!("repo:push", "bitbucket")]),
    ("paddle", PADDLE),
    (
        "intercom",
        &[json!("conversation.user.created", "intercom")],
    ),
    ("typeform", &[json!("form_response", "typeform")]),
    ("calendly", &[json!("invitee.created", "calendly")]),
    ("dropbox", &[json!("list_folder", "dropbox")]),
    ("telegram", &[json!("message", "telegram")]),
    ("trello", &[json!("updateCard", "trello")]),
    ("graph", &[json!("updated", "graph")]),
    ("pagerduty", &[json!("incident.triggered", "pagerduty")]),
    ("twitch", &[json!("stream.online", "twitch")]),
    ("zendesk", &[json!("ticket.status_changed", "zendesk")]),
    ("line", &[json!("message", "line")]),
    ("circleci", &[json!("workflow-completed", "circleci")]),
    ("sentry", &[json!("issue", "sentry")]),
    ("woocommerce", WOOCOMMERCE),
    ("sns", &[json!("Notification", "sns")]),
    ("pubsub", &[json!("message", "pubsub")]),
    ("paypal", &[json!("PAYMENT.CAPTURE.COMPLETED", "paypal")]),
    (
        "elevenlabs",
        &[json!("post_call_transcription", "elevenlabs")],
    ),
    ("hmac", EXAMPLE),
    ("token", EXAMPLE),
];

const STANDARD: &[Sample] = &[
    json!("user.created", "standard_user_created"),
    json!("user.updated", "standard_user_updated"),
    json!("response.completed", "standard_response_completed"),
];

const STRIPE: &[Sample] = &[
    json!("checkout.session.completed", "stripe_checkout"),
    json!("invoice.paid", "stripe_invoice"),
    json!("customer.subscription.updated", "stripe_subscription"),
];

const GITHUB: &[Sample] = &[
    json!("push", "github_push"),
    json!("issues", "github_issues"),
    json!("pull_request", "github_pull_request"),
    json!("release", "github_release"),
];

const GITLAB: &[Sample] = &[
    json!("Push Hook", "gitlab_push"),
    json!("Issue Hook", "gitlab_issue"),
    json!("Merge Request Hook", "gitlab_merge_request"),
    json!("Pipeline Hook", "gitlab_pipeline"),
];

/// The orders are one order: what a stream holds of it changes, and then it is gone.
const SHOPIFY: &[Sample] = &[
    json!("orders/create", "shopify_orders_create"),
    json!("orders/updated", "shopify_orders_updated"),
    json!("orders/delete", "shopify_orders_delete"),
    json!("products/update", "shopify_products_update"),
];

const SLACK: &[Sample] = &[
    json!("message", "slack_message"),
    json!("app_mention", "slack_app_mention"),
    json!("reaction_added", "slack_reaction_added"),
];

/// Twilio names no events: a message that came in, and the way of one that went out.
const TWILIO: &[Sample] = &[
    Sample {
        event: "received",
        body: "ToCountry=US&SmsMessageSid=SM00000000000000000000000000000042&NumMedia=0&ToCity=&FromZip=\
               &SmsSid=SM00000000000000000000000000000042&FromState=CA&SmsStatus=received&FromCity=\
               &Body=Is+the+shop+open+on+Sunday%3F&FromCountry=US&To=%2B15550100042&NumSegments=1\
               &MessageSid=SM00000000000000000000000000000042&AccountSid=AC00000000000000000000000000000001\
               &From=%2B15550100117&ApiVersion=2010-04-01",
        content_type: FORM,
    },
    Sample {
        event: "delivered",
        body: "SmsSid=SM00000000000000000000000000000043&SmsStatus=delivered&MessageStatus=delivered\
               &To=%2B15550100117&MessageSid=SM00000000000000000000000000000043\
               &AccountSid=AC00000000000000000000000000000001&From=%2B15550100042&ApiVersion=2010-04-01",
        content_type: FORM,
    },
];

const SQUARE: &[Sample] = &[
    json!("payment.updated", "square_payment_updated"),
    json!("order.updated", "square_order_updated"),
];

const PADDLE: &[Sample] = &[
    json!("transaction.completed", "paddle_transaction_completed"),
    json!("subscription.created", "paddle_subscription_created"),
    json!("subscription.updated", "paddle_subscription_updated"),
];

const WOOCOMMERCE: &[Sample] = &[
    json!("order.created", "woocommerce_order_created"),
    json!("order.updated", "woocommerce_order_updated"),
    json!("product.updated", "woocommerce_product_updated"),
];

/// For tools without a row of their own, whose settings say where id and event stand.
const EXAMPLE: &[Sample] = &[json!("example", "hmac")];

//! Rows: payments, shops, forms, calendars and customer service.
//!
//! The table of [`presets`](super::presets) lists them.
//!
//! **Invariant**: facts about a tool, and nothing else.

use super::{BASE, TIMESTAMP_BODY, TIMESTAMP_DOT_BODY, body, header, part, time};
use crate::preset::{Detail, Encoding, Part, Preset, Source, Unit, Way};

pub(super) const STRIPE: Preset = Preset {
    name: "stripe",
    title: "Stripe",
    signature: Source::Header("Stripe-Signature"),
    separator: Some(','),
    prefix: "v1=",
    // Unlike with Standard Webhooks, `whsec_` belongs to the key and nothing is decoded.
    secret_prefix: "whsec_",
    message: TIMESTAMP_DOT_BODY,
    timestamp: part("t="),
    id: body("id"),
    event: body("type"),
    item_key: Some("data.object.id"),
    // Events of the second version carry no object, but say which one it is.
    item_key_or: Some("related_object.id"),
    secret_hint: "Stripe Dashboard, Developers, Webhooks, your endpoint: Signing secret, which begins with whsec_.",
    events_hint: "checkout.session.completed, invoice.paid, customer.subscription.updated",
    version: Some("created"),
    removals: &[
        "customer.deleted",
        "product.deleted",
        "price.deleted",
        "plan.deleted",
        "coupon.deleted",
        "account.deleted",
        "invoice.deleted",
    ],
    ..BASE
};

pub(super) const SHOPIFY: Preset = Preset {
    name: "shopify",
    title: "Shopify",
    signature: Source::EitherHeader("X-Shopify-Hmac-Sha256", "shopify-hmac-sha256"),
    encoding: Encoding::Base64,
    // Not X-Shopify-Event-Id: the deliveries of several topics share it.
    id: Some(Source::EitherHeader(
        "X-Shopify-Webhook-Id",
        "shopify-webhook-id",
    )),
    event: Some(Source::EitherHeader("X-Shopify-Topic", "shopify-topic")),
    event_in_item: true,
    item_key: Some("id"),
    secret_hint: "Shopify admin, Settings, Notifications, Webhooks shows it below the list; for an app it is the client secret.",
    events_hint: "orders/create, orders/updated, products/update, inventory_levels/update",
    version: Some("updated_at"),
    removals: &[
        "orders/delete",
        "products/delete",
        "customers/delete",
        "collections/delete",
        "draft_orders/delete",
        "fulfillments/delete",
        "inventory_items/delete",
        "locations/delete",
    ],
    ..BASE
};

pub(super) const HUBSPOT: Preset = Preset {
    name: "hubspot",
    title: "HubSpot",
    signature: Source::Header("X-HubSpot-Signature-v3"),
    encoding: Encoding::Base64,
    message: &[Part::Method, Part::DecodedUrl, Part::Body, Part::Timestamp],
    timestamp: time(
        Source::Header("X-HubSpot-Request-Timestamp"),
        Unit::Milliseconds,
    ),
    item_key: Some("eventId"),
    secret_hint: "HubSpot developer account, your app, Auth: Client secret.",
    events_hint: "contact.propertyChange, deal.propertyChange",
    ..BASE
};

pub(super) const SQUARE: Preset = Preset {
    name: "square",
    title: "Square",
    signature: Source::Header("x-square-hmacsha256-signature"),
    encoding: Encoding::Base64,
    message: &[Part::Url, Part::Body],
    id: body("event_id"),
    event: body("type"),
    item_key: Some("data.id"),
    secret_hint: "Square Developer Console, your application, Webhooks, your subscription: Signature Key.",
    events_hint: "payment.updated, order.updated",
    version: Some("created_at"),
    removals: &["customer.deleted", "catalog.deleted"],
    ..BASE
};

pub(super) const PADDLE: Preset = Preset {
    name: "paddle",
    title: "Paddle",
    signature: Source::Header("Paddle-Signature"),
    separator: Some(';'),
    prefix: "h1=",
    message: &[Part::Timestamp, Part::Text(":"), Part::Body],
    timestamp: part("ts="),
    id: body("event_id"),
    event: body("event_type"),
    item_key: Some("data.id"),
    answer: 200,
    secret_hint: "Paddle, Developer tools, Notifications, your destination: Secret key, which begins with pdl_ntfset_.",
    events_hint: "transaction.completed, subscription.updated",
    version: Some("occurred_at"),
    ..BASE
};

pub(super) const TYPEFORM: Preset = Preset {
    name: "typeform",
    title: "Typeform",
    signature: Source::Header("Typeform-Signature"),
    prefix: "sha256=",
    encoding: Encoding::Base64,
    id: body("event_id"),
    event: body("event_type"),
    item_key: Some("form_response.token"),
    secret_hint: "You choose it: your form, Connect, Webhooks, your webhook: Secret.",
    ..BASE
};

pub(super) const CALENDLY: Preset = Preset {
    name: "calendly",
    title: "Calendly",
    signature: Source::Header("Calendly-Webhook-Signature"),
    separator: Some(','),
    prefix: "v1=",
    message: TIMESTAMP_DOT_BODY,
    timestamp: part("t="),
    event: body("event"),
    item_key: Some("payload.uri"),
    secret_hint: "You choose it: pass the same text as signing_key when you create the webhook subscription.",
    events_hint: "invitee.created, invitee.canceled",
    ..BASE
};

pub(super) const ZENDESK: Preset = Preset {
    name: "zendesk",
    title: "Zendesk",
    signature: Source::Header("X-Zendesk-Webhook-Signature"),
    encoding: Encoding::Base64,
    message: TIMESTAMP_BODY,
    timestamp: time(
        Source::Header("X-Zendesk-Webhook-Signature-Timestamp"),
        Unit::Rfc3339,
    ),
    id: header("X-Zendesk-Webhook-Invocation-Id"),
    item_key: Some("@delivery"),
    secret_hint: "Zendesk Admin Center, Apps and integrations, Webhooks, your webhook: Reveal secret.",
    ..BASE
};

pub(super) const WOOCOMMERCE: Preset = Preset {
    name: "woocommerce",
    title: "WooCommerce",
    signature: Source::Header("X-WC-Webhook-Signature"),
    encoding: Encoding::Base64,
    id: header("X-WC-Webhook-Delivery-ID"),
    event: header("X-WC-Webhook-Topic"),
    event_in_item: true,
    item_key: Some("id"),
    secret_hint: "You choose it: WooCommerce, Settings, Advanced, Webhooks, your webhook: Secret.",
    events_hint: "Order created, Order updated, Product updated",
    removals: &[
        "order.deleted",
        "product.deleted",
        "customer.deleted",
        "coupon.deleted",
    ],
    ..BASE
};

pub(super) const PAYPAL: Preset = Preset {
    name: "paypal",
    title: "PayPal",
    way: Way::Paypal,
    signature: Source::Header("PAYPAL-TRANSMISSION-SIG"),
    message: &[],
    // The time is that of the event, and PayPal tries for three days.
    tolerance_seconds: 0,
    id: body("id"),
    event: body("event_type"),
    item_key: Some("resource.id"),
    secret_hint: "The certificate in PEM that the header PAYPAL-CERT-URL of any delivery leads to.",
    details: &[Detail {
        name: "webhook_id",
        label: "Webhook ID",
        hint: "PayPal Developer Dashboard, Apps & Credentials, your app, Webhooks: the Webhook ID beside the URL.",
        without: None,
    }],
    events_hint: "PAYMENT.CAPTURE.COMPLETED, PAYMENT.CAPTURE.REFUNDED, CHECKOUT.ORDER.APPROVED",
    ..BASE
};

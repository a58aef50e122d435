//! How to send to a connector: the URL for its provider, its settings, and example requests.
//!
//! **Invariant**: the text of a key appears only in [`issued`], which is shown once.

use std::fmt::Write as _;

use maud::{Markup, html};
use salvo_core::Depot;

use super::{identity, own_secret, trial};
use crate::frame;
use crate::key::shown_once;
use crate::origin::origin;
use crate::snippets::{Address, Sample};
use crate::text::{bytes, grouped, text};
use crate::{description, paths, tool};
use catalog::{Connector, IngestKey, KeyState};
pub(super) use http::sessions::IssuedKey;
use operate::Operator;
use webhook::{Path, Preset, SetupPlaces, ToolSetup};

/// The new key, and example requests that contain it.
pub(super) fn issued(connector: &Connector, address: &Address, issued: &IssuedKey) -> Markup {
    let key = connector.key(&issued.key);
    if let Some(key) = key.filter(|key| key.verify().is_some()) {
        return own_secret::taken(key, issued);
    }
    html! {
        div.panel.made {
            (shown_once::panel(issued, "key"))
            @if let Some(key) = key {
                @if key.allow_in_url {
                    p { "The URL to paste into " (tool::name_within(key.preset)) ". It contains the key, so it is not shown again:" }
                    div.copy data-once {
                        code #url-with-key { (address.for_tools(&key.path())) "?access_token=" (issued.secret.expose()) }
                        button type="button" data-copy="url-with-key" { "Copy" }
                    }
                }
                p { "A first request to " (text(&key.stream)) ", ready to paste:" }
                (shown_once::snippets(address, &Sample::of(key), Some(issued)))
            }
        }
    }
}

/// How to send to the connector: shown with a new key, and before the first request.
pub(super) fn all(
    operator: &Operator,
    connector: &Connector,
    address: &Address,
    depot: &Depot,
    shows_test: bool,
) -> Markup {
    html! {
        (in_the_tool(connector, address, operator.catalog.public_url()))
        (facts(operator, connector, address))
        (trial::panel(connector, &frame::token(depot)))
        @if shows_test { (test(connector, address)) }
    }
}

/// Instructions for the provider of the preset, if any.
fn in_the_tool(connector: &Connector, address: &Address, public: Option<&str>) -> Markup {
    let Some(preset) = connector.preset() else {
        return html! {};
    };
    let keys = connector.keys.iter();
    let keys = keys.filter(|key| is_of_tool(key) && key.state() == KeyState::Active);
    let mut urls: Vec<(&str, String, bool)> = keys
        .map(|key| (&*key.stream, key.path(), key.allow_in_url))
        .collect();
    urls.sort_unstable();
    urls.dedup_by(|next, kept| {
        let is_same = next.1 == kept.1;
        kept.2 |= is_same && next.2;
        is_same
    });
    let within = tool::name_within(Some(preset));
    html! {
        @if !urls.is_empty() {
            div.panel #in-the-tool {
                @for (place, (stream, path, in_url)) in urls.iter().enumerate() {
                    p { "The URL to paste into " (within) @if urls.len() > 1 { ", for " (text(stream)) } ":" }
                    (copied(&format!("tool-url-{place}"), &address.for_tools(path)))
                    @if *in_url { p.quiet { "It ends with the key: " code { "?access_token=" } " and the URL is shown once, when the key is created. A new key is shown with its URL." } }
                }
                @if public.is_none() {
                    p { "This is the address of the service here. A tool needs the public address: set " code { "server.public_url" } " in the configuration to the part before " code { "/api" } " there, and this page shows the whole URL." }
                }
                @if !preset.events_hint.is_empty() { p { "Events worth choosing: " (preset.events_hint) } }
                @if let (Some(setup), Some((stream, path, _))) = (&preset.setup, urls.first()) {
                    (own_settings(setup, stream, &address.for_tools(path)))
                }
            }
        }
    }
}

/// The provider's own settings, without the key.
fn own_settings(setup: &ToolSetup, stream: &str, url: &str) -> Markup {
    let key = "ik_live_…";
    let places = SetupPlaces { url, key, stream };
    html! {
        @if let Some(snippet) = &setup.snippet {
            p { "With the key in a header, for " @if let Some(file) = &setup.file { code { (file) } } @else { "its configuration" } ", in place of " code { (key) } ":" }
            pre tabindex="0" { code #tool-settings { (places.fill(snippet).trim_matches('\n')) } }
            button.plain type="button" data-copy="tool-settings" { "Copy" }
        }
        @if !setup.steps.is_empty() {
            p { "With the key in place of " code { (key) } ":" }
            ol { @for step in &setup.steps { li { (places.fill(step)) } } }
        }
    }
}

/// The settings of a connector, and links to its forms.
fn facts(operator: &Operator, connector: &Connector, address: &Address) -> Markup {
    let path = paths::connector(&connector.name);
    let preset = connector.preset();
    let items = (connector.items.as_deref()).or_else(|| preset?.items.as_ref().map(Path::text));
    let signs = |key: &IngestKey| key.signing.is_some();
    html! {
        div.panel {
            dl {
                (description::fact(connector.description.as_deref()))
                dt { "Kind" } dd { (connector.kind.as_str()) }
                @if let Some(preset) = preset {
                    dt { "Tool" } dd { (preset.title) }
                    dt { "Verified by" } dd { (verified_by(connector, preset)) }
                }
                dt { "Item key" } dd { (identity::fact(connector)) }
                @if let Some(items) = items { dt { "Items path" } dd { (text(items)) } }
                dt { "Can remove items" } dd { @if connector.may_delete() { "yes" } @else { "no" } }
                dt { "Limit per key" } dd { (limit(operator, connector)) }
                @for (place, stream) in plain_streams(connector).iter().enumerate() {
                    dt { "Webhook URL for " (text(stream)) }
                    dd { (copied(&format!("url-{place}"), &address.for_tools(&connector.path(stream)))) }
                }
                @if !connector.keys.iter().all(|key| signs(key)) || connector.keys.is_empty() {
                    dt { "Ingest URL" } dd { (copied("url", &address.ingest_url())) }
                }
                dt { "Created" } dd { (origin(operator, "connectors", &connector.name, connector.created_at)) }
            }
            @if connector.created_at.is_some() {
                p.row {
                    a.button.plain href={ (path) "/change" } { "Change" }
                    a.button.danger href={ (path) "/delete" } { "Delete…" }
                }
            }
        }
    }
}

/// Example requests, without the key.
fn test(connector: &Connector, address: &Address) -> Markup {
    let mut keys: Vec<&IngestKey> = connector.keys.iter().map(|key| &**key).collect();
    keys.sort_by_key(|key| &*key.stream);
    let sends = keys.iter().find(|key| key.signing.is_none());
    html! {
        @if let Some(key) = sends {
            div.panel {
                p { "Send a test. Set the variable to the key's secret: " code { "HEADGATE_KEY" } "; it is not shown here." }
                (shown_once::snippets(address, &Sample::of(key), None))
            }
        } @else if !keys.is_empty() && trial::tool_of(connector).is_none() {
            p.panel { "To send a test, use the tool's own test: most tools have a button next to the URL." }
        }
    }
}

/// How the requests are authenticated.
fn verified_by(connector: &Connector, preset: &Preset) -> Markup {
    let signing = connector.keys.iter().filter_map(|key| {
        let verify = key.verify().filter(|_| key.state() == KeyState::Active)?;
        Some((key, verify))
    });
    let signing: Vec<_> = signing.collect();
    html! {
        @for (place, (key, verify)) in signing.iter().enumerate() {
            @if place > 0 { br; }
            @if verify.awaits_secret() { "nothing yet: the key " (text(&key.name)) " has no secret" }
            @else { (tool::scheme(&verify.options.scheme)) ", secret " span.mono { (text(&verify.shown())) "…" } " of the key " (text(&key.name)) }
        }
        @if signing.is_empty() {
            @if preset.signed() { "its key: no key of this connector verifies signatures" } @else { "its key, in the URL or in a header" }
        }
    }
}

/// Whether requests with this key go to the URL of the connector.
fn is_of_tool(key: &IngestKey) -> bool {
    key.signing.is_some() || key.preset.is_some()
}

/// The streams that have keys without a preset and without signatures.
fn plain_streams(connector: &Connector) -> Vec<&str> {
    let is_plain = |stream: &&str| {
        let mut keys = connector.keys.iter();
        keys.any(|key| *key.stream == **stream && !is_of_tool(key))
    };
    connector.streams().into_iter().filter(is_plain).collect()
}

fn copied(id: &str, url: &str) -> Markup {
    html! { div.copy { code id=(id) { (url) } button.plain type="button" data-copy=(id) { "Copy" } } }
}

fn limit(operator: &Operator, connector: &Connector) -> String {
    let limits = operator.catalog.limits();
    let mut words = format!(
        "{} requests per second, {} at once",
        grouped(
            (connector
                .requests_per_second
                .unwrap_or(limits.requests_per_second))
            .into()
        ),
        grouped((connector.burst.unwrap_or(limits.burst)).into())
    );
    let of_second = connector
        .bytes_per_second
        .unwrap_or(limits.bytes_per_second);
    let of_day = connector.bytes_per_day.unwrap_or(limits.bytes_per_day);
    for (max, time) in [(of_second, "second"), (of_day, "day")] {
        if max > 0 {
            let _ = write!(words, ", {} per {time}", bytes(max));
        }
    }
    words
}

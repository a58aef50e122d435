//! `headers`: a line with the proxies that are trusted, then headers of a request.
//!
//! What is read of them is compared with what plain sentences of the guide say. Whatever a stranger writes before it,
//! what a trusted proxy adds counts. Lines of the log hold no secret.

use std::net::IpAddr;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;

use http::forwarded::hops::client;
use ingest::headers::{form, idempotency_key, item_key, secret};
use ingest::loggable_headers;
use journal::log::Endpoint;
use settings::{Network, ProxyHeader};
use webhook::Headers;
use webhook::body::Form;

use crate::request::Request;

/// An answer to a stranger is short.
const MESSAGE_BYTES_MAX: usize = 1_024;
/// Of all lines in the log.
const LOGGED_BYTES_MAX: usize = 512;
/// What a proxy adds, and no network of the input holds.
const STRANGER: &str = "192.0.2.200";
/// Names that are looked at.
const HOPS_MAX: usize = 32;

/// Reads the headers of a request.
pub(super) fn headers(input: &[u8]) {
    let request = Request::of(input);
    let pairs: Vec<(&str, &[u8])> = (request.headers.iter())
        .map(|(name, value)| (name.as_str(), *value))
        .filter(|(name, value)| is_name(name) && is_value(value))
        .collect();
    for (_, value) in &pairs {
        keys(value);
        authorization(value);
    }
    forms(&pairs);
    logged(&pairs);
    forwarded(&request, &pairs);
}

/// What HTTP libraries let through.
fn is_name(name: &str) -> bool {
    let token = |byte: u8| byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&byte);
    !name.is_empty() && name.bytes().all(token)
}

fn is_value(value: &[u8]) -> bool {
    value
        .iter()
        .all(|byte| *byte == b'\t' || (*byte >= 0x20 && *byte != 0x7f))
}

/// The name of a field is text, the key of a repeat any bytes, which it gives back.
fn keys(value: &[u8]) {
    let text = std::str::from_utf8(value).ok().map(str::trim);
    let name = text.filter(|text| (1..=1_024).contains(&text.len()));
    match item_key(Some(value)) {
        Ok(found) => assert_eq!(found.as_deref(), Some(name.expect("a name"))),
        Err(error) => {
            assert_eq!(name, None);
            short(&error.to_string());
        }
    }
    let whole = value.trim_ascii();
    let fits = (1..=255).contains(&whole.len());
    match idempotency_key(Some(value)) {
        Ok(found) => {
            let found = found.expect("a key");
            let bytes: Option<Vec<u8>> = match found.strip_suffix(' ') {
                None => Some(found.as_bytes().to_vec()),
                Some(latin) => latin.chars().map(|one| u8::try_from(one).ok()).collect(),
            };
            assert!(fits && bytes.as_deref() == Some(whole));
        }
        Err(error) => {
            assert!(!fits);
            short(&error.to_string());
        }
    }
}

fn short(message: &str) {
    assert!(
        !message.is_empty() && message.len() <= MESSAGE_BYTES_MAX,
        "{message}"
    );
    assert!(!message.chars().any(char::is_control), "{message}");
}

/// A secret is a part of what was sent, and is found however it is sent.
fn authorization(value: &[u8]) {
    if let Some(found) = secret(Some(value)) {
        let whole = String::from_utf8_lossy(value);
        let (scheme, _) = whole.trim().split_once(' ').expect("a scheme");
        match scheme.to_ascii_lowercase().as_bytes() {
            b"bearer" => assert!(whole.trim().ends_with(&*found)),
            b"basic" => {}
            other => panic!("{}", String::from_utf8_lossy(other)),
        }
    }
    let Ok(text) = std::str::from_utf8(value) else {
        return;
    };
    let one = text.trim();
    if !one.is_empty() {
        let bearer = format!("BeArEr  {one} ");
        assert_eq!(secret(Some(bearer.as_bytes())).as_deref(), Some(one));
    }
    // The password is what follows the first colon, or else the name.
    for both in [
        format!("a name:{text}"),
        format!("{text}:"),
        text.to_owned(),
    ] {
        let (name, password) = both.split_once(':').unwrap_or((&both, ""));
        let expected = if password.is_empty() { name } else { password };
        let basic = format!("basic {}", BASE64.encode(&both));
        // With nothing in it, nothing stands after the scheme.
        if !both.is_empty() {
            assert_eq!(secret(Some(basic.as_bytes())).as_deref(), Some(expected));
        }
    }
}

/// A body is JSON if its type says so in one of two ways; tools say more.
fn forms(pairs: &[(&str, &[u8])]) {
    let headers = Headers(pairs);
    let mut found = pairs.iter().filter(|(name, _)| *name == "content-type");
    let given = found.next().map(|(_, value)| *value);
    let is_json = given.is_some_and(|given| {
        let text = String::from_utf8_lossy(given).to_lowercase();
        let (essence, _) = text.split_once(';').unwrap_or((&text, ""));
        let (kind, subtype) = essence.trim().split_once('/').unwrap_or_default();
        let suffix = subtype.strip_suffix("+json");
        (kind == "application" && subtype == "json")
            || (!kind.is_empty() && suffix.is_some_and(|before| !before.is_empty()))
    });
    let is_utf8 = |given: &[u8]| {
        let text = String::from_utf8_lossy(given).to_lowercase();
        (text
            .split(';')
            .skip(1)
            .filter_map(|one| one.split_once('=')))
        .filter(|(name, _)| name.trim() == "charset")
        .map(|(_, value)| value.trim().trim_matches('"').to_owned())
        .all(|value| ["utf-8", "utf8", "us-ascii", "ascii"].contains(&&*value))
    };
    let plain = Form::json(Some(b"application/json"), None).expect("JSON");
    match form(given, None, false) {
        Ok(form) => assert!(is_json && form == plain, "{given:?}"),
        Err(error) => {
            assert!(!is_json || !given.is_some_and(is_utf8), "{given:?}");
            short(&error.to_string());
        }
    }
    let encoding = headers.get("content-encoding").map(str::as_bytes);
    for at_address in [false, true] {
        if let Err(error) = form(given, encoding, at_address) {
            short(&error.to_string());
        }
    }
}

/// A line is a header as it came, or its name alone; together they are short, and no secret is among them.
fn logged(pairs: &[(&str, &[u8])]) {
    for endpoint in [Endpoint::Ingest, Endpoint::Webhook] {
        let Some(lines) = loggable_headers(endpoint, || pairs.iter().copied()) else {
            continue;
        };
        assert!((1..=LOGGED_BYTES_MAX).contains(&lines.len()) && lines.ends_with('\n'));
        assert!(lines.lines().count() <= pairs.len());
        for line in lines.lines() {
            let (name, value) = match line.split_once(": ") {
                Some((name, value)) => (name, Some(value)),
                None => (line, None),
            };
            let mut given = pairs.iter().filter(|(given, _)| *given == name);
            let always = ["user-agent", "content-type"].contains(&name);
            assert!(always || endpoint == Endpoint::Webhook, "{line}");
            let Some(value) = value else {
                assert!(given.next().is_some(), "{line}");
                continue;
            };
            let begin = value.strip_suffix('…').unwrap_or(value);
            assert!(
                given.any(|(_, given)| String::from_utf8_lossy(given).starts_with(begin)),
                "{line}"
            );
            for word in ["authorization", "cookie", "signature", "token", "secret"] {
                assert!(!name.contains(word), "{line}");
            }
            for begin in ["ik_", "rk_", "whsec_", "bearer ", "basic "] {
                assert!(!value.to_ascii_lowercase().contains(begin), "{line}");
            }
        }
    }
}

/// What a trusted proxy adds at the end is believed, whatever came before it.
fn forwarded(request: &Request<'_>, pairs: &[(&str, &[u8])]) {
    let stranger: IpAddr = STRANGER.parse().expect("an address");
    let networks: Vec<Network> = (request.words.iter())
        .filter_map(|word| word.parse().ok())
        .filter(|network: &Network| !network.contains(stranger))
        .collect();
    let is_trusted = |address| networks.iter().any(|network| network.contains(address));
    for (header, name) in [
        (ProxyHeader::XForwardedFor, "x-forwarded-for"),
        (ProxyHeader::Forwarded, "forwarded"),
    ] {
        let given = pairs.iter().filter(|(given, _)| *given == name);
        let mut lines: Vec<&str> = given
            .filter_map(|(_, value)| std::str::from_utf8(value).ok())
            .collect();
        let found = client(header, &lines, is_trusted);
        assert_eq!(found, reference(header, &lines.join(","), is_trusted));

        let added = match header {
            ProxyHeader::XForwardedFor | ProxyHeader::ProxyProtocol => STRANGER.to_owned(),
            ProxyHeader::Forwarded => format!("proto=https;For=\"{STRANGER}:443\""),
        };
        let last = format!("{}, {added}", lines.pop().unwrap_or_default());
        lines.push(&last);
        assert_eq!(
            client(header, &lines, is_trusted),
            Some(stranger),
            "{lines:?}"
        );
        lines.pop();
        lines.push(&added);
        assert_eq!(
            client(header, &lines, is_trusted),
            Some(stranger),
            "{lines:?}"
        );
    }
}

/// Reads all names, then drops proxies from the end.
fn reference(
    header: ProxyHeader,
    all: &str,
    is_trusted: impl Fn(IpAddr) -> bool,
) -> Option<IpAddr> {
    let hops: Vec<Option<IpAddr>> = all
        .split(',')
        .map(|hop| match header {
            ProxyHeader::XForwardedFor | ProxyHeader::ProxyProtocol => address(hop.trim()),
            ProxyHeader::Forwarded => {
                let mut named = hop.split(';').map(str::trim).filter(|pair| {
                    let name = pair.get(..4);
                    name.is_some_and(|name| name.eq_ignore_ascii_case("for="))
                });
                address(named.next()?["for=".len()..].trim_matches('"'))
            }
        })
        .collect();
    let last = &hops[hops.len().saturating_sub(HOPS_MAX)..];
    let known: Vec<IpAddr> = last.iter().rev().map_while(|hop| *hop).collect();
    let own = known.iter().find(|address| !is_trusted(**address));
    own.or(known.last()).copied()
}

/// An address, with brackets or without, and what follows a colon left out.
fn address(text: &str) -> Option<IpAddr> {
    let bare = match text.strip_prefix('[') {
        Some(rest) => &rest[..rest.find(']')?],
        None if text.parse::<IpAddr>().is_ok() => text,
        None => text.split(':').next()?,
    };
    let address: IpAddr = bare.parse().ok()?;
    Some(address.to_canonical())
}

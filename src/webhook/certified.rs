//! Tools that sign with the key of a certificate: Amazon SNS, whose signature stands in the body, and PayPal.
//!
//! The [`Verifier`](super::Verifier) calls these in place of the general check.
//!
//! **Invariant**: no certificate is fetched. What a delivery says of its certificate is shown to people, and decides
//! nothing.

use serde_json::Value;

use super::certificate::{Certificates, Signed};
use super::key::decode;
use super::layout::Layout;
use super::preset::{Encoding, Preset, Unit};
use super::rsa::Hash;
use super::{Delivery, Headers, InvalidVerifier, Options, Refused, clock, field};
use base::clock::Unix;

const SIGNATURE: &str = "PAYPAL-TRANSMISSION-SIG";
const RAW: &str = "raw message delivery omits the signature; disable it for the subscription, or give SNS a key in the URL (`?access_token=`)";
const NOTIFICATION: &str = "Notification";
pub(super) const SUBSCRIBED: &str = "SubscriptionConfirmation";
pub(super) const UNSUBSCRIBED: &str = "UnsubscribeConfirmation";
const ADDRESS_LEN_MAX: usize = 256;
const SHOWN_CHARS_MAX: usize = 200;

/// What deliveries of one topic must have.
pub(super) struct Sns {
    certificates: Certificates,
    /// SNS signs for everybody who has an account; only the topic says whose message it is.
    topic: String,
}

impl Sns {
    pub(super) fn new(
        preset: &Preset,
        options: &Options,
        secret: &str,
    ) -> Result<Sns, InvalidVerifier> {
        Ok(Sns {
            certificates: Certificates::of(preset, secret)?,
            topic: options.topic.clone().unwrap_or_default(),
        })
    }

    pub(super) fn certificates(&self) -> &Certificates {
        &self.certificates
    }

    pub(super) fn head(headers: Headers<'_>) -> Result<(), Refused> {
        match headers.get("x-amz-sns-rawdelivery") {
            Some("true") => Err(Refused::header(RAW)),
            _ => Ok(()),
        }
    }

    /// The whole check. The signature is the same for every topic of a region, so that the topic must be the one.
    pub(super) fn check(&self, delivery: &Delivery<'_>) -> Result<(), Refused> {
        Sns::head(delivery.headers)?;
        let body = field::parse(delivery.body).unwrap_or_default();
        let text = |name: &str| body.get(name).and_then(Value::as_str);
        let Some(signature) = text("Signature") else {
            return Err(Refused::body(format!("the body has no `Signature`; {RAW}")));
        };
        let hash = match text("SignatureVersion") {
            Some("1") => Hash::Sha1,
            Some("2") => Hash::Sha256,
            _ => {
                return Err(Refused::body(
                    "the body's `SignatureVersion` is missing or unknown; expected 1 or 2",
                ));
            }
        };
        let message = sns_message(&body)?;
        let certificate_at = text("SigningCertURL");
        let signed = Signed {
            name: "the signature in the body",
            hash,
            message: message.as_bytes(),
            signature: &decode(signature, Encoding::Base64).unwrap_or_default(),
            certificate_at: certificate_at.filter(|url| is_certificate_of(url, is_sns)),
        };
        self.certificates.check(&signed, delivery.now)?;
        let topic = text("TopicArn").unwrap_or_default();
        if topic == self.topic {
            return Ok(());
        }
        let shown: String = topic.chars().take(SHOWN_CHARS_MAX).collect();
        let shown = shown.escape_debug();
        let message = format!(
            "the topic is `{shown}`; the key accepts only `{}`",
            self.topic
        );
        Err(Refused::body(message))
    }
}

/// The names and values that SNS signs, a line for each.
///
/// A line break in a value could make one message out of another, in which the lines mean something else: only the text
/// itself may have them, and what comes last is one of three words.
fn sns_message(body: &Value) -> Result<String, Refused> {
    let kind = body.get("Type").and_then(Value::as_str);
    let names: &[&str] = match kind {
        Some(NOTIFICATION) => &[
            "Message",
            "MessageId",
            "Subject",
            "Timestamp",
            "TopicArn",
            "Type",
        ],
        Some(SUBSCRIBED | UNSUBSCRIBED) => &[
            "Message",
            "MessageId",
            "SubscribeURL",
            "Timestamp",
            "Token",
            "TopicArn",
            "Type",
        ],
        _ => {
            return Err(Refused::body(
                "`Type` of the body is missing, or SNS does not sign it",
            ));
        }
    };
    let mut message = String::new();
    for name in names {
        let value = match body.get(*name) {
            Some(Value::String(value)) => value,
            Some(Value::Null) | None if *name == "Subject" => continue,
            _ => {
                return Err(Refused::body(format!(
                    "`{name}` of the body is missing or not a string"
                )));
            }
        };
        if *name != "Message" && value.chars().any(char::is_control) {
            return Err(Refused::body(format!("`{name}` has a control character")));
        }
        message.extend([name, "\n", value, "\n"]);
    }
    Ok(message)
}

/// What deliveries to one webhook of PayPal must have.
pub(super) struct Paypal {
    certificates: Certificates,
    /// The id is signed but not sent, so that a delivery to another webhook does not pass.
    webhook_id: String,
    tolerance_seconds: u64,
}

/// What PayPal says in headers.
struct PaypalHead<'a> {
    id: &'a str,
    time: &'a str,
    signature: Vec<u8>,
}

impl Paypal {
    pub(super) fn new(
        preset: &Preset,
        options: &Options,
        layout: &Layout,
        secret: &str,
    ) -> Result<Paypal, InvalidVerifier> {
        Ok(Paypal {
            certificates: Certificates::of(preset, secret)?,
            webhook_id: options.webhook_id.clone().unwrap_or_default(),
            tolerance_seconds: layout.verify.tolerance_seconds,
        })
    }

    pub(super) fn certificates(&self) -> &Certificates {
        &self.certificates
    }

    pub(super) fn head(&self, headers: Headers<'_>, now: Unix) -> Result<(), Refused> {
        self.read_head(headers, now).map(drop)
    }

    fn read_head<'a>(&self, headers: Headers<'a>, now: Unix) -> Result<PaypalHead<'a>, Refused> {
        let id = headers.needed("PAYPAL-TRANSMISSION-ID")?;
        let time = headers.needed("PAYPAL-TRANSMISSION-TIME")?;
        clock::check(time, Unit::Rfc3339, self.tolerance_seconds, now)?;
        let signature = decode(headers.needed(SIGNATURE)?, Encoding::Base64);
        let signature = signature.ok_or_else(|| {
            Refused::signature(format!("the signature in {SIGNATURE} is not padded Base64"))
        })?;
        Ok(PaypalHead {
            id,
            time,
            signature,
        })
    }

    /// The whole check. Of the body PayPal signs the CRC-32 only.
    pub(super) fn check(&self, delivery: &Delivery<'_>) -> Result<(), Refused> {
        let head = self.read_head(delivery.headers, delivery.now)?;
        let checksum = crc32fast::hash(delivery.body);
        let message = format!("{}|{}|{}|{checksum}", head.id, head.time, self.webhook_id);
        let certificate_at = delivery.headers.get("PAYPAL-CERT-URL");
        let signed = Signed {
            name: &format!("the signature in {SIGNATURE}"),
            hash: Hash::Sha256,
            message: message.as_bytes(),
            signature: &head.signature,
            certificate_at: certificate_at.filter(|url| is_certificate_of(url, is_paypal)),
        };
        self.certificates.check(&signed, delivery.now)
    }
}

/// Whether this is the plain address of a file at a host of the tool, and so fit to be shown. Another address in a
/// message could lead an operator to a foreign certificate.
fn is_certificate_of(url: &str, is_own: fn(&str) -> bool) -> bool {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-_./".contains(&byte);
    let rest = url.strip_prefix("https://").unwrap_or_default();
    let parts = rest.split_once('/');
    url.len() <= ADDRESS_LEN_MAX
        && rest.bytes().all(plain)
        && parts.is_some_and(|(host, _)| is_own(host))
}

/// Whether this is the name of a host of SNS.
pub(super) fn is_sns(host: &str) -> bool {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'-' || byte == b'.';
    let amazon = host.ends_with(".amazonaws.com") || host.ends_with(".amazonaws.com.cn");
    host.starts_with("sns.") && amazon && host.bytes().all(plain)
}

fn is_paypal(host: &str) -> bool {
    host.ends_with(".paypal.com")
}

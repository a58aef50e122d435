//! What a row of the table of senders can say.
//!
//! `presets` holds the rows; a [`Verifier`](super::Verifier) reads them, and so do lists and pages.
//!
//! **Invariant**: a row is data. A tool that signs as others do needs no code.

use super::Headers;

/// How a tool signs, names and greets.
#[derive(Debug, Clone, Copy)]
pub struct Preset {
    /// The name in settings: `github`.
    pub name: &'static str,
    /// The name for people: `GitHub`.
    pub title: &'static str,
    /// What there is to check.
    pub way: Way,
    /// Where signatures, or the token, stand.
    pub signature: Source<&'static str>,
    /// A header that carries the secret itself, for secrets that do not begin with `whsec_` or `whpk_`.
    pub token_header: Option<&'static str>,
    /// What stands between several signatures in the header.
    pub separator: Option<char>,
    /// How signatures begin; parts of the header without it are ignored.
    pub prefix: &'static str,
    /// How the message is signed.
    pub algorithm: Algorithm,
    /// How signatures are written.
    pub encoding: Encoding,
    /// How the secret is written.
    pub secret: SecretForm,
    /// How every secret of this tool begins; it stays part of the key.
    pub secret_prefix: &'static str,
    /// What is signed, one after the other.
    pub message: &'static [Part<&'static str>],
    /// Where the timestamp stands.
    pub timestamp: Option<Time<&'static str>>,
    /// How far the timestamp may be from this machine's clock; 0 checks no clock.
    pub tolerance_seconds: u64,
    /// Where the delivery's id stands.
    pub id: Option<Source<&'static str>>,
    /// The field of the body within which an id is one of its own.
    pub id_scope: Option<&'static str>,
    /// Where the event's name stands.
    pub event: Option<Source<&'static str>>,
    /// The event's name stands in a header only, so it becomes the field `_event`.
    pub event_in_item: bool,
    /// The field that names an item; `@delivery` is the delivery's id.
    pub item_key: Option<&'static str>,
    /// The field that names an item where all of a delivery lack the first.
    pub item_key_or: Option<&'static str>,
    /// The array that holds the items.
    pub items: Option<&'static str>,
    /// The field that says how new an item is, a number or a time.
    pub version: Option<&'static str>,
    /// Events that remove the item.
    pub removals: &'static [&'static str],
    /// Fields that hold the secret, and are left out of the items.
    pub omit: &'static [&'static str],
    /// The status of the answer to a delivery.
    pub answer: u16,
    /// Events that are answered and not stored.
    pub ignore: &'static [&'static str],
    /// What the tool asks before or between deliveries.
    pub handshake: Option<Handshake>,
    /// Where the tool shows its secret, in one sentence.
    pub secret_hint: &'static str,
    /// What is to be set beside the secret, for a tool whose signatures say nothing else of whom they are for.
    pub details: &'static [Detail],
    /// Events worth choosing, or nothing.
    pub events_hint: &'static str,
    /// Whether the tool tries again after a 4xx such as 429.
    pub retries_4xx: bool,
}

impl Preset {
    /// Whether a [`Verifier`](super::Verifier) can be made for it. The others need an ingest key.
    pub fn signed(&self) -> bool {
        self.way != Way::Key
    }

    /// What stands in place of a secret for a tool that signs with a private key and publishes the rest in a file;
    /// `None` for the others.
    pub fn published(&self) -> Option<&'static str> {
        match self.way {
            Way::Sns | Way::Paypal => Some("certificate"),
            Way::Pubsub => Some("key set"),
            Way::Signature | Way::Token | Way::Twilio | Way::Mailgun | Way::Graph | Way::Key => {
                None
            }
        }
    }

    /// Whether it stands for no tool of its own: `hmac` and `token`.
    pub fn is_generic(&self) -> bool {
        matches!(self.name, "hmac" | "token")
    }

    /// The methods of its handshake beside `POST`.
    pub fn methods(&self) -> &'static [&'static str] {
        match self.handshake {
            Some(Handshake::ResponseToken | Handshake::VerifyToken) => &["GET"],
            Some(Handshake::Query { method: "GET", .. }) => &["GET"],
            Some(Handshake::Head) => &["HEAD"],
            Some(Handshake::Keyed { methods }) => methods,
            Some(
                Handshake::Signed { .. }
                | Handshake::Query { .. }
                | Handshake::EncryptedToken
                | Handshake::Subscription
                | Handshake::OwnSecret { .. },
            )
            | None => &[],
        }
    }

    /// The field of the body in which the tool sends its own secret before it signs; only for such a tool may the secret
    /// be left out at first.
    pub fn sends_secret(&self) -> Option<&'static str> {
        match self.handshake {
            Some(Handshake::OwnSecret { field }) => Some(field),
            _ => None,
        }
    }

    /// Whether it signs the URL that it was given.
    pub fn signs_url(&self) -> bool {
        let url = |part: &Part<_>| matches!(part, Part::Url | Part::DecodedUrl);
        self.way == Way::Twilio || self.message.iter().any(url)
    }

    /// Whether deliveries hold the secret itself, so that they must not be kept as they are.
    pub fn has_secret_in_body(&self) -> bool {
        self.way == Way::Graph
    }
}

/// What there is to check of a delivery.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Way {
    /// A signature over the message that the row describes.
    Signature,
    /// The secret itself, in a header.
    Token,
    /// Twilio's signature over the URL and the sorted form.
    Twilio,
    /// Mailgun's signature, which stands in the body.
    Mailgun,
    /// Microsoft Graph's `clientState`, which stands in every notification.
    Graph,
    /// Amazon SNS's signature, which stands in the body, by the key of a certificate.
    Sns,
    /// PayPal's signature, by the key of a certificate.
    Paypal,
    /// Google Pub/Sub's token, signed by a key of a set.
    Pubsub,
    /// Nothing is signed: an ingest key has to stand in the URL or in a header.
    Key,
}

/// A setting that a tool has alone.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Detail {
    /// Its name in settings: `topic`.
    pub name: &'static str,
    /// Its name for people: `Topic ARN`.
    pub label: &'static str,
    /// Where the tool shows it, in one sentence.
    pub hint: &'static str,
    /// Who can send where it is missing, in one sentence; none: it must not be missing.
    pub without: Option<&'static str>,
}

/// How a message is signed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Algorithm {
    /// HMAC with SHA-1.
    HmacSha1,
    /// HMAC with SHA-256.
    HmacSha256,
    /// HMAC with SHA-384.
    HmacSha384,
    /// HMAC with SHA-512.
    HmacSha512,
    Ed25519,
    /// ECDSA over P-256 with SHA-256, signatures in DER.
    P256,
}

/// How a signature is written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Encoding {
    /// Hexadecimal digits, either case.
    Hex,
    /// Base64 of the standard alphabet, padded.
    Base64,
}

/// How a secret is written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SecretForm {
    /// As it is.
    Text,
    /// Hexadecimal digits.
    Hex,
    /// Base64 of the standard alphabet, padded.
    Base64,
    /// `whsec_` and Base64 of a key, or `whpk_` and Base64 of a public key (Standard Webhooks).
    Whsec,
    /// A public key: Base64 of its DER form (SPKI).
    PublicDer,
    /// A public key in hexadecimal digits.
    PublicHex,
}

/// A piece of what is signed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Part<S = String> {
    /// The body as it came.
    Body,
    /// The timestamp as it came.
    Timestamp,
    /// The delivery's id.
    Id,
    /// The URL that the sender was given, with the query.
    Url,
    /// The URL with some escapes undone, as HubSpot has it.
    DecodedUrl,
    Method,
    /// Fixed text.
    Text(S),
}

impl Part<&'static str> {
    pub(super) fn owned(self) -> Part {
        match self {
            Part::Body => Part::Body,
            Part::Timestamp => Part::Timestamp,
            Part::Id => Part::Id,
            Part::Url => Part::Url,
            Part::DecodedUrl => Part::DecodedUrl,
            Part::Method => Part::Method,
            Part::Text(text) => Part::Text(text.to_owned()),
        }
    }
}

/// A timestamp: where it stands and how it is written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Time<S = String> {
    /// Where it stands.
    pub place: Place<S>,
    /// How it is written.
    pub unit: Unit,
}

/// Where a timestamp stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Place<S = String> {
    /// In the part of the signature header that begins so.
    Part(S),
    /// In a header or in the body.
    Source(Source<S>),
}

/// How a timestamp is written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Unit {
    /// Unix seconds.
    Seconds,
    /// Unix milliseconds.
    Milliseconds,
    /// As in RFC 3339.
    Rfc3339,
}

/// Where something stands in a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Source<S = String> {
    /// In this header.
    Header(S),
    /// In the first of these headers, or in the second if the first is missing.
    EitherHeader(S, S),
    /// In this field of the body, names with dots between them.
    Body(S),
    /// In the first of these fields of the body, or in the second if the first is missing.
    EitherBody(S, S),
}

impl<S: AsRef<str>> Source<S> {
    /// What stands there; `field` reads fields of the body. Nothing and empty text are the same.
    pub fn find(
        &self,
        headers: Headers<'_>,
        field: impl Fn(&str) -> Option<String>,
    ) -> Option<String> {
        let header = |name: &S| headers.get(name.as_ref()).map(str::to_owned);
        let found = match self {
            Source::Header(name) => header(name),
            Source::EitherHeader(first, second) => header(first).or_else(|| header(second)),
            Source::Body(path) => field(path.as_ref()),
            Source::EitherBody(first, second) => {
                field(first.as_ref()).or_else(|| field(second.as_ref()))
            }
        };
        found.filter(|text| !text.is_empty())
    }

    /// Whether it stands in the header of this name, in lower case.
    pub fn is_header(&self, name: &str) -> bool {
        let is = |own: &S| own.as_ref().eq_ignore_ascii_case(name);
        match self {
            Source::Header(one) => is(one),
            Source::EitherHeader(first, second) => is(first) || is(second),
            Source::Body(_) | Source::EitherBody(..) => false,
        }
    }

    /// The header's name. A sender that renames its headers renames all of them: `renamed` picks the second name.
    pub(super) fn header(&self, renamed: bool) -> Option<&str> {
        match self {
            Source::Header(name) => Some(name.as_ref()),
            Source::EitherHeader(_, second) if renamed => Some(second.as_ref()),
            Source::EitherHeader(first, _) => Some(first.as_ref()),
            Source::Body(_) | Source::EitherBody(..) => None,
        }
    }
}

impl Source<&'static str> {
    pub(super) fn owned(self) -> Source {
        match self {
            Source::Header(name) => Source::Header(name.to_owned()),
            Source::EitherHeader(first, second) => {
                Source::EitherHeader(first.to_owned(), second.to_owned())
            }
            Source::Body(path) => Source::Body(path.to_owned()),
            Source::EitherBody(first, second) => {
                Source::EitherBody(first.to_owned(), second.to_owned())
            }
        }
    }
}

impl Time<&'static str> {
    pub(super) fn owned(self) -> Time {
        Time {
            place: match self.place {
                Place::Part(prefix) => Place::Part(prefix.to_owned()),
                Place::Source(source) => Place::Source(source.owned()),
            },
            unit: self.unit,
        }
    }
}

/// What a tool asks before or between deliveries.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Handshake {
    /// A signed delivery with a mark; the text at `echo` is the answer, and 204 without one.
    Signed {
        /// Where the mark stands.
        mark: Source<&'static str>,
        /// What stands there.
        value: &'static str,
        /// The field of the body to echo.
        echo: Option<&'static str>,
    },
    /// A parameter of the query is echoed.
    Query {
        /// The method of the request.
        method: &'static str,
        /// The parameter's name.
        parameter: &'static str,
    },
    /// Zoom's `endpoint.url_validation`: the token and its HMAC.
    EncryptedToken,
    /// X's `crc_token`: its HMAC.
    ResponseToken,
    /// Meta's `hub.challenge`, echoed to who knows the verify token.
    VerifyToken,
    /// A `HEAD` that wants 200.
    Head,
    /// SNS' word that a subscription begins or ends, signed in a layout of its own.
    Subscription,
    /// The tool makes its secret itself, and sends it once before anything is signed with it.
    OwnSecret {
        /// The field of the body where it stands.
        field: &'static str,
    },
    /// A greeting that is answered to who has an ingest key: [`of_keyed`](super::handshake::of_keyed).
    Keyed {
        /// Its methods beside `POST`.
        methods: &'static [&'static str],
    },
}

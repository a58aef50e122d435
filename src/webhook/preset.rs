//! What a preset says of a tool.
//!
//! `format` reads one of a file; a [`Verifier`](super::Verifier), the pipeline, lists and pages read it.
//!
//! **Invariant**: a preset is data. A tool that signs as others do needs no code.

mod algorithm;
mod item_key;
mod question;
mod sample;
mod setup;

use super::path::Path;
use super::place::{Place, Source};
use super::template::Template;

pub(crate) use algorithm::ALGORITHMS;
pub use algorithm::{Algorithm, Digest, Encoding, JwtAlgorithm, SecretForm, Unit};
pub use item_key::{ItemKey, KeyFields};
pub use question::Handshake;
pub(crate) use question::{AnswerBody, HandshakeAnswer, HandshakeCheck, HandshakeSample};
pub(crate) use sample::Expectation;
pub use sample::{Sample, SentDelivery};
pub use setup::{SetupPlaces, ToolSetup};

/// How a tool signs, names and greets.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Preset {
    /// The name in settings: `github`.
    pub name: String,
    /// The name for people: `GitHub`.
    pub title: String,
    /// Where it was read from.
    pub origin: PresetOrigin,
    /// Where the tool shows its secret, in one sentence.
    pub secret_hint: String,
    /// Events worth choosing, or nothing.
    pub events_hint: String,
    /// The tool's page about its webhooks.
    pub docs: Option<String>,
    /// Where the facts are from.
    pub source: Option<String>,
    /// Who makes the secret, and when.
    pub secret_from: SecretFrom,
    pub secret_label: Option<String>,
    pub secret_example: Option<String>,
    /// Where the delivery's id stands.
    pub id: Option<Source>,
    /// Within what an id is one of its own. Two accounts of one tool may send the same id, and the second would
    /// otherwise count as a duplicate.
    pub id_scope: Option<Source>,
    /// Whether a body that was seen is a duplicate, whatever its id says. An id that is not signed can be replaced by
    /// who sends a captured delivery again.
    pub replay_body: bool,
    /// The media types that it sends; none: any.
    pub content_types: Vec<String>,
    /// Fields that are Base64 of JSON or text.
    pub base64: Vec<Path>,
    /// Where the event's name stands.
    pub event: Option<Source>,
    /// The event's name becomes the field `_event`.
    pub event_field: bool,
    /// Where the items are.
    pub items: Option<Path>,
    /// Fields that each item gets of what stands around it.
    pub with: Vec<(String, Path)>,
    /// What of an item is stored.
    pub content: Option<Path>,
    /// Fields that are left out of what is stored.
    pub omit: Vec<Path>,
    /// What identifies an item.
    pub item_key: Option<ItemKey>,
    /// The field that says how new an item is, a number or a time.
    pub version: Option<Path>,
    /// Events that remove the item.
    pub removals: Vec<String>,
    /// The field and the values that remove the item.
    pub removal_field: Option<(Path, Vec<String>)>,
    /// Whether events that nobody signs remove items. It must be said, because anybody with a delivery could turn it
    /// into a removal.
    pub unsigned_event: bool,
    /// Events that are answered and not stored.
    pub ignore: Vec<String>,
    /// The answer to a delivery.
    pub answer: DeliveryAnswer,
    /// Whether the tool tries again after a 4xx such as 429. A tool that does not would lose deliveries over a rate
    /// limit.
    pub retries_4xx: bool,
    /// What is to be set beside the secret.
    pub options: Vec<PresetOption>,
    /// How deliveries are verified; none: an ingest key has to stand in the URL or in a header.
    pub verify: Option<Verification>,
    /// What the tool asks before or between deliveries.
    pub handshakes: Vec<Handshake>,
    /// What is set up in the tool.
    pub setup: Option<ToolSetup>,
    /// Deliveries worth trying, the most common first.
    pub samples: Vec<Sample>,
    /// Deliveries that were really sent, or that the tool publishes.
    pub vectors: Vec<SentDelivery>,
}

/// Where a preset was read from.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum PresetOrigin {
    /// It is part of the program.
    #[default]
    BuiltIn,
    /// A file, or a place in the configuration.
    Own(String),
}

impl PresetOrigin {
    /// For people: `built in`, or the place.
    pub fn shown(&self) -> &str {
        match self {
            PresetOrigin::BuiltIn => "built in",
            PresetOrigin::Own(place) => place,
        }
    }
}

/// Who makes the secret of a tool, and when it is known.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum SecretFrom {
    /// The tool shows it.
    #[default]
    Tool,
    /// The user chooses it, and enters it in the tool.
    You,
    /// It is a public key that the tool publishes.
    PublicKey,
    /// The tool sends it.
    Handshake,
    /// The tool shows it once it has the URL.
    AfterUrl,
}

/// How what a tool signs is verified.
#[derive(Clone, Debug, PartialEq)]
pub struct Verification {
    pub algorithm: Algorithm,
    /// Where signatures, or the token, stand; each that has something is tried.
    pub(crate) signature: Vec<Place>,
    /// What stands between several signatures.
    pub(crate) separator: Option<char>,
    /// How signatures begin; parts without it are ignored.
    pub(crate) prefix: String,
    pub(crate) encoding: Encoding,
    /// What is signed.
    pub(crate) signed: Template,
    /// The signature does not cover the body.
    pub unsigned_body: bool,
    pub(crate) timestamp: Vec<Place>,
    pub(crate) unit: Unit,
    /// How far the timestamp may be from this machine's clock; 0 checks no clock.
    pub(crate) tolerance_seconds: u64,
    /// The lists of signature, timestamp and id are read in step: who renames one header renames all.
    pub(crate) in_step: bool,
    /// Secrets that begin so are checked as another preset says. One tool may have two kinds of secrets, and users know
    /// only the tool.
    pub(crate) by_secret: Vec<(String, String)>,
    /// How the secret is written.
    pub secret_encoding: SecretForm,
    /// How every secret of this tool begins; it stays part of the key.
    pub secret_prefix: String,
    pub(crate) body_hash: Option<BodyHash>,
    /// Claims of a token, and what they must be.
    pub(crate) claims: Vec<(String, Template)>,
}

/// The claim of a token that holds the digest of the body.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct BodyHash {
    pub(crate) claim: String,
    pub(crate) hash: Digest,
    pub(crate) encoding: Encoding,
}

impl Preset {
    /// Whether a [`Verifier`](super::Verifier) can be made for it. The others need an ingest key.
    pub fn signed(&self) -> bool {
        self.verify.is_some()
    }

    /// What stands in place of a secret for a tool that signs with a private key and publishes the rest in a file;
    /// `None` for the others.
    pub fn published(&self) -> Option<&'static str> {
        match self.verify.as_ref()?.algorithm {
            Algorithm::Sns | Algorithm::Paypal => Some("certificate"),
            Algorithm::Pubsub => Some("key set"),
            _ => None,
        }
    }

    /// Whether it stands for no tool of its own: `hmac` and `token`.
    pub fn is_generic(&self) -> bool {
        matches!(self.name.as_str(), "hmac" | "token")
    }

    /// Whether a request with this method other than `POST` is a question of the tool.
    pub fn understands(&self, method: &str) -> bool {
        self.handshakes.iter().any(|one| one.method == method)
    }

    /// Where the tool sends its own secret before it signs; only for such a tool may the secret be left out at first.
    pub fn sends_secret(&self) -> Option<&Place> {
        self.handshakes.iter().find_map(|one| one.secret.as_ref())
    }

    /// Whether its greeting holds a word that was agreed on.
    pub fn asks_for_word(&self) -> bool {
        let word = |one: &Handshake| matches!(one.check, HandshakeCheck::VerifyToken(_));
        self.handshakes.iter().any(word)
    }

    /// Whether it signs the URL that it was given.
    pub fn signs_url(&self) -> bool {
        self.verify.as_ref().is_some_and(Verification::signs_url)
    }

    /// Whether deliveries hold the secret itself, so that they must not be kept as they are.
    pub fn has_secret_in_body(&self) -> bool {
        self.verify.as_ref().is_some_and(|verify| {
            let in_body = |place: &Place| matches!(place, Place::Body(_) | Place::Item(_));
            verify.algorithm == Algorithm::Token && verify.signature.iter().any(in_body)
        })
    }

    /// Which secrets are checked as another preset says.
    pub(crate) fn verify_by_secret(&self) -> &[(String, String)] {
        self.verify.as_ref().map_or(&[], |verify| &verify.by_secret)
    }

    /// The preset of a file, that extends no other, or one that is known here.
    ///
    /// # Errors
    /// What is wrong with it, and where.
    pub fn read(name: &str, text: &str) -> Result<Preset, super::format::FormatError> {
        let origin = PresetOrigin::Own(name.to_owned());
        super::format::Draft::parse(name, origin, text)?.resolve(super::preset)
    }

    /// It as the text of a file, with all that it extends.
    pub fn to_toml(&self) -> String {
        super::format::toml(self, None)
    }

    /// The same as an entry of `[[presets]]`.
    pub fn to_entry(&self) -> String {
        super::format::toml(self, Some("presets"))
    }

    /// Whether its signature does not cover the body.
    pub fn has_unsigned_body(&self) -> bool {
        self.verify
            .as_ref()
            .is_some_and(|verify| verify.unsigned_body)
    }

    /// What its deliveries are proved by.
    pub fn proved(&self) -> &'static str {
        match (self.signed(), self.vectors.iter().any(|one| one.valid)) {
            (false, _) => "not signed here",
            (true, true) => "vector",
            (true, false) => "itself",
        }
    }
}

impl Verification {
    pub(crate) fn signs_url(&self) -> bool {
        self.algorithm == Algorithm::Twilio
            || self.signed.has_url()
            || self.claims.iter().any(|(_, claim)| claim.has_url())
    }

    /// Whether each item has a signature of its own.
    pub(crate) fn is_of_items(&self) -> bool {
        let item = |place: &Place| matches!(place, Place::Item(_));
        self.signature.iter().any(item) || self.signed.places().any(item)
    }
}

/// A setting that a tool has alone.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PresetOption {
    /// The name of the setting.
    pub name: String,
    /// The name for people.
    pub label: String,
    /// Where the tool shows it, in one sentence.
    pub hint: String,
    /// Whether it must be set.
    pub required: bool,
    /// Who could send where it is missing. It is shown where the setting is left out, so that a user knows what that
    /// means.
    pub without: Option<String>,
}

/// The answer to a delivery: its status, and a body of the tool's own kind.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DeliveryAnswer {
    pub status: u16,
    /// The content type and the text, where the tool wants one of its own.
    pub body: Option<(&'static str, String)>,
}

impl Default for DeliveryAnswer {
    fn default() -> DeliveryAnswer {
        DeliveryAnswer {
            status: 202,
            body: None,
        }
    }
}

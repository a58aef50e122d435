//! What is known of a delivery beside its body: which tool sent it, what verified it, what its connector says.
//!
//! Made of a request that comes, and of one that is sent again.
//!
//! **Invariant**: what is not sent to the address of a connector has no tool, and none of its conventions. What the key
//! says goes before the tool's preset, and that before the headers of a CloudEvent.

use bytes::Bytes;
use uuid::Uuid;

use super::request::{Address, Known};
use catalog::{Rules, Signing};
use webhook::body::{self, DecodeError, ItemSource};
use webhook::{Headers, Path, Preset, Source};

/// What is known of a delivery beside its body.
#[derive(Debug, Clone, Copy)]
pub(super) struct Context<'a> {
    pub(super) request_id: Uuid,
    /// None: it did not come to the address of a connector.
    pub(super) address: Option<Address<'a>>,
    pub(super) preset: Option<&'static Preset>,
    /// What verified it; none: it came with a key.
    pub(super) signing: Option<&'a Signing>,
    /// Where the connector says that the items are in a body.
    pub(super) items: Option<&'a str>,
    /// What is set of its items.
    pub(super) rules: &'a Rules,
}

impl Known<'_> {
    /// Whether the tool does so; some take any 4xx for the end, so these are answered 503 instead.
    pub(super) fn tries_again_after_429(&self) -> bool {
        let preset = self.context().tool();
        preset.is_none_or(|preset| preset.retries_4xx)
    }

    pub(super) fn context(&self) -> Context<'_> {
        let key = &self.caller.key;
        Context {
            request_id: self.head.request_id,
            address: self.head.address,
            preset: key.preset,
            signing: key.signing.as_deref(),
            items: key.settings.items.as_deref(),
            rules: &key.rules,
        }
    }
}

impl<'a> Context<'a> {
    /// The tool, where its conventions count. A request with a key means what its caller says, so no preset applies to
    /// it.
    pub(super) fn tool(&self) -> Option<&'static Preset> {
        self.preset.filter(|_| self.address.is_some())
    }

    /// Whether the items are a part of the body, or are changed before they are stored.
    pub(super) fn takes_items(&self) -> bool {
        let tool = self.tool();
        self.address.is_some()
            && (self.items.is_some()
                || tool.is_some_and(|tool| tool.items.is_some() || !tool.with.is_empty()))
    }

    /// The items of a body: as the connector says, or its tool.
    pub(super) fn items(&self, whole: &Bytes, bytes_max: usize) -> Result<Bytes, DecodeError> {
        if !self.takes_items() {
            return Ok(whole.clone());
        }
        let tool = self.tool();
        let own = match self.items.map(Path::parse) {
            Some(Ok(path)) => Some(path),
            // It was written before paths had brackets and quotes.
            Some(Err(_)) => {
                let path = self.items.unwrap_or_default();
                return body::at_path(whole, path).map_err(DecodeError::Invalid);
            }
            None => None,
        };
        let source = ItemSource {
            items: own.as_ref().or_else(|| tool?.items.as_ref()),
            with: tool.map_or(&[], |tool| &tool.with),
        };
        source.take(whole, bytes_max)
    }

    /// Where the items are, for messages.
    pub(super) fn items_text(&self) -> &str {
        let usual = || self.tool()?.items.as_ref().map(Path::text);
        self.items.or_else(usual).unwrap_or_default()
    }

    pub(super) fn status(&self) -> u16 {
        let signed = self.signing.map(|signing| signing.verifier.answer());
        let usual = || self.tool().map(|preset| preset.answer.status);
        self.address
            .and_then(|_| signed.or_else(usual))
            .unwrap_or(202)
    }

    /// The text that the tool wants to hear, with its content type, where it wants one of its own.
    pub(super) fn answer_body(&self) -> Option<(&'static str, &'static str)> {
        let answer = &self.tool()?.answer;
        let (kind, text) = answer.body.as_ref()?;
        (answer.status == self.status()).then_some((*kind, text.as_str()))
    }

    /// Whether an event of this name is not stored.
    pub(super) fn ignores(&self, event: &str) -> bool {
        self.tool()
            .is_some_and(|tool| tool.ignore.iter().any(|one| one == event))
    }

    /// What stands where the tool says the id of its delivery.
    pub(super) fn own_id(&self, field: impl Fn(&Path) -> Option<String>) -> Option<String> {
        let address = self.address?;
        let signed = self.signing.and_then(|signing| signing.verifier.id());
        let source = signed.or_else(|| self.tool()?.id.as_ref())?;
        source.find(address.headers, address.target, field)
    }

    /// Where the name of the event stands.
    pub(super) fn event_source(&self) -> Option<&'a Source> {
        self.address?;
        let signed = self.signing.and_then(|signing| signing.verifier.event());
        signed.or_else(|| self.tool()?.event.as_ref())
    }

    pub(super) fn event(&self, field: impl Fn(&Path) -> Option<String>) -> Option<String> {
        let address = self.address?;
        let headers = address.headers;
        let said =
            (self.event_source()).and_then(|source| source.find(headers, address.target, field));
        said.or_else(|| of_cloudevent(headers, "ce-type"))
    }

    /// Whether the name of the event stands in a header, and nowhere in the items.
    pub(super) fn names_event_in_header(&self) -> bool {
        let signed = self.signing.and_then(|signing| signing.verifier.event());
        match self.tool() {
            Some(preset) if preset.event.is_some() => preset.event_field,
            _ => signed.is_some_and(Source::is_in_headers),
        }
    }
}

/// What a header of a CloudEvent says.
pub(super) fn of_cloudevent(headers: Headers<'_>, name: &str) -> Option<String> {
    let said = headers.get(name).filter(|said| !said.is_empty());
    said.map(str::to_owned)
}

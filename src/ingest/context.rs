//! What is known of a delivery beside its body: which tool sent it, what verified it, what its connector says.
//!
//! Made of a request that comes, and of one that is sent again.
//!
//! **Invariant**: what is not sent to the address of a connector has no tool, and none of its conventions. What the key
//! says goes before the tool's preset, and that before the headers of a CloudEvent.

use uuid::Uuid;

use super::request::{Address, Known};
use catalog::{Rules, Signing};
use webhook::{Headers, Preset, Source};

/// What is known of a delivery beside its body.
#[derive(Debug, Clone, Copy)]
pub(super) struct Context<'a> {
    pub(super) request_id: Uuid,
    /// None: it did not come to the address of a connector.
    pub(super) address: Option<Address<'a>>,
    /// The tool.
    pub(super) preset: Option<&'static Preset>,
    /// What verified it; none: it came with a key.
    pub(super) signing: Option<&'a Signing>,
    /// Where the connector says that the items are in a body.
    pub(super) items: Option<&'a str>,
    /// What is set of its items.
    pub(super) rules: &'a Rules,
}

impl Known<'_> {
    /// Whether the tool does so; some take any 4xx for the end.
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

impl Context<'_> {
    /// The tool, where its conventions count.
    pub(super) fn tool(&self) -> Option<&'static Preset> {
        self.preset.filter(|_| self.address.is_some())
    }

    /// Where the items are in the body.
    pub(super) fn items_path(&self) -> Option<&str> {
        self.address?;
        self.items.or_else(|| self.tool()?.items)
    }

    pub(super) fn status(&self) -> u16 {
        let signed = self.signing.map(|signing| signing.verifier.answer());
        let usual = || self.tool().map(|preset| preset.answer);
        self.address
            .and_then(|_| signed.or_else(usual))
            .unwrap_or(202)
    }

    /// What stands where the tool says the id of its delivery.
    pub(super) fn own_id(&self, field: impl Fn(&str) -> Option<String>) -> Option<String> {
        let headers = self.address?.headers;
        let signed = self.signing.and_then(|signing| signing.verifier.id());
        match (signed, self.tool().and_then(|preset| preset.id)) {
            (Some(source), _) => source.find(headers, field),
            (None, Some(source)) => source.find(headers, field),
            (None, None) => None,
        }
    }

    pub(super) fn event(&self, field: impl Fn(&str) -> Option<String>) -> Option<String> {
        let headers = self.address?.headers;
        let signed = self.signing.and_then(|signing| signing.verifier.event());
        let said = match (signed, self.tool().and_then(|preset| preset.event)) {
            (Some(source), _) => source.find(headers, field),
            (None, Some(source)) => source.find(headers, field),
            (None, None) => None,
        };
        said.or_else(|| of_cloudevent(headers, "ce-type"))
    }

    /// Whether the name of the event stands in a header, and nowhere in the items.
    pub(super) fn names_event_in_header(&self) -> bool {
        let signed = self.signing.and_then(|signing| signing.verifier.event());
        match self.tool() {
            Some(preset) if preset.event.is_some() => preset.event_in_item,
            _ => matches!(signed, Some(Source::Header(_))),
        }
    }
}

/// What a header of a CloudEvent says.
pub(super) fn of_cloudevent(headers: Headers<'_>, name: &str) -> Option<String> {
    let said = headers.get(name).filter(|said| !said.is_empty());
    said.map(str::to_owned)
}

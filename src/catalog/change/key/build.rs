//! Makes a key that can be stored, with a secret of its own or that of a tool.
//!
//! **Invariant**: the text of a key that is made here goes to the caller alone; its hash is stored.

use std::sync::Arc;

use super::NewKey;
use crate::change::Changed;
use crate::change::check::{check_future, check_own_description, check_own_name};
use crate::error::FieldError;
use crate::ingest_key::KeyRow;
use crate::key::{KeyKind, KeyText, generate};
use crate::signing::hash_of;
use crate::{Catalog, CatalogError, KeyHash};
use base::clock::{self, Unix};
use settings::Verify;
use webhook::InvalidVerifier;

/// What a key is found by, and shown by.
pub(super) struct KeyForm {
    pub(super) text: Option<KeyText>,
    pub(super) hash: KeyHash,
    pub(super) prefix: Arc<str>,
    pub(super) verify: Option<Arc<Verify>>,
}

impl KeyForm {
    /// A key of our own making.
    pub(super) fn generated(test: bool) -> Changed<Self> {
        let text = generate(match test {
            true => KeyKind::IngestTest,
            false => KeyKind::Ingest,
        })
        .map_err(CatalogError::Randomness)?;
        Ok(Self {
            hash: text.hash(),
            prefix: text.prefix().into(),
            text: Some(text),
            verify: None,
        })
    }
}

const NO_TEST: &str = "a key that verifies signatures cannot be a test key";
pub(super) const MADE_HERE: &str =
    "only a key that verifies signatures has a given secret; the daemon creates this one";
pub(super) const MADE_THERE: &str =
    "must be set: this key verifies signatures, and its tool creates the new secret";

impl Catalog {
    pub(crate) fn build_key(&self, new: NewKey) -> Changed<(Option<KeyText>, KeyRow)> {
        let (key, connector) = (new.settings, new.connector);
        check_own_name(&key.name)?;
        check_own_description(key.description.as_deref())?;
        let expires_at = key.expires_at.as_deref().and_then(clock::parse_rfc3339);
        check_future(expires_at)?;
        let form = match key.verify {
            None => KeyForm::generated(new.test)?,
            Some(_) if new.test => return Err(FieldError::Secret(NO_TEST).of("verify")),
            Some(verify) => self.signed(verify, &connector, &key.name, &key.stream)?,
        };
        let row = KeyRow {
            connector: connector.into(),
            name: key.name.into(),
            description: key.description.map(Into::into),
            hash: form.hash,
            prefix: Some(form.prefix),
            stream: key.stream.into(),
            expires_at,
            revoked_at: None,
            created_at: Some(Unix::now()),
            allow_in_url: key.allow_in_url,
            networks: key.networks,
            verify: form.verify,
        };
        Ok((form.text, row))
    }

    /// A key in the form of a signing secret. A scheme that signs the URL is refused without a public one, because no
    /// signature could be verified then.
    pub(super) fn signed(
        &self,
        verify: Verify,
        connector: &str,
        name: &str,
        stream: &str,
    ) -> Changed<KeyForm> {
        let verifier = verify
            .verifier()
            .map_err(|invalid| FieldError::from(invalid).of("verify"))?;
        if verifier.signs_url() && verifier.url().is_none() && self.public_url.is_none() {
            let message = "it signs the URL that the tool was given: set server.public_url in the configuration, or `url` here".to_owned();
            let invalid = InvalidVerifier {
                field: "scheme",
                message,
            };
            return Err(FieldError::from(invalid).of("verify"));
        }
        Ok(KeyForm {
            text: None,
            hash: hash_of(&verify, connector, name, stream),
            prefix: verify.shown().into(),
            verify: Some(Arc::new(verify)),
        })
    }
}

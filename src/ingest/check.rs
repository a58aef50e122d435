//! What is checked of a request before its body is read: whose it is, whether it may come, what its headers say.
//!
//! The pipeline comes here for requests and removals, and so does sending again, for the headers alone.
//!
//! **Invariant**: nothing here waits or stores. The order of the checks is the order of the lines.

use std::borrow::Cow;
use std::sync::Arc;
use std::time::Instant;

use super::interpret::DELIVERY;
use super::request::{Known, Named};
use super::{Head, Ingest, Refusal, check_place, headers, listed};
use crate::error::AcceptError;
use catalog::{Caller, IngestKey};
use webhook::body::Form;
use webhook::{ItemKey, KeyFields, Path, Preset};

impl Ingest {
    /// The caller that an `Authorization` header stands for, a key in the URL that may stand there, or a certificate.
    ///
    /// # Errors
    /// [`AcceptError::Unauthorized`].
    pub fn caller(
        &self,
        authorization: Option<&[u8]>,
        access_token: Option<&str>,
        certificate: Option<[u8; 32]>,
    ) -> Result<Caller, AcceptError> {
        let caller = match (headers::secret(authorization), access_token) {
            (Some(secret), _) => self.catalog.caller(&secret),
            (None, Some(secret)) => {
                let caller = self.catalog.caller(secret);
                caller.filter(|caller| caller.key.allow_in_url)
            }
            (None, None) => certificate.and_then(|one| self.catalog.caller_with_certificate(one)),
        };
        caller.ok_or(AcceptError::Unauthorized)
    }

    /// Whose request it is, and what the key has left.
    pub(super) fn recognize<'a>(
        &'a self,
        head: Head<'a>,
        started: Instant,
    ) -> Result<Known<'a>, Box<Refusal<'a>>> {
        let Ok(caller) = self.caller(head.authorization, head.access_token, head.certificate)
        else {
            return Err(self.refuse_unknown(head, started));
        };
        Ok(Known::new(head, caller, started))
    }

    /// Everything that can be known before the body is read, so that a request that is refused costs no upload.
    pub(super) fn check(&self, known: &Known<'_>) -> Result<Named, AcceptError> {
        let head = &known.head;
        self.check_caller(known)?;
        let limit = self.limits.body_bytes_max;
        if head.content_length.is_some_and(|length| length > limit) {
            return Err(self.too_large());
        }
        let form = head.form()?;
        let key = &known.caller.key;
        let item_key = key.settings.item_key.as_deref();
        let named = self.read_headers(head, form, item_key, key.preset)?;
        self.gate.check()?;
        Ok(named)
    }

    /// Whether the key is taken from there, one of the stream, and within its rate.
    pub(super) fn check_caller(&self, known: &Known<'_>) -> Result<(), AcceptError> {
        let key = &known.caller.key;
        check_place(&key.networks, known.head.client)?;
        let stream = known.head.stream;
        let named = stream.is_none_or(|named| *named == *key.stream);
        if !named || key.stream_life.is_none() {
            return Err(AcceptError::StreamNotFound);
        }
        if let Err(refused) = known.quota {
            let retry_after_seconds = refused.reset_seconds;
            return Err(match known.tries_again_after_429() {
                true => AcceptError::RateLimited {
                    retry_after_seconds,
                },
                false => AcceptError::Unavailable {
                    reason: "too many requests",
                    retry_after_seconds,
                },
            });
        }
        Ok(())
    }

    /// Why a key that was valid when its request came is not any more.
    pub(super) fn why_gone(&self, key: &IngestKey) -> AcceptError {
        match self.catalog.has_stream(&key.stream) {
            true => AcceptError::Unauthorized,
            false => AcceptError::StreamNotFound,
        }
    }

    /// What the headers say, over the item key of the connector, over that of its tool.
    pub(super) fn read_headers(
        &self,
        head: &Head<'_>,
        form: Form,
        item_key: Option<&str>,
        preset: Option<&'static Preset>,
    ) -> Result<Named, AcceptError> {
        let sent = headers::item_key(head.item_key)?.map(|field| (field, "X-Item-Key".into()));
        let configured = || Some((headers::field(item_key?), "the connector's item_key".into()));
        // Elsewhere a request is what its caller makes of it.
        let usual = || {
            let preset = preset.filter(|_| head.address.is_some())?;
            let named_by = format!("the preset {}", preset.name);
            let field: Arc<str> = match usual_key(preset) {
                None if preset.is_generic() => return None,
                // What has no object of its own is not to take the place of the one before.
                None => DELIVERY.into(),
                Some(UsualKey::Field(field)) => field.flat().into(),
                Some(UsualKey::Composed(key)) => key.first().into(),
            };
            Some((field, named_by.into()))
        };
        let listed = match &sent {
            Some(_) => None,
            None => item_key.and_then(listed::fields),
        };
        let chosen = sent.or_else(configured);
        let composed = match preset
            .filter(|_| head.address.is_some())
            .and_then(usual_key)
        {
            Some(UsualKey::Composed(key)) if chosen.is_none() => Some(Cow::Borrowed(key)),
            _ => listed.map(Cow::Owned),
        };
        Ok(Named {
            composed,
            by_preset: chosen.is_none(),
            item_key: chosen.or_else(usual),
            idempotency_key: headers::idempotency_key(head.idempotency_key)?,
            form,
        })
    }
}

/// What identifies the items of a preset.
enum UsualKey {
    /// One field; where it is not there, each delivery is a separate item.
    Field(&'static Path),
    Composed(&'static ItemKey),
}

fn usual_key(preset: &'static Preset) -> Option<UsualKey> {
    let key = preset.item_key.as_ref()?;
    match key.0.as_slice() {
        [KeyFields::Delivery] => None,
        [KeyFields::Fields(fields)] | [KeyFields::Fields(fields), KeyFields::Delivery] => {
            match fields.as_slice() {
                [field] => Some(UsualKey::Field(field)),
                _ => Some(UsualKey::Composed(key)),
            }
        }
        _ => Some(UsualKey::Composed(key)),
    }
}

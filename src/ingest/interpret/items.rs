//! The items of a body, and what identifies them.
//!
//! **Invariant**: the flattened items of a body are limited in proportion to its size.

use crate::error::AcceptError;
use crate::request::Named;
use crate::{Ingest, flatten};
use item::Items;
use webhook::ItemKey;

/// How often its own size a body may be once it is flattened, beside some bytes that every one may have. Otherwise a
/// small body of deep paths would take the memory of many large ones.
const GROWTH_MAX: usize = 8;
const GROWTH_FREE_BYTES: usize = 64 << 10;

/// What identifies items.
#[derive(Debug, Clone, Copy)]
pub(super) enum By<'a> {
    /// The field that is named, or their places.
    Named,
    /// Several fields, or the first of several.
    Composed(&'a ItemKey),
    Delivery,
}

impl Ingest {
    /// The items, and what identifies them: where what a preset names is not there, the delivery itself, for nobody chose
    /// that field.
    pub(super) fn distinguished<'n>(
        &self,
        json: &[u8],
        named: &'n Named,
    ) -> Result<(Items, By<'n>), AcceptError> {
        if let Some(key) = &named.composed {
            return Ok((self.flatten(json, named)?, By::Composed(key)));
        }
        let error = match self.flatten(json, named) {
            Ok(items) if named.is_by_delivery() => return Ok((items, By::Delivery)),
            Ok(items) => return Ok((items, By::Named)),
            Err(error) => error,
        };
        if !named.by_preset {
            return Err(error);
        }
        let by_place = Named {
            item_key: None,
            composed: None,
            by_preset: false,
            idempotency_key: None,
            form: named.form,
        };
        match self.flatten(json, &by_place) {
            Ok(items) => Ok((items, By::Delivery)),
            Err(_) => Err(error),
        }
    }

    /// The items of a body, told apart by the field that is named, or else by their places.
    pub(super) fn flatten(&self, body: &[u8], named: &Named) -> Result<Items, AcceptError> {
        let one = named.item_key.as_ref().filter(|_| named.composed.is_none());
        let by_field = one.filter(|_| !named.is_by_delivery());
        let item_key = by_field.map(|(field, named_by)| flatten::ItemKey { field, named_by });
        let in_proportion = body.len() * GROWTH_MAX + GROWTH_FREE_BYTES;
        let limits = flatten::FlattenLimits {
            flattened_bytes_max: self.limits.flattened_bytes_max.min(in_proportion),
            item_bytes_max: self.limits.item_bytes_max,
        };
        Ok(flatten::flatten_by(body, item_key, limits)?)
    }
}

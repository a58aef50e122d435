//! What can be set of a connector: the fields that its forms share.
//!
//! **Invariant**: the form that creates a connector and the one that changes it have the same fields and words. What a
//! form has no field for stays as it is.

use salvo_core::Depot;

use crate::form::Typed;
use catalog::Connector;

/// The form with the connector as it is; with an item key that was chosen elsewhere, its field has the focus.
pub(super) fn initial(depot: &Depot, connector: &Connector, chosen: Option<String>) -> Typed {
    let settings = serde_json::to_value(&connector.settings).unwrap_or_default();
    let mut values = Typed::initial(::settings::Connector::FIELDS, &settings);
    let first = if chosen.is_some() { "item_key" } else { "kind" };
    if let Some(chosen) = chosen {
        values.retain(|(name, _)| *name != "item_key");
        values.push(("item_key", chosen));
    }
    Typed::new(depot, first, &values)
}

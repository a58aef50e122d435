//! The fields that the forms of a connector share.
//!
//! **Invariant**: the forms that create and change a connector have the same fields and labels. A setting without a
//! field keeps its value.

use salvo_core::Depot;

use crate::form::Typed;
use catalog::Connector;

/// The form with the current settings. An item key that was chosen elsewhere is filled in, and its field has the focus.
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

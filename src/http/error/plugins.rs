//! Responses when a change of the plugins is rejected.
//!
//! **Invariant**: see [`ApiError`].

use super::ApiError;
use operate::{PluginChangeError, PluginStoreError as StoreError};

impl From<PluginChangeError> for ApiError {
    fn from(error: PluginChangeError) -> Self {
        let message = error.to_string();
        match error {
            PluginChangeError::Name | PluginChangeError::Unusable(_) => Self::invalid(message),
            PluginChangeError::Unknown => {
                let lists = format!("{message}; /api/admin/plugins lists them");
                Self::not_found("PLUGIN_NOT_FOUND", lists)
            }
            PluginChangeError::ByHand(_) => Self::conflict("PLUGIN_BY_HAND", message),
            PluginChangeError::NothingBefore(_) => Self::conflict("NOTHING_TO_ROLL_BACK", message),
            PluginChangeError::InUse(_) => Self::conflict("PLUGIN_IN_USE", message),
            PluginChangeError::Refused { .. } => Self::conflict("PLUGIN_REFUSED", message),
            PluginChangeError::Store(StoreError::Changed { .. }) => {
                Self::conflict("PLUGIN_CHANGED", message)
            }
            PluginChangeError::Store(error) => Self::internal(error),
        }
    }
}

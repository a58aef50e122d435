//! The presets that the daemon knows: those of the program and one's own.
//!
//! **Invariant**: they are shown as they count, with where each comes from: a preset can weaken what is verified.

use salvo_core::{Request, Router};
use salvo_oapi::{RouterExt, endpoint};

use super::param;
use http::envelope::{self, Listing, Success};
use http::error::ApiError;
use operate::Operator;
use webhook::{ItemKey, Preset};
use wire::PresetData;

/// Looking at presets. They are the same for every operator.
pub(super) fn routes(_: &Operator) -> Router {
    Router::with_path("presets")
        .oapi_tag("connectors")
        .get(ListPresets)
        .push(Router::with_path("{name}").get(GetPreset))
}

fn preset_data(preset: &Preset) -> PresetData {
    PresetData {
        name: preset.name.clone(),
        title: preset.title.clone(),
        signed: preset.signed(),
        unsigned_body: preset.has_unsigned_body(),
        item_key: preset.item_key.as_ref().map(ItemKey::described),
        proved: preset.proved().to_owned(),
        source: preset.origin.shown().to_owned(),
        toml: None,
    }
}

struct ListPresets;

/// The presets.
///
/// The built-in presets, then those of the data directory and of the configuration. Your own preset is listed in place
/// of the built-in one that it replaces.
#[endpoint(operation_id = "list_presets")]
impl ListPresets {
    async fn handle(&self) -> Listing<PresetData> {
        let presets = webhook::presets();
        envelope::list(presets.into_iter().map(preset_data).collect(), None)
    }
}

struct GetPreset;

/// One preset.
///
/// With its file as it counts: what it extends is part of it.
#[endpoint(
    operation_id = "get_preset",
    parameters(("name" = String, Path, description = "Name of the preset.")),
    responses(
        (status_code = 200, body = Success<PresetData>, description = "The preset."),
        (status_code = 404, description = "No such preset."),
    ),
)]
impl GetPreset {
    async fn handle(&self, req: &mut Request) -> Result<Success<PresetData>, ApiError> {
        let name = param(req, "name");
        let preset = webhook::preset(&name).ok_or_else(|| {
            let message = "there is no such preset; /api/admin/presets lists the presets";
            ApiError::not_found("PRESET_NOT_FOUND", message)
        })?;
        Ok(envelope::ok(PresetData {
            toml: Some(preset.to_toml()),
            ..preset_data(preset)
        }))
    }
}

//! Which tool may have sent a delivery, by where its signature, time, id and event stand.
//!
//! `headgate preset guess` asks, and the page of a request that was refused.
//!
//! **Invariant**: nothing is believed because of it: several tools use the same headers.

use super::place::Place;
use super::preset::{Preset, Verification};
use super::presets;

#[derive(Debug, Clone)]
pub struct PresetFit {
    pub preset: &'static Preset,
    /// Where what it names was found: `header:X-GitHub-Event`.
    pub found: Vec<String>,
    /// How many of the headers that it names did not come. Of presets with the same headers found, the one that misses
    /// fewer is the better.
    missing: usize,
}

/// The presets that fit, the best first: headers with their values as far as they are known, names in either case, and
/// the body, if it is known.
pub fn fitting(headers: &[(&str, Option<&str>)], body: Option<&[u8]>) -> Vec<PresetFit> {
    let all = presets().into_iter();
    let mut fits: Vec<PresetFit> = all
        .filter_map(|preset| PresetFit::of(preset, headers, body))
        .collect();
    fits.sort_by_key(|fit| (std::cmp::Reverse(fit.found.len()), fit.missing));
    fits
}

impl PresetFit {
    fn of(
        preset: &'static Preset,
        headers: &[(&str, Option<&str>)],
        body: Option<&[u8]>,
    ) -> Option<PresetFit> {
        let verify = preset.verify.as_ref();
        let signature: &[Place] = verify.map_or(&[], |verify| &verify.signature);
        let is_there = |place: &&Place| match place {
            Place::Header(name) => headers
                .iter()
                .any(|(own, _)| own.eq_ignore_ascii_case(name)),
            Place::Body(path) => body.is_some_and(|body| path.find(body).is_some()),
            Place::Query(_) | Place::Item(_) | Place::Part(_) => false,
        };
        let signed = |place: &&Place| is_there(place) && begins(place, verify, headers);
        if verify.is_some() && !signature.iter().any(|place| signed(&place)) {
            return None;
        }
        let timestamp: &[Place] = verify.map_or(&[], |verify| &verify.timestamp);
        let named = [&preset.id, &preset.event].into_iter().flatten();
        let named = named.flat_map(|source| source.0.iter().flatten());
        let mut places: Vec<&Place> = signature.iter().chain(timestamp).collect();
        // What stands in a body is there under many a name.
        places.extend(named.filter(|place| place.header().is_some()));
        let (found, others): (Vec<&Place>, Vec<&Place>) = places.into_iter().partition(is_there);
        let mut found: Vec<String> = found.into_iter().map(Place::written).collect();
        found.dedup();
        let missing = others
            .iter()
            .filter(|place| place.header().is_some())
            .count();
        (!found.is_empty()).then_some(PresetFit {
            preset,
            found,
            missing,
        })
    }
}

/// Whether what stands in a header has the prefix of signatures.
fn begins(place: &Place, verify: Option<&Verification>, headers: &[(&str, Option<&str>)]) -> bool {
    let (Some(name), Some(verify)) = (place.header(), verify) else {
        return true;
    };
    let mut values = headers
        .iter()
        .filter(|(own, _)| own.eq_ignore_ascii_case(name));
    values.any(|(_, value)| value.is_none_or(|value| value.contains(&verify.prefix)))
}

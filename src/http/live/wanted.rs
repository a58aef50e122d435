//! Streams in the query of a request.
//!
//! **Invariant**: encoded names are decoded as the browser meant them, including commas in names.

use percent_encoding::percent_decode_str;

/// The values of `streams` in the raw query: split at commas, then decoded. Some programs also encode the separating
/// commas.
pub fn streams(query: &str) -> Option<Vec<String>> {
    let values = query
        .split('&')
        .filter_map(|pair| pair.strip_prefix("streams="));
    let names: Vec<String> = values
        .flat_map(|value| value.split(','))
        .map(|name| {
            let name = name.replace('+', " ");
            percent_decode_str(&name).decode_utf8_lossy().into_owned()
        })
        .filter(|name| !name.is_empty())
        .collect();
    (!names.is_empty()).then_some(names)
}

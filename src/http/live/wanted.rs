//! The streams that a query names.
//!
//! **Invariant**: what a browser encodes is read as it was meant, commas in names too.

use percent_encoding::percent_decode_str;

/// The values of `streams`, as they stand in the query: separated by commas, then decoded. Some programs
/// encode the separating commas too.
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

//! Several fields that the `item_key` of a connector names together: `device,metric`.
//!
//! The check of the headers asks.
//!
//! **Invariant**: a field whose own name has a comma identifies items as it always did.

use webhook::{ItemKey, KeyFields, Path};

/// The fields, if there are several.
pub(super) fn fields(item_key: &str) -> Option<ItemKey> {
    if !item_key.contains(',') {
        return None;
    }
    let parts = item_key.split(',').map(str::trim);
    let parts: Vec<Path> = parts
        .map(|part| Path::parse(part).ok().filter(|path| !path.walks_arrays()))
        .collect::<Option<_>>()?;
    let whole = Path::parse(&format!("\"{item_key}\"")).ok()?;
    let ways = [vec![whole], parts];
    Some(ItemKey(ways.map(KeyFields::Fields).into()))
}

#[cfg(test)]
mod tests {
    use super::fields;

    #[test]
    fn commas_stand_between_fields_or_in_a_name() {
        for (item_key, expected) in [
            ("id", None),
            (
                "device,metric",
                Some("\"device,metric\", else device and metric"),
            ),
            (
                "tags.host, name",
                Some("\"tags.host, name\", else tags.host and name"),
            ),
            ("a,", None),
            (",", None),
            ("a[],b", None),
        ] {
            let described = fields(item_key).map(|key| key.described());
            assert_eq!(described.as_deref(), expected, "{item_key}");
        }
    }
}

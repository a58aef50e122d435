//! Unit tests of `pages.rs`.

use super::FILES;

#[test]
fn every_file_of_a_page_is_served() {
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/pages");
    for (place, path) in [("", ""), ("render/", "templates/"), ("fonts/", "fonts/")] {
        for entry in std::fs::read_dir(format!("{folder}/{place}")).expect("a folder") {
            let entry = entry.expect("a file");
            let name = entry.file_name().into_string().expect("a name");
            let is_served = !name.ends_with(".html") && !name.ends_with(".rs");
            if entry.file_type().is_ok_and(|kind| kind.is_file()) && is_served {
                let path = format!("{path}{name}");
                let file = FILES.iter().find(|file| file.0 == path);
                let bytes = std::fs::read(entry.path()).expect("a file");
                assert!(file.is_some_and(|file| file.2 == bytes), "{path}");
            }
        }
    }
}

#[test]
fn the_guide_names_every_option_and_every_role() {
    let guide = include_str!("../../guide/show.md");
    let options = include_str!("render/options.js");
    let (_, options) = options.split_once("const OPTIONS = {").expect("the table");
    let (options, _) = options.split_once("\n};").expect("its end");
    let named = options
        .lines()
        .filter_map(|line| line.split_once(": ["))
        .map(|(name, _)| name.trim());
    let roles = include_str!("render/roles.js")
        .split("ROLES.set(\"")
        .skip(1);
    let roles = roles
        .filter_map(|rest| rest.split_once('"'))
        .map(|(name, _)| name);
    let mut count = 0;
    for name in named.chain(roles).filter(|name| *name != "transparent") {
        assert!(
            guide.contains(&format!("`{name}")),
            "{name} is not in the guide"
        );
        count += 1;
    }
    assert!(count > 25, "{count}");
}

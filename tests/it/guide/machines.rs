//! What the guide says of other machines, compared with the sources.
//!
//! **Invariant**: a file that uses what only Unix has is in the list of what Windows lacks, and no other is.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

use super::{read, root};

/// How what only Unix has begins.
const UNIX: [&str; 9] = [
    "std::os::unix",
    "std::os::fd",
    "rustix::",
    "libc::",
    "landlock::",
    "seccompiler::",
    "signal::unix",
    "conn::unix",
    "\"/proc",
];

/// The sources below a folder that use it, without tests.
fn files_of_unix(folder: &Path, found: &mut BTreeSet<String>) {
    for entry in fs::read_dir(folder).expect("a folder") {
        let path = entry.expect("an entry").path();
        let name = path.file_name().expect("a name").to_string_lossy();
        if path.is_dir() && name != "tests" {
            files_of_unix(&path, found);
        } else if name.ends_with(".rs") && name != "tests.rs" {
            let text = read(&path);
            if UNIX.iter().any(|begin| text.contains(begin)) {
                let path = path.strip_prefix(root().join("src")).expect("a source");
                found.insert(path.display().to_string());
            }
        }
    }
}

#[test]
fn what_windows_lacks_is_listed_file_by_file() {
    let mut used = BTreeSet::new();
    files_of_unix(&root().join("src"), &mut used);
    assert!(used.len() > 40, "{used:?}");
    let page = read("src/guide/install.md");
    let (_, section) = page.split_once("\n### Windows\n").expect("a section");
    let (section, _) = section.split_once("\n## ").expect("its end");
    let listed = section.split('`').filter(|text| text.ends_with(".rs"));
    let listed: BTreeSet<String> = listed.map(ToOwned::to_owned).collect();
    assert_eq!(listed, used);
}

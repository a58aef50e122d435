//! Renders the guide, so that the program serves its pages as they are.
//!
//! **Invariant**: a page that cannot be read fails the build.

mod render;

use std::path::PathBuf;
use std::process::exit;

fn main() {
    println!("cargo::rerun-if-changed=.");
    let [folder, out_dir] = ["CARGO_MANIFEST_DIR", "OUT_DIR"].map(|name| {
        let value = std::env::var_os(name);
        PathBuf::from(value.unwrap_or_default())
    });
    if let Err(error) = render::write(&folder, &out_dir) {
        println!("cargo::error=the guide cannot be rendered: {error}");
        exit(1)
    }
}

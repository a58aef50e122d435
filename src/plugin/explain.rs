//! Sentences that explain why a component cannot be used, in place of the engine's messages.
//!
//! The compiler uses them before it begins, loading uses them after linking has failed.
//!
//! **Invariant**: a sentence names the kind of the file or the import, and the fix for its author. Unknown errors keep
//! the message of the engine.

use wasmtime::Engine;
use wasmtime::component::Component;

/// The first bytes of WebAssembly files, and the versions of modules and components.
const MAGIC: &[u8] = b"\0asm";
const MODULE: &[u8] = &[1, 0, 0, 0];
const COMPONENT: &[u8] = &[13, 0, 1, 0];
/// The world, and its version in this program.
const WORLD: &str = "headgate:sink/";
const VERSION: (u64, u64) = (1, 2);
/// The required export of a sink.
const SINK: &str = "headgate:sink/sink@";

/// Imports that no sink has, and the fix for each. The linker names only the import, which does not help the author.
const NEVER: [(&str, &str); 4] = [
    (
        "wasi:filesystem/",
        "it asks for files (wasi:filesystem), which no sink has: keep state with the interface `state`, write files with `folder`; where the language brings it along, build without it (JavaScript and Python: --stub-wasi)",
    ),
    (
        "wasi:sockets/",
        "it asks for sockets (wasi:sockets), which no sink has: send requests over HTTP, or use `wire` or `postgres`",
    ),
    (
        "wasi:keyvalue/",
        "it asks for a store (wasi:keyvalue), which no sink has: keep state with the interface `state`",
    ),
    (
        "wasi:config/",
        "it asks for wasi:config, which no sink has: its settings are given to `open`",
    ),
];

/// Explains a file that is not a component; `None`: it begins like one. The parser's own message does not say which
/// file to name instead.
pub(super) fn of_bytes(bytes: &[u8]) -> Option<&'static str> {
    let Some(rest) = bytes.strip_prefix(MAGIC) else {
        let begins = &bytes[..bytes.len().min(512)];
        return Some(
            match std::str::from_utf8(begins).map_err(|error| error.valid_up_to()) {
                Ok("") => "the file is empty",
                // A character may be cut at the end.
                Ok(_) | Err(509..) => {
                    "it is a text file: name the file that the build made, which ends with .wasm"
                }
                Err(_) => {
                    "it is no WebAssembly: name the file that the build made, which ends with .wasm"
                }
            },
        );
    };
    match rest.get(..4) {
        Some(COMPONENT) => None,
        Some(MODULE) => Some(
            "it is a core module, not a component: build it for wasm32-wasip2, or make a component of it with `wasm-tools component new`",
        ),
        _ => Some(
            "it is damaged, or of a version of WebAssembly that this program does not know: build it again",
        ),
    }
}

/// Explains why a component cannot be linked.
pub(super) fn of_link(engine: &Engine, component: &Component, error: &wasmtime::Error) -> String {
    let kind = component.component_type();
    let imports: Vec<String> = (kind.imports(engine))
        .map(|(name, _)| name.to_owned())
        .collect();
    let exports: Vec<String> = (kind.exports(engine))
        .map(|(name, _)| name.to_owned())
        .collect();
    sentence(&imports, &exports).unwrap_or_else(|| format!("{error:#}"))
}

/// Another version is checked first, because all other differences follow from it.
fn sentence(imports: &[String], exports: &[String]) -> Option<String> {
    let (major, minor) = VERSION;
    let other = imports
        .iter()
        .chain(exports)
        .find(|name| version_of(name).is_some_and(|(own, part)| own != major || part > minor));
    if let Some(name) = other {
        return Some(format!(
            "it was built for another world: it has or asks for {name}, and this program has headgate:sink@{major}.{minor}.0; build it with the world of this program, which `headgate plugin new` writes"
        ));
    }
    let never = NEVER
        .iter()
        .find(|(begins, _)| imports.iter().any(|name| name.starts_with(begins)));
    if let Some((_, why)) = never {
        return Some((*why).to_owned());
    }
    if !exports.iter().any(|name| name.starts_with(SINK)) {
        let has = match exports {
            [] => "nothing".to_owned(),
            exports => exports.join(", "),
        };
        return Some(format!(
            "it is no sink: it lacks the export headgate:sink/sink@{major}.{minor}.0, and has {has}"
        ));
    }
    None
}

/// The version of an interface of the world.
fn version_of(name: &str) -> Option<(u64, u64)> {
    let (_, version) = name.strip_prefix(WORLD)?.split_once('@')?;
    let mut parts = version.split('.');
    Some((parts.next()?.parse().ok()?, parts.next()?.parse().ok()?))
}

#[cfg(test)]
mod tests;

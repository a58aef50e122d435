//! `headgate plugin new`: a project with a sink that works, in a folder of its own.
//!
//! The projects are the examples in `examples/plugins` under another name, with the world, and for Rust the SDK, beside
//! them: they are built without anything of ours from the network.
//!
//! **Invariant**: no file that was there before is changed.

use std::io;
use std::path::{Path, PathBuf};

use super::super::error::CliError;
use super::super::output::{print, shown};

/// Longest name of a plugin.
const NAME_BYTES_MAX: usize = 64;
/// What the examples are called.
const EXAMPLE: &str = "threshold";

/// Arguments of `headgate plugin new`.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  headgate plugin new my-sink
  headgate plugin new sinks/my-sink --lang python")]
pub(super) struct NewArgs {
    /// Directory to create; its last part is the plugin's name
    path: PathBuf,
    /// The language
    #[arg(long, value_enum, default_value = "rust")]
    lang: Language,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
enum Language {
    Rust,
    Js,
    Python,
    C,
}

/// A file of a project: its path there, its text.
type File = (&'static str, &'static str);

macro_rules! file {
    ($to:literal, $from:literal) => {
        (
            $to,
            include_str!(concat!(env!("CARGO_MANIFEST_DIR"), "/", $from)),
        )
    };
}

const ITEMS: File = file!("items.json", "examples/plugins/items.json");

const RUST: &[File] = &[
    file!(".gitignore", "examples/plugins/rust/.gitignore"),
    file!("Cargo.toml", "examples/plugins/rust/Cargo.toml"),
    file!("Cargo.lock", "examples/plugins/rust/Cargo.lock"),
    file!("README.md", "examples/plugins/rust/README.md"),
    file!("src/lib.rs", "examples/plugins/rust/src/lib.rs"),
];

const JS: &[File] = &[
    file!(".gitignore", "examples/plugins/javascript/.gitignore"),
    file!("package.json", "examples/plugins/javascript/package.json"),
    file!(
        "package-lock.json",
        "examples/plugins/javascript/package-lock.json"
    ),
    file!("README.md", "examples/plugins/javascript/README.md"),
    file!("sink.js", "examples/plugins/javascript/sink.js"),
];

const PYTHON: &[File] = &[
    file!(".gitignore", "examples/plugins/python/.gitignore"),
    file!("app.py", "examples/plugins/python/app.py"),
    file!("build.sh", "examples/plugins/python/build.sh"),
    file!("README.md", "examples/plugins/python/README.md"),
    file!(
        "requirements.txt",
        "examples/plugins/python/requirements.txt"
    ),
];

const C: &[File] = &[
    file!("README.md", "examples/plugins/c/README.md"),
    file!("build.sh", "examples/plugins/c/build.sh"),
    file!("bindings.sh", "examples/plugins/c/bindings.sh"),
    file!("sink.c", "examples/plugins/c/sink.c"),
    file!(
        "gen/sink.wit.sha256",
        "examples/plugins/c/gen/sink.wit.sha256"
    ),
    file!("gen/sink_plugin.c", "examples/plugins/c/gen/sink_plugin.c"),
    file!("gen/sink_plugin.h", "examples/plugins/c/gen/sink_plugin.h"),
];

/// What is no text of the project in C: what the linker is told of the world.
const C_OBJECT: (&str, &[u8]) = (
    "gen/sink_plugin_component_type.o",
    include_bytes!(concat!(
        env!("CARGO_MANIFEST_DIR"),
        "/examples/plugins/c/gen/sink_plugin_component_type.o"
    )),
);

const SDK: &[File] = &[
    file!("Cargo.toml", "plugins/sdk/Cargo.toml"),
    file!("src/halves.rs", "plugins/sdk/src/halves.rs"),
    file!("src/http.rs", "plugins/sdk/src/http.rs"),
    file!("src/lib.rs", "plugins/sdk/src/lib.rs"),
];

const WIT: &[File] = &[
    file!("sink.wit", "plugins/sdk/wit/sink.wit"),
    file!("deps/clocks.wit", "plugins/sdk/wit/deps/clocks.wit"),
    file!("deps/http.wit", "plugins/sdk/wit/deps/http.wit"),
    file!("deps/io.wit", "plugins/sdk/wit/deps/io.wit"),
];

pub(super) fn run(args: &NewArgs) -> Result<(), CliError> {
    let name = name(&args.path)?;
    refuse_what_exists(&args.path)?;
    for (path, text) in files(args.lang, name) {
        let path = args.path.join(path);
        write(&path, text.as_bytes()).map_err(|error| unwritable(&path, &error))?;
    }
    if args.lang == Language::C {
        let (path, bytes) = C_OBJECT;
        let path = args.path.join(path);
        write(&path, bytes).map_err(|error| unwritable(&path, &error))?;
    }
    print(&next_steps(args.lang, name, &args.path))
}

fn unwritable(path: &Path, error: &io::Error) -> CliError {
    CliError::failed(format!("cannot write {}: {error}", shown_path(path)))
}

fn name(path: &Path) -> Result<&str, CliError> {
    let name = path.file_name().and_then(|name| name.to_str());
    name.filter(|name| is_name(name)).ok_or_else(|| {
        CliError::wrong_use(format!(
            "{} does not end in a valid plugin name: 1 to {NAME_BYTES_MAX} of a-z, 0-9 and \"-\", a letter first",
            shown_path(path)
        ))
    })
}

/// Whether npm, Cargo and Python all take it.
fn is_name(name: &str) -> bool {
    name.len() <= NAME_BYTES_MAX
        && name.starts_with(|first: char| first.is_ascii_lowercase())
        && !name.ends_with('-')
        && name
            .chars()
            .all(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-')
}

fn refuse_what_exists(path: &Path) -> Result<(), CliError> {
    let wrong = |what: &str| {
        let path = shown_path(path);
        CliError::wrong_use(format!(
            "{path} {what}; name a directory that does not exist"
        ))
    };
    match std::fs::read_dir(path).map(|mut entries| entries.next().is_some()) {
        Ok(false) => Ok(()),
        Ok(true) => Err(wrong("is not empty")),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        Err(error) if error.kind() == io::ErrorKind::NotADirectory => {
            Err(wrong("is not a directory"))
        }
        Err(error) => Err(wrong(&format!("cannot be read: {error}"))),
    }
}

/// The files of a project.
fn files(lang: Language, name: &str) -> Vec<(String, String)> {
    let (own, wit) = match lang {
        Language::Rust => (RUST, "sdk/wit"),
        Language::Js => (JS, "wit"),
        Language::Python => (PYTHON, "wit"),
        Language::C => (C, "wit"),
    };
    let mut files = Vec::new();
    for (path, text) in own.iter().chain([&ITEMS]) {
        files.push(((*path).to_owned(), adapted(text, lang, name)));
    }
    if lang == Language::Rust {
        for (path, text) in SDK {
            files.push((format!("sdk/{path}"), without_workspace(text)));
        }
    }
    for (path, text) in WIT {
        files.push((format!("{wit}/{path}"), (*text).to_owned()));
    }
    files
}

/// A text of an example as it stands in a project.
fn adapted(text: &str, lang: Language, name: &str) -> String {
    let wit = if lang == Language::Rust {
        "sdk/wit"
    } else {
        "wit"
    };
    let file = file_name(lang, name);
    text.replace("../../../plugins/sdk/wit", wit)
        .replace("../../../plugins/sdk", "sdk")
        .replace("../items.json", "items.json")
        .replace(&format!("{EXAMPLE}.wasm"), &file)
        .replace(EXAMPLE, name)
}

/// The component's file: Cargo makes identifiers of names.
fn file_name(lang: Language, name: &str) -> String {
    match lang {
        Language::Rust => format!("{}.wasm", name.replace('-', "_")),
        Language::Js | Language::Python | Language::C => format!("{name}.wasm"),
    }
}

/// The SDK's manifest, which takes its package's fields from our workspace.
fn without_workspace(text: &str) -> String {
    text.replace(
        "version.workspace = true\nedition",
        &format!("version = {:?}\nedition", env!("CARGO_PKG_VERSION")),
    )
    .replace("edition.workspace = true", "edition = \"2024\"")
    .replace(
        "rust-version.workspace = true",
        &format!("rust-version = {:?}", env!("CARGO_PKG_RUST_VERSION")),
    )
    .replace(
        "license.workspace = true",
        &format!("license = {:?}", env!("CARGO_PKG_LICENSE")),
    )
    .replace("publish.workspace = true", "publish = false")
}

fn write(path: &Path, bytes: &[u8]) -> io::Result<()> {
    if let Some(folder) = path.parent() {
        std::fs::create_dir_all(folder)?;
    }
    let mut file = std::fs::File::create_new(path)?;
    io::Write::write_all(&mut file, bytes)
}

fn next_steps(lang: Language, name: &str, path: &Path) -> String {
    let (edit, build, folder) = match lang {
        Language::Rust => (
            "src/lib.rs",
            "cargo build --release --target wasm32-wasip2",
            "target/wasm32-wasip2/release/",
        ),
        Language::Js => ("sink.js", "npm install && npm run build", ""),
        Language::Python => ("app.py", "sh build.sh", ""),
        Language::C => ("sink.c", "sh build.sh", ""),
    };
    let file = file_name(lang, name);
    let path = shown_path(path);
    format!(
        "\
{path} is a sink that keeps items whose `value` is at least `least`.

  cd {path}
  {build}
  headgate plugin check {folder}{file} --settings '{{\"least\": 10}}'
  headgate plugin test {folder}{file} --settings '{{\"least\": 10}}' --input items.json --item-key id

What it does is in {edit}; README.md tells how the daemon gets it.
"
    )
}

fn shown_path(path: &Path) -> String {
    shown(&path.display().to_string()).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_fit_every_toolchain() {
        for (name, expected) in [
            ("a", true),
            ("my-sink2", true),
            ("", false),
            ("2nd", false),
            ("-a", false),
            ("a-", false),
            ("My", false),
            ("a_b", false),
            ("a b", false),
            (&"a".repeat(64), true),
            (&"a".repeat(65), false),
        ] {
            assert_eq!(is_name(name), expected, "{name:?}");
        }
    }

    #[test]
    fn nothing_of_the_example_is_left() {
        for lang in [Language::Rust, Language::Js, Language::Python, Language::C] {
            for (path, text) in files(lang, "my-sink") {
                for trace in ["../", EXAMPLE, "workspace = true"] {
                    // The world's comments may say what they like.
                    let found = !path.ends_with(".wit") && text.contains(trace);
                    assert!(!found, "{lang:?}: {trace:?} in {path}");
                }
            }
        }
    }
}

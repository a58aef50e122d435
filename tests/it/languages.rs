//! Sinks in every language that the examples know, built as their readers build them: the commands of a README run as
//! they stand there.
//!
//! Where a toolchain is missing a test is skipped and says so; with `CI` set that is a failure.
//!
//! **Invariant**: a test leaves nothing in the source tree; everything is built in copies below the target folder. Each
//! component is compiled once, whichever test comes first.

mod behaviour; // the same sink does the same in every language
mod new; // the projects of `headgate plugin new`
mod three; // the three sinks that examples/plugins has in every language

use std::fs::{self, File};
use std::os::unix::fs::{DirBuilderExt as _, symlink};
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::command_line::{Done, finish, finish_within, headgate};
use crate::process::skipped;
use crate::program::{BUILD_MAX, output};
use crate::setup::Setup;

/// What builds Rust; it is there, or nobody would run this.
const RUST: &[&[&str]] = &[];
const JAVASCRIPT: &[&[&str]] = &[&["node", "--version"], &["npm", "--version"]];
const PYTHON: &[&[&str]] = &[&["python3", "-m", "venv", "--help"]];
const C: &[&[&str]] = &[
    &["clang", "--version"],
    &["wasm-ld", "--version"],
    &["rustc", "--version"],
];

/// Whether these programs are there.
fn available(test: &str, programs: &[&[&str]]) -> bool {
    for program in programs {
        let found = output(Command::new(program[0]).args(&program[1..]));
        if !found.is_ok_and(|output| output.status.success()) {
            let required = std::env::var_os("CI").is_some();
            let program = program.join(" ");
            assert!(!required, "{test}: `{program}` does not run");
            skipped(test, &format!("`{program}` does not run"));
            return false;
        }
    }
    true
}

/// Where `headgate plugin` keeps compiled code: a component of JavaScript or Python takes 20 s of computing in a program
/// for debugging, and each is checked, tried and run.
const COMPILED: &str = "HEADGATE_PLUGIN_CACHE";

/// Where the copies of the examples are; held by one process at a time, because compilers write into it.
pub(crate) struct Workshop {
    pub(crate) root: PathBuf,
    _lock: File,
}

impl Workshop {
    /// The folder of this name, with what earlier runs have left in it.
    pub(crate) fn enter(name: &str) -> Self {
        let root = PathBuf::from(env!("CARGO_TARGET_TMPDIR"))
            .join("languages")
            .join(name);
        fs::create_dir_all(&root).expect("a folder");
        let lock = File::create(root.join("lock")).expect("a file");
        lock.lock().expect("a lock");
        Self { root, _lock: lock }
    }

    /// Compiled components, by their content.
    fn compiled(&self) -> PathBuf {
        self.root.join("compiled")
    }

    /// Spares a daemon what was compiled here.
    fn hand_compiled_to(&self, setup: &Setup) {
        let to = setup.data_dir().join("plugin-cache");
        let mut builder = fs::DirBuilder::new();
        builder
            .recursive(true)
            .mode(0o700)
            .create(&to)
            .expect("a folder");
        for entry in fs::read_dir(self.compiled().join("plugin-cache")).expect("a folder") {
            let entry = entry.expect("an entry");
            fs::copy(entry.path(), to.join(entry.file_name())).expect("a copy");
        }
    }

    /// A copy of an example, beside a copy of the SDK as in the source tree.
    fn example(&self, name: &str) -> PathBuf {
        let example = format!("examples/plugins/{name}");
        for copied in ["plugins/sdk", "examples/plugins/items.json", &example] {
            let from = Path::new(env!("CARGO_MANIFEST_DIR")).join(copied);
            copy(&from, &self.root.join(copied));
        }
        // The SDK takes fields from the workspace.
        fs::write(
            self.root.join("Cargo.toml"),
            "[workspace]\nmembers = [\"plugins/*\"]\n[workspace.package]\nversion = \"0.1.0\"\n\
             edition = \"2024\"\nrust-version = \"1.95\"\nlicense = \"Apache-2.0\"\npublish = false\n",
        )
        .expect("a file");
        self.root.join(example)
    }
}

/// Copies what is under version control: sources, no products.
pub(crate) fn copy(from: &Path, to: &Path) {
    if !from.is_dir() {
        fs::create_dir_all(to.parent().expect("a folder")).expect("a folder");
        // A newer time would make compilers work again.
        if fs::read(to).ok() != Some(fs::read(from).expect("a file")) {
            fs::copy(from, to).expect("a copy");
        }
        return;
    }
    for entry in fs::read_dir(from).expect("a folder") {
        let name = entry.expect("an entry").file_name();
        let product = [
            "target",
            "node_modules",
            ".venv",
            "__pycache__",
            "threshold.wasm",
        ];
        if !product.iter().any(|product| name == *product) {
            copy(&from.join(&name), &to.join(&name));
        }
    }
}

/// Runs the first shell commands of a project's README; the component that they made.
fn follow_readme(workshop: &Workshop, project: &Path, component: &str) -> PathBuf {
    let readme = fs::read_to_string(project.join("README.md")).expect("a README");
    let (_, commands) = readme.split_once("```sh\n").expect("commands");
    let (commands, _) = commands.split_once("```").expect("an end");
    // All Rust projects compile the same dependencies.
    if project.join("Cargo.toml").exists() && !project.join("target").exists() {
        let target = Path::new(env!("CARGO_TARGET_TMPDIR")).with_file_name("guests");
        fs::create_dir_all(&target).expect("a folder");
        symlink(target, project.join("target")).expect("a link");
    }
    shell(workshop, project, commands).ok();
    let component = project.join(component);
    assert!(component.is_file(), "no {}", component.display());
    component
}

/// Runs commands as a reader would, who has `headgate` on the path.
fn shell(workshop: &Workshop, folder: &Path, commands: &str) -> Done {
    let program = Path::new(env!("CARGO_BIN_EXE_headgate"));
    let own = program.parent().expect("a folder").display();
    let mut shell = Command::new("sh");
    shell
        .args(["-euxc", &format!("PATH=\"{own}:$PATH\"; {commands}")])
        .current_dir(folder)
        .env(COMPILED, workshop.compiled());
    for name in [
        "CARGO_TARGET_DIR",
        "CARGO_BUILD_TARGET",
        "RUSTFLAGS",
        "CARGO_ENCODED_RUSTFLAGS",
    ] {
        shell.env_remove(name);
    }
    finish_within(BUILD_MAX, &mut shell, "")
}

/// What `headgate plugin test` says, as JSON, of a component with these items.
fn tried(workshop: &Workshop, component: &Path, input: &str) -> Done {
    let folder = tempfile::tempdir().expect("a folder");
    let mut command = headgate(folder.path());
    command
        .env(COMPILED, workshop.compiled())
        .args(["plugin", "test"])
        .arg(component)
        .args(["--settings", r#"{"least": 10}"#, "--item-key", "id"])
        .args(["--stream", "orders", "--output", "json"]);
    finish(&mut command, input)
}

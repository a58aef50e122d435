//! The languages of the client libraries: what each needs, and how its programs are made and run.
//!
//! **Invariant**: what a compiler writes is below the target folder, or in a folder of the test.

use std::collections::BTreeSet;
use std::ffi::OsString;
use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;

use serde_json::Value;

use super::run;
use crate::guide::root;
use crate::languages::{Workshop, copy};
use crate::process::skipped;
use crate::program::output;

/// A language that there is, or may be, a library for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Language {
    Python,
    Node,
    Go,
    CSharp,
    Rust,
}

use Language::{CSharp, Go, Node, Python, Rust};

/// Whether this runs, and ends well.
fn runs(command: &mut Command) -> bool {
    output(command).is_ok_and(|done| done.status.success())
}

/// A program that the check has installed, or else the one on the path.
fn installed(file: &str, name: &str) -> PathBuf {
    let file = tools().join(file);
    match file.exists() {
        true => file,
        false => name.into(),
    }
}

fn tools() -> PathBuf {
    root().join("target/clients")
}

/// Without bytecode in the source tree.
fn python() -> Command {
    let mut python = Command::new("python3");
    python.arg("-B").env("PYTHONDONTWRITEBYTECODE", "1");
    python
}

/// Go, which finds everything that it needs below its workshop.
fn go() -> Command {
    let home = &workshop(Go).root;
    let mut go = Command::new(installed("go/bin/go", "go"));
    go.env("GOCACHE", home.join("cache"))
        .env("GOPATH", home.join("path"))
        .env("XDG_CONFIG_HOME", home.join("configuration"))
        .env("GOTOOLCHAIN", "local")
        .env("GOPROXY", "off");
    go
}

/// Where the compilers of a language write; this process has it until it ends.
fn workshop(language: Language) -> &'static Workshop {
    static NODE: OnceLock<Workshop> = OnceLock::new();
    static GO: OnceLock<Workshop> = OnceLock::new();
    static CSHARP: OnceLock<Workshop> = OnceLock::new();
    let workshop = match language {
        Node | Python | Rust => &NODE,
        Go => &GO,
        CSharp => &CSHARP,
    };
    workshop.get_or_init(|| Workshop::enter(&format!("client-{}", language.name())))
}

/// What cargo makes of the library for Rust.
struct RustLibrary {
    runner: PathBuf,
    /// What a program of its own is compiled with.
    libraries: Vec<(String, PathBuf)>,
}

/// Beside the program that is tested; most of what the library needs is there.
fn rust() -> &'static RustLibrary {
    static BUILT: OnceLock<RustLibrary> = OnceLock::new();
    BUILT.get_or_init(|| {
        let mut build = Command::new(env!("CARGO"));
        build.args(["build", "--locked", "--package", "headgate-send"]);
        build.args(["--features", "conformance", "--message-format", "json"]);
        // Those that cargo sets for this program: a dependency is built again where they differ, and all that needs it, here
        // and when cargo is called next.
        for (name, _) in std::env::vars_os() {
            let text = name.to_string_lossy();
            if ["CARGO_MANIFEST_", "CARGO_PKG_", "OUT_DIR"]
                .iter()
                .any(|set| text.starts_with(set))
            {
                build.env_remove(&name);
            }
        }
        let target = Path::new(env!("CARGO_TARGET_TMPDIR")).parent();
        let said = run(build.arg("--target-dir").arg(target.expect("a folder")));
        let mut built = RustLibrary {
            runner: PathBuf::new(),
            libraries: Vec::new(),
        };
        for line in said.lines().filter(|line| line.starts_with('{')) {
            let message: Value = serde_json::from_str(line).expect("JSON");
            let name = message["target"]["name"].as_str().unwrap_or_default();
            if let Some(program) = message["executable"].as_str() {
                built.runner = program.into();
            } else if matches!(name, "headgate_send" | "serde_json") {
                let files = message["filenames"].as_array().into_iter().flatten();
                let mut files = files.filter_map(Value::as_str);
                if let Some(library) = files.find(|file| file.ends_with(".rlib")) {
                    built.libraries.push((name.to_owned(), library.into()));
                }
            }
        }
        assert_eq!(built.libraries.len(), 2, "{said}");
        built
    })
}

impl Language {
    /// As the shared cases and the folder of the library have it.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Python => "python",
            Node => "node",
            Go => "go",
            CSharp => "csharp",
            Rust => "rust",
        }
    }

    /// How a block of Markdown is marked.
    pub(crate) fn fence(self) -> &'static str {
        match self {
            Node => "js",
            other => other.name(),
        }
    }

    /// Where the page of a connector has it among its languages; Rust is not there.
    pub(crate) fn place(self) -> u8 {
        match self {
            Node => 1,
            Python => 2,
            CSharp => 3,
            Go => 4,
            Rust => unreachable!("no page shows Rust"),
        }
    }

    /// The library.
    pub(crate) fn folder(self) -> PathBuf {
        root().join("examples/clients").join(self.name())
    }

    /// The file without which the folder is no library.
    fn manifest(self) -> PathBuf {
        self.folder().join(match self {
            Python => "pyproject.toml",
            Node => "package.json",
            Go => "go.mod",
            CSharp => "Headgate.Client.csproj",
            Rust => "Cargo.toml",
        })
    }

    /// Whether a test of this language can run; a toolchain that is missing is a failure where `CI` is set.
    pub(crate) fn is_there(self, test: &str) -> bool {
        if !self.manifest().exists() {
            skipped(test, &format!("there is no {}", self.manifest().display()));
            return false;
        }
        let lacks = (python_lacks()).or_else(|| self.lacks());
        if let Some(reason) = &lacks {
            assert!(std::env::var_os("CI").is_none(), "{test}: {reason}");
            skipped(test, reason);
        }
        lacks.is_none()
    }

    /// What is missing on this machine.
    fn lacks(self) -> Option<String> {
        let (there, reason) = match self {
            Python | Rust => (true, ""),
            Node => (
                runs(Command::new("node").arg("--version"))
                    && runs(Command::new("npm").arg("--version")),
                "there is no Node.js with npm",
            ),
            Go => (
                runs(go().arg("version")),
                "there is no Go: neither target/clients/go nor `go`",
            ),
            CSharp => {
                let mcs = Path::new("/usr/lib/mono/4.5/mcs.exe").exists()
                    || runs(Command::new("mcs").arg("--version"));
                let runtime = tools().join("dotnetcore2/bin/dotnet").exists();
                (
                    mcs && runtime,
                    "there is no C#: mono-mcs and target/clients/dotnetcore2",
                )
            }
        };
        (!there).then(|| reason.to_owned())
    }

    /// The program that the kit talks to, built if it has to be.
    pub(crate) fn runner(self) -> Vec<OsString> {
        let file = |name: &str| self.folder().join(name).into_os_string();
        match self {
            Python => vec!["python3".into(), "-B".into(), file("tests/runner.py")],
            Node => vec!["node".into(), file("conformance.js")],
            Go => {
                static BUILT: OnceLock<PathBuf> = OnceLock::new();
                let built = BUILT.get_or_init(|| {
                    let runner = workshop(Go).root.join("runner");
                    // A test program: scripts need what the package has inside.
                    let mut build = go();
                    build.args(["test", "-c", "-o"]).arg(&runner).arg(".");
                    run(build.current_dir(self.folder()));
                    runner
                });
                vec![built.into(), "conformance".into()]
            }
            CSharp => {
                static BUILT: OnceLock<PathBuf> = OnceLock::new();
                let built = BUILT.get_or_init(|| {
                    let output = workshop(CSharp).root.join("runner");
                    run(&mut self.compile(&output));
                    output.join("runner")
                });
                vec![built.into()]
            }
            Rust => vec![rust().runner.clone().into()],
        }
    }

    /// The library's script that compiles C#.
    fn compile(self, output: &Path) -> Command {
        let mut build = Command::new(self.folder().join("build"));
        build.arg(tools().join("dotnetcore2/bin")).arg(output);
        build
    }

    /// Makes a program of a text, in a folder that is empty; what runs it.
    pub(crate) fn program(self, text: &str, folder: &Path) -> Command {
        let write = |name: &str, text: &str| fs::write(folder.join(name), text).expect("a file");
        let mut command = match self {
            Python => {
                write("program.py", text);
                let mut command = python();
                command.arg("program.py").env("PYTHONPATH", Python.folder());
                command
            }
            Node => {
                write("program.mjs", text);
                fs::create_dir_all(folder.join("node_modules/@headgate")).expect("a folder");
                symlink(Node.folder(), folder.join("node_modules/@headgate/client"))
                    .expect("a link");
                let mut command = Command::new("node");
                command.arg("program.mjs");
                command
            }
            Go => {
                write("main.go", text);
                run(go().args(["mod", "init", "program"]).current_dir(folder));
                let replaced = format!("-replace=headgate={}", Go.folder().display());
                let edit = ["mod", "edit", "-require=headgate@v0.0.0", &replaced];
                run(go().args(edit).current_dir(folder));
                run(go().args(["build", "-o", "program"]).current_dir(folder));
                Command::new(folder.join("program"))
            }
            CSharp => {
                write("program.cs", &in_a_class(text));
                run(self.compile(folder).arg(folder.join("program.cs")));
                Command::new(folder.join("program"))
            }
            Rust => {
                write("program.rs", text);
                let mut rustc = Command::new("rustc");
                rustc.args(["--edition", "2024", "program.rs"]);
                for (name, library) in &rust().libraries {
                    rustc
                        .arg("--extern")
                        .arg(format!("{name}={}", library.display()));
                    let dependencies = library.with_file_name("deps");
                    rustc
                        .arg("-L")
                        .arg(format!("dependency={}", dependencies.display()));
                }
                run(rustc.current_dir(folder));
                Command::new(folder.join("program"))
            }
        };
        command.current_dir(folder);
        command
    }

    /// What the library brings, as its developers run it.
    pub(crate) fn own_tests(self) {
        match self {
            Python => {
                let tests = self.folder().join("tests");
                let said = run(python()
                    .args(["-m", "unittest", "discover", "-s"])
                    .arg(tests));
                assert!(said.contains("\nOK"), "{said}");
                check_types();
            }
            Node => {
                // A copy: packages are installed beside the manifest.
                let folder = workshop(Node).root.join("library");
                copy(&self.folder(), &folder);
                run(Command::new("npm").arg("ci").current_dir(&folder));
                run(Command::new("npx")
                    .args(["tsc", "--noEmit"])
                    .current_dir(&folder));
                let mut tests = Command::new("node");
                tests.arg("--test").current_dir(&folder);
                // With it there are tests of a daemon.
                run(tests.env("HEADGATE_PROGRAM", env!("CARGO_BIN_EXE_headgate")));
            }
            Go => {
                let all = |arguments: &[&str]| {
                    run(go().args(arguments).arg("./...").current_dir(self.folder()))
                };
                all(&["vet"]);
                // The detector of races is linked by a C compiler.
                match runs(Command::new("cc").arg("--version")) {
                    true => all(&["test", "-race"]),
                    false => all(&["test"]),
                };
            }
            // The compiler takes warnings for errors; what is left to test, the shared cases do.
            CSharp => drop(self.runner()),
            // A package of the workspace, whose tests run beside this one.
            Rust => drop(self.runner()),
        }
    }
}

/// What the kit itself is written in.
fn python_lacks() -> Option<String> {
    let asked = "import sys; sys.exit(sys.version_info < (3, 9))";
    let there = runs(python().args(["-c", asked]));
    (!there).then(|| "there is no python3 of version 3.9 or newer".to_owned())
}

/// Types of the Python library.
fn check_types() {
    let test = "clients::python::passes_its_own_tests";
    let mypy = || {
        let mut mypy = python();
        mypy.args(["-m", "mypy"]).env("PYTHONPATH", tools());
        mypy
    };
    if !runs(mypy().arg("--version")) {
        assert!(std::env::var_os("CI").is_none(), "{test}: there is no mypy");
        return skipped(test, "types are not checked: there is no mypy");
    }
    let cache = Path::new(env!("CARGO_TARGET_TMPDIR")).join("mypy");
    let mut mypy = mypy();
    mypy.arg("--strict").arg("--cache-dir").arg(cache);
    run(mypy.arg(Python.folder().join("headgate")));
}

/// Statements of today's C# as a class that its older compilers take.
fn in_a_class(text: &str) -> String {
    let is_use = |line: &&str| line.starts_with("using ") && !line.contains(['(', '=']);
    let mut uses = BTreeSet::from(["using System;", "using System.Threading.Tasks;"]);
    uses.extend(text.lines().filter(is_use));
    let rest: Vec<&str> = text.lines().filter(|line| !is_use(line)).collect();
    format!(
        "{}\nstatic class Program\n{{\nstatic void Main() {{ RunAsync().GetAwaiter().GetResult(); }}\n\
         static async Task RunAsync()\n{{\n{}\n}}\n}}\n",
        uses.into_iter().collect::<Vec<_>>().join("\n"),
        rest.join("\n")
    )
}

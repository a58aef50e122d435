//! The client libraries of the examples, each in its language: the shared cases, the library's own tests, the real
//! daemon, which is killed, and the programs that its README, the guide and the page of a connector show.
//!
//! What a language needs is looked for below `target/clients`, where the check installs it, and on the path. Where it is
//! missing the tests of that language are skipped and say so; with `CI` set that is a failure.
//!
//! **Invariant**: nothing is written into the source tree.

mod language; // what each language needs, and how its programs are made

use std::fs;
use std::process::Command;

use crate::guide::{blocks, root};
use crate::pages::managed::leads_to;
use crate::pages::site::{Site, unescaped};
use crate::program::{BUILD_MAX, output_within};
use crate::setup::Setup;
use language::Language;

/// The shared cases that every language has: without those of readers, which Rust has none of.
const CASES: usize = 73;
/// The verdicts and scripts, which go through what is inside of a library.
const VECTORS: usize = 132 + 74;

/// Runs something of the source tree that must not fail; what it says.
fn run(command: &mut Command) -> String {
    if command.get_current_dir().is_none() {
        command.current_dir(root());
    }
    let done = output_within(BUILD_MAX, command, b"");
    let done = done.unwrap_or_else(|error| panic!("{command:?}: {error}"));
    let said = [done.stdout, done.stderr].concat();
    let said = String::from_utf8_lossy(&said).into_owned();
    assert!(done.status.success(), "{command:?}:\n{said}");
    said
}

/// A Python program of the kit, which tells the library's runner what to do.
fn with_the_runner(language: Language, program: &str, arguments: &[&str]) -> String {
    let mut command = Command::new("python3");
    command.args(["-B", program]).args(arguments).arg("--");
    run(command.args(language.runner()))
}

fn does_what_all_clients_promise(language: Language) {
    let arguments = ["--language", language.name()];
    let said = with_the_runner(language, "tests/clients/run.py", &arguments);
    assert!(said.matches("PASS ").count() >= CASES + VECTORS, "{said}");
}

#[test]
fn the_python_client_for_asyncio_does_what_all_clients_promise() {
    if !Language::Python.is_there("clients::the_python_client_for_asyncio") {
        return;
    }
    let runner = Language::Python.folder().join("tests/async_runner.py");
    let mut command = Command::new("python3");
    command.args(["-B", "tests/clients/run.py", "--language", "python-asyncio"]);
    // Verdicts and batchers are those of the client that it is made of.
    command.args(["--only", "cases"]);
    let said = run(command.args(["--", "python3", "-B"]).arg(runner));
    assert!(said.matches("PASS ").count() >= CASES, "{said}");
}

/// Python and Rust lock with `flock`, Node.js with a file alone.
#[test]
fn two_languages_use_no_spool_at_once() {
    let test = "clients::two_languages_use_no_spool_at_once";
    for (one, other) in [
        (Language::Python, Language::Node),
        (Language::Rust, Language::Python),
        (Language::Rust, Language::Node),
    ] {
        if !one.is_there(test) || !other.is_there(test) {
            continue;
        }
        let mut command = Command::new("python3");
        command.args(["-B", "tests/clients/together.py"]);
        command.args(one.runner()).arg("--");
        let said = run(command.args(other.runner()));
        assert_eq!(said.matches("PASS ").count(), 2, "{said}");
    }
}

/// It fails where an item is not accepted, or not in the data pool at the end.
#[test]
fn the_bench_of_batchers_finds_every_item() {
    let test = "clients::the_bench_of_batchers_finds_every_item";
    if !Language::Python.is_there(test) || !Language::Node.is_there(test) {
        return;
    }
    let mut bench = Command::new("python3");
    bench.args(["-B", "benches/clients/run", env!("CARGO_BIN_EXE_headgate")]);
    bench.args(["--items", "3000", "--rounds", "1"]);
    let said = run(bench.args(["--only", "python,asyncio,node"]));
    for language in ["python", "asyncio", "node"] {
        assert!(said.contains(&format!("\n| {language} | ")), "{said}");
    }
}

fn loses_nothing_when_the_daemon_is_killed(language: Language) {
    let daemon = [env!("CARGO_BIN_EXE_headgate")];
    let said = with_the_runner(language, "tests/clients/daemon.py", &daemon);
    assert_eq!(said.matches("PASS ").count(), 3, "{said}");
}

/// One program sends, one reads or keeps a spool; the guide shows another.
fn does_what_its_readme_and_the_guide_show(language: Language) {
    let readme = fs::read_to_string(language.folder().join("README.md")).expect("a README");
    let guide = fs::read_to_string(root().join("src/guide/clients.md")).expect("a page");
    let mut programs = blocks(&readme, language.fence());
    assert!(programs.len() >= 2, "{programs:?}");
    let own = programs.len();
    programs.extend(blocks(&guide, language.fence()));
    assert_eq!(programs.len(), own + 1);
    run_as_shown(language, &programs);
}

/// The first request with the library, as the page of a connector shows it with a new key.
fn does_what_the_page_of_a_connector_shows(language: Language) {
    let process = Setup::with_streams(&[]).spawn();
    let site = Site::signed_in(&process);
    let fields = "name=shop&kind=webhook&new_stream=it%27s+%22new%22&item_key=order.id";
    leads_to(&site.submit("/new/connector", fields), "/connectors/shop");
    let page = site.page("/connectors/shop");
    let begin = format!(r#"<code id="snippet-{}-library">"#, language.place());
    let (_, rest) = page.split_once(&begin).expect("a snippet");
    let (code, _) = rest.split_once("</code>").expect("its end");
    let folder = tempfile::tempdir().expect("a folder");
    let said = run(&mut language.program(&unescaped(code), folder.path()));
    assert!(said.contains("processed"), "{said}");
}

/// Runs programs as they are shown, but for address and keys: one that sends must see its request processed, one that reads
/// must be sent what is there.
fn run_as_shown(language: Language, programs: &[&str]) {
    let process = Setup::screen().spawn();
    let url = format!("http://{}", process.service);
    for program in programs {
        let says = match program.contains("rk_live_…") {
            true => "snapshot",
            false => "processed",
        };
        assert!(program.contains("http://127.0.0.1:8080"), "{program}");
        let program = program
            .replace("http://127.0.0.1:8080", &url)
            .replace("ik_live_…", process.setup.secret("shop", 0))
            .replace("rk_live_…", process.setup.read_secret("screen"));
        assert!(!program.contains("k_live_…"), "{program}");
        let folder = tempfile::tempdir().expect("a folder");
        let said = run(&mut language.program(&program, folder.path()));
        assert!(said.contains(says), "{said}");
    }
}

/// The tests of every language: in modules of their own, so that two run at a time.
macro_rules! languages {
    ($($module:ident $language:ident $($page:ident)?;)*) => { $(mod $module {
        use super::language::Language::$language;

        #[test]
        fn does_what_all_clients_promise() {
            if $language.is_there(concat!("clients::", stringify!($module), "::does_what_all")) {
                super::does_what_all_clients_promise($language);
            }
        }

        #[test]
        fn passes_its_own_tests() {
            if $language.is_there(concat!("clients::", stringify!($module), "::passes_its_own")) {
                $language.own_tests();
            }
        }

        #[test]
        fn loses_nothing_when_the_daemon_is_killed() {
            if $language.is_there(concat!("clients::", stringify!($module), "::loses_nothing")) {
                super::loses_nothing_when_the_daemon_is_killed($language);
            }
        }

        #[test]
        fn does_what_its_readme_and_the_guide_show() {
            if $language.is_there(concat!("clients::", stringify!($module), "::does_what_its")) {
                super::does_what_its_readme_and_the_guide_show($language);
            }
        }

        $(#[test]
        fn $page() {
            if $language.is_there(concat!("clients::", stringify!($module), "::does_what_the_page")) {
                super::$page($language);
            }
        })?
    })* };
}

languages! {
    python Python does_what_the_page_of_a_connector_shows;
    node Node does_what_the_page_of_a_connector_shows;
    go Go does_what_the_page_of_a_connector_shows;
    csharp CSharp does_what_the_page_of_a_connector_shows;
    rust Rust;
}

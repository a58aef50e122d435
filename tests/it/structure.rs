//! The house rules that no compiler holds: which packages stay apart, where each large dependency has its home, and how
//! files are written. What a package may name is in its manifest.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

/// Subjects and pages of `web`. What several of them show lies beside them, and knows none of them.
const SUBJECTS: [&str; 10] = [
    "audit",
    "connector",
    "overview",
    "read_key",
    "renderers",
    "request",
    "settings",
    "signed_in",
    "sink",
    "stream",
];

/// Packages that do not name each other, with the reason. That nothing names what builds on it, cargo sees to.
const APART: [(&[&str], &str); 4] = [
    (
        &["journal", "pool", "catalog"],
        "each owns a file, and can be opened, repaired and tested without the others",
    ),
    (
        &["ingest", "delivery", "live", "backup", "repair"],
        "they meet in the files: what accepts requests knows nothing of what hands them on",
    ),
    (
        &["api", "web"],
        "both translate what `operate` does; what one of them needs of the other belongs there, or into `http`",
    ),
    (
        &[
            "client", "http", "operate", "ingest", "plugin", "journal", "pool", "catalog",
        ],
        "a client knows addresses, keys and answers",
    ),
];

/// Dependencies and the packages that may list them; `headgate` is the root.
const HOMES: [(&str, &[&str]); 28] = [
    ("arc-swap", &["http"]),
    ("tokio-rustls", &["http"]),
    ("proxy-header", &["http"]),
    ("landlock", &["base"]),
    ("seccompiler", &["base"]),
    ("flate2", &["headgate", "webhook"]),
    ("ring", &["http", "webhook"]),
    ("md-5", &["webhook"]),
    ("ruzstd", &["webhook"]),
    ("pulldown-cmark", &["guide"]),
    ("salvo_core", &["api", "feed", "headgate", "http", "web"]),
    ("salvo-oapi", &["api", "feed", "http", "wire"]),
    ("tungstenite", &["http"]),
    ("tokio-tungstenite", &["plugin"]),
    ("maud", &["web"]),
    ("wasmtime", &["plugin"]),
    ("wasmtime-wasi", &["plugin"]),
    ("wasmtime-wasi-http", &["plugin"]),
    ("hyper-util", &["plugin"]),
    ("hyper-rustls", &["plugin"]),
    ("sqlx", &["journal", "plugin", "postgres", "replica"]),
    (
        "rusqlite",
        &[
            "backup", "catalog", "journal", "pool", "repair", "replica", "sqlite",
        ],
    ),
    ("figment", &["settings"]),
    ("toml_edit", &["base", "settings"]),
    ("clap", &["client", "headgate"]),
    ("qrcode", &["headgate"]),
    ("reqwest", &["client", "headgate", "observe"]),
    ("jsonschema", &["plugin"]),
];

/// A manifest: the name of its package, and what stands in its table of dependencies and in those of a target.
struct Manifest {
    package: String,
    dependencies: Vec<String>,
}

fn manifests() -> Vec<Manifest> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let folders = std::fs::read_dir(root.join("src")).expect("the source folder can be read");
    let folders = folders.map(|entry| entry.expect("an entry").path());
    let paths = folders.map(|folder| folder.join("Cargo.toml"));
    let packages = paths.filter(|path| path.exists()).map(|path| {
        let folder = path.parent().and_then(Path::file_name).expect("a folder");
        (folder.to_string_lossy().into_owned(), path.clone())
    });
    let all = packages.chain([("headgate".to_owned(), root.join("Cargo.toml"))]);
    let manifests: Vec<Manifest> = all
        .map(|(package, path)| Manifest {
            package,
            dependencies: dependencies(&std::fs::read_to_string(path).expect("a manifest")),
        })
        .collect();
    assert!(manifests.len() > 20, "only {} manifests", manifests.len());
    manifests
}

/// What a package is built with, without that of its tests and of its build script.
fn dependencies(manifest: &str) -> Vec<String> {
    let mut counts = false;
    let mut found = Vec::new();
    for line in manifest.lines() {
        if line.starts_with('[') {
            counts = line.ends_with("dependencies]")
                && !line.contains("dev-")
                && !line.contains("build-")
                && !line.contains("workspace");
        } else if counts && let Some((name, _)) = line.split_once(['.', ' ', '=']) {
            found.push(name.to_owned());
        }
    }
    found
}

/// A source file: its folder or file below `src`, its path, its code without comments.
struct Source {
    module: String,
    path: PathBuf,
    code: String,
}

fn sources() -> Vec<Source> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
    let mut folders = vec![root.clone()];
    let mut sources = Vec::new();
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(&folder).expect("the source folder can be read") {
            let path = entry.expect("an entry").path();
            if path.is_dir() {
                folders.push(path);
                continue;
            }
            if path.extension().is_none_or(|extension| extension != "rs") {
                continue;
            }
            let inside = path.strip_prefix(&root).expect("below src");
            let first = inside.iter().next().expect("a name").to_string_lossy();
            let text = std::fs::read_to_string(&path).expect("a source file");
            sources.push(Source {
                module: first.trim_end_matches(".rs").to_owned(),
                code: without_comments(&text),
                path,
            });
        }
    }
    assert!(sources.len() > 50, "only {} files found", sources.len());
    sources
}

fn without_comments(text: &str) -> String {
    text.lines()
        .map(|line| line.split("//").next().unwrap_or_default())
        .collect::<Vec<_>>()
        .join("\n")
}

/// The modules that code names after `crate::`, also in `crate::{a, b::c}`.
fn imports(code: &str) -> Vec<String> {
    let mut found = Vec::new();
    for after in code.split("crate::").skip(1) {
        if let Some(list) = after.strip_prefix('{') {
            let mut depth = 0;
            let mut name = String::new();
            for character in list.chars() {
                match character {
                    '{' => depth += 1,
                    '}' if depth == 0 => break,
                    '}' => depth -= 1,
                    ',' if depth == 0 => found.push(std::mem::take(&mut name)),
                    _ if depth == 0 => name.push(character),
                    _ => {}
                }
            }
            found.push(name);
        } else {
            found.push(after.to_owned());
        }
    }
    found
        .iter()
        .map(|text| {
            text.trim_start()
                .chars()
                .take_while(|character| character.is_alphanumeric() || *character == '_')
                .collect()
        })
        .filter(|name: &String| !name.is_empty())
        .collect()
}

/// Tests of a library whose manifest says that it has none would never run.
#[test]
fn a_library_that_is_not_tested_has_no_tests() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
    let is_untested = |source: &Source| {
        let manifest = std::fs::read_to_string(root.join(&source.module).join("Cargo.toml"));
        manifest.is_ok_and(|manifest| manifest.lines().any(|line| line == "test = false"))
    };
    let untested: Vec<Source> = sources().into_iter().filter(is_untested).collect();
    assert!(!untested.is_empty(), "none is found");
    for source in untested {
        let has_tests = source.code.contains("cfg(test)") || source.code.contains("#[test]");
        assert!(!has_tests, "{}", source.path.display());
    }
}

#[test]
fn packages_that_belong_apart_stay_apart() {
    let mut breaches = Vec::new();
    for manifest in manifests() {
        for (group, reason) in APART {
            // A client names none of the others, and they may name each other.
            let rules_this = match group.first() {
                Some(&"client") => manifest.package == "client",
                _ => group.contains(&&*manifest.package),
            };
            let named = manifest.dependencies.iter().filter(|dependency| {
                **dependency != manifest.package && group.contains(&&***dependency)
            });
            breaches.extend(
                named
                    .filter(|_| rules_this)
                    .map(|named| format!("{} names {named}: {reason}", manifest.package)),
            );
        }
    }
    assert!(breaches.is_empty(), "{}", breaches.join("\n"));
}

#[test]
fn each_large_dependency_has_one_home() {
    let mut breaches = Vec::new();
    for manifest in manifests() {
        for (dependency, homes) in HOMES {
            let named = manifest.dependencies.iter().any(|name| name == dependency);
            if named && !homes.contains(&&*manifest.package) {
                breaches.push(format!("{} names {dependency}", manifest.package));
            }
        }
    }
    assert!(breaches.is_empty(), "{}", breaches.join("\n"));
}

#[test]
fn the_check_reads_manifests() {
    let text = "[dependencies]\nbase.workspace = true\nlibc = \"1\"\n\n[dev-dependencies]\nclap = \"4\"\n\n\
                [target.'cfg(unix)'.dependencies]\nlandlock.workspace = true\n";
    assert_eq!(dependencies(text), ["base", "libc", "landlock"]);
}

#[test]
fn pages_take_nothing_from_pages_of_another_subject() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("src/web");
    let mut breaches = Vec::new();
    let mut pages = 0;
    for source in sources() {
        let Ok(inside) = source.path.strip_prefix(&root) else {
            continue;
        };
        let first = inside.iter().next().expect("a name").to_string_lossy();
        let own = first.trim_end_matches(".rs");
        pages += usize::from(SUBJECTS.contains(&own));
        let mut prefixes = vec!["crate::"];
        if inside.components().count() == 1 {
            prefixes.push("super::");
        }
        for import in names_after(&source.code, &prefixes) {
            if SUBJECTS.contains(&&*import) && import != own {
                breaches.push(format!("{} imports {import}", source.path.display()));
            }
        }
    }
    assert!(pages > SUBJECTS.len(), "only {pages} pages found");
    assert!(breaches.is_empty(), "{}", breaches.join("\n"));
}

/// What stands first after each of these, also in `{a, b::c}`.
fn names_after(code: &str, prefixes: &[&str]) -> Vec<String> {
    let found = prefixes.iter().flat_map(|prefix| {
        let marked = code.replace(prefix, "\u{1}").replace("crate::", "");
        imports(&marked.replace('\u{1}', "crate::"))
    });
    found.collect()
}

#[test]
fn the_catalog_and_what_operators_do_know_neither_routes_nor_flags() {
    let mut breaches = Vec::new();
    for source in sources() {
        let tests = source.path.ends_with("tests.rs");
        if !matches!(&*source.module, "catalog" | "operate") || tests {
            continue;
        }
        for word in ["/api/", "force=true", "--force", "StatusCode"] {
            if source.code.contains(word) {
                breaches.push(format!("{} says {word}", source.path.display()));
            }
        }
    }
    assert!(breaches.is_empty(), "{}", breaches.join("\n"));
}

/// Lines of a function that every one may have; of those that have more, `LONG_FUNCTIONS_MAX` are the most.
const FUNCTION_LINES: usize = 60;
const LONG_FUNCTIONS_MAX: usize = 10;
/// Lines that no function may have.
const FUNCTION_LINES_MAX: usize = 100;

/// The functions of a formatted file: their names with how many lines each has. One ends at the first brace that is
/// indented as it is.
fn functions(text: &str) -> Vec<(&str, usize)> {
    let lines: Vec<&str> = text.lines().collect();
    let mut found = Vec::new();
    for (first, line) in lines.iter().enumerate() {
        let Some(name) = name_of_function(line).filter(|_| !line.ends_with(';')) else {
            continue;
        };
        let indent = &line[..line.len() - line.trim_start().len()];
        let is_end = |line: &&str| {
            let rest = line.strip_prefix(indent);
            rest.is_some_and(|rest| rest.starts_with('}'))
        };
        let more = match line.ends_with('}') {
            true => 0,
            false => lines[first..].iter().position(is_end).unwrap_or(0),
        };
        found.push((name, more + 1));
    }
    found
}

/// The name of the function that begins in a line.
fn name_of_function(line: &str) -> Option<&str> {
    let mut rest = line.trim_start();
    loop {
        if let Some(named) = rest.strip_prefix("fn ") {
            return named.split(['(', '<']).next();
        }
        let (word, after) = rest.split_once(' ')?;
        let qualifiers = ["const", "async", "unsafe", "extern", "\"C\""];
        if !qualifiers.contains(&word) && !word.starts_with("pub") && !word.ends_with(')') {
            return None;
        }
        rest = after;
    }
}

#[test]
fn functions_are_short() {
    let mut long = Vec::new();
    for source in sources() {
        let text = std::fs::read_to_string(&source.path).expect("a source file");
        let is_test =
            source.path.iter().any(|part| part == "tests") || source.path.ends_with("tests.rs");
        if is_test {
            continue;
        }
        let own = text
            .split("\n#[cfg(test)]\nmod ")
            .next()
            .unwrap_or_default();
        for (name, lines) in functions(own) {
            if lines > FUNCTION_LINES {
                long.push((lines, format!("{lines} {}: {name}", source.path.display())));
            }
        }
    }
    long.sort();
    let listed: Vec<&str> = long.iter().map(|(_, shown)| shown.as_str()).collect();
    let listed = listed.join("\n");
    let longest = long.last().map_or(0, |(lines, _)| *lines);
    assert!(
        longest <= FUNCTION_LINES_MAX,
        "cut the longest into parts:\n{listed}"
    );
    assert!(
        long.len() <= LONG_FUNCTIONS_MAX,
        "{} are long; cut one into parts:\n{listed}",
        long.len()
    );
}

/// Words that no name in the code may have, each with the field's term for it. A word with an `s` is the same word.
const PRIVATE_WORDS: [(&str, &str); 27] = [
    ("behaves", "healthy"),
    ("bell", "notify"),
    ("bury", "dead_letter"),
    ("fuse", "fail_stop"),
    ("greeting", "challenge"),
    ("guess", "attempt, failure"),
    ("hear", "receive, subscribe"),
    ("hoards", "leaks_handles"),
    ("judge", "policy"),
    ("misfit", "ValidationError, mismatch"),
    ("postpone", "defer"),
    ("put_aside", "quarantine, schedule_retry"),
    ("seat", "permit"),
    ("standing", "item_meta, item_policy"),
    ("stranger", "unauthenticated"),
    ("tell", "send, log, publish"),
    ("telling", "sending, logging, publishing"),
    ("tend", "free_storage, maybe_checkpoint"),
    ("testimony", "delivery_status"),
    ("told", "sent, logged, published"),
    ("trail", "audit_log"),
    ("trouble", "disk_error"),
    ("unfit", "InvalidVerifier, invalid"),
    ("unproven", "unverified"),
    ("untold", "unsent, unlogged"),
    ("voucher", "credential"),
    ("worn", "recycle_reason"),
];

/// Names that have such a word all the same: how the path below `src` begins, the name, the reason.
const ALLOWED_NAMES: [(&str, &str, &str); 5] = [
    ("cli/preset.rs", "Guess", "a verb of the command line"),
    ("http/", "ArcFusePolicy", "a type of salvo"),
    ("http/", "FuseConfig", "a type of salvo"),
    ("http/", "fuse", "a module of salvo"),
    ("http/", "fuse_config", "a function of salvo"),
];

/// The private word in a name, and the field's term.
fn private_word(name: &str) -> Option<(&'static str, &'static str)> {
    let words = words_of(name);
    let found = PRIVATE_WORDS.iter().find(|(private, _)| {
        let private: Vec<&str> = private.split('_').collect();
        words.windows(private.len()).any(|some| {
            let mut pairs = some.iter().zip(&private);
            pairs.all(|(word, private)| word.strip_suffix('s') == Some(private) || word == private)
        })
    });
    found.copied()
}

/// The words of a name in either case, in lower case.
fn words_of(name: &str) -> Vec<String> {
    if !name.contains(char::is_lowercase) {
        return name.split('_').map(str::to_lowercase).collect();
    }
    let mut words = vec![String::new()];
    for character in name.chars() {
        if character == '_' || character.is_uppercase() {
            words.push(String::new());
        }
        if character != '_'
            && let Some(word) = words.last_mut()
        {
            word.extend(character.to_lowercase());
        }
    }
    words
}

/// All names in code, whatever they name: a name that is used is declared somewhere. Without those in comments and texts.
fn names(code: &str) -> BTreeSet<&str> {
    let mut names = BTreeSet::new();
    let mut rest = code;
    while let Some(first) = rest.chars().next() {
        let length = if rest.starts_with("//") {
            rest.find('\n').unwrap_or(rest.len())
        } else if let Some(length) = length_of_text(rest) {
            length
        } else if first.is_alphabetic() || first == '_' {
            let end = rest.find(|character: char| !character.is_alphanumeric() && character != '_');
            let name = &rest[..end.unwrap_or(rest.len())];
            names.insert(name);
            name.len()
        } else {
            first.len_utf8()
        };
        rest = &rest[length..];
    }
    names
}

/// The length of the text that code begins with, or of the character, with its quotes.
fn length_of_text(code: &str) -> Option<usize> {
    let quote = code.find(|character| !matches!(character, 'b' | 'c' | 'r' | '#'))?;
    let (prefix, text) = code.split_at(quote);
    let hashes = prefix.trim_start_matches(['b', 'c']).strip_prefix('r');
    let end = match (text.chars().next()?, hashes) {
        ('"', Some(hashes)) => {
            let close = format!("\"{hashes}");
            text[1..].find(&close)? + 1 + close.len()
        }
        ('"', None) if !prefix.contains('#') => end_of_quoted(text, '"')?,
        // A lifetime has no second quote.
        ('\'', None) if text[1..].starts_with('\\') || text.chars().nth(2) == Some('\'') => {
            end_of_quoted(text, '\'')?
        }
        _ => return None,
    };
    Some(quote + end)
}

fn end_of_quoted(text: &str, quote: char) -> Option<usize> {
    let mut characters = text.char_indices().skip(1);
    while let Some((at, character)) = characters.next() {
        match character {
            '\\' => _ = characters.next(),
            character if character == quote => return Some(at + quote.len_utf8()),
            _ => {}
        }
    }
    None
}

#[test]
fn names_are_the_terms_of_the_field() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
    let mut files_of: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for source in sources() {
        let file = source.path.strip_prefix(&root).expect("below src");
        let file = file.display().to_string();
        if file.contains("/tests/") || file.ends_with("tests.rs") {
            continue;
        }
        let text = std::fs::read_to_string(&source.path).expect("a source file");
        let own = text.split("\n#[cfg(test)]\nmod ").next();
        for name in names(own.unwrap_or_default()) {
            files_of
                .entry(name.to_owned())
                .or_default()
                .push(file.clone());
        }
    }
    assert!(files_of.len() > 10_000, "only {} names", files_of.len());
    let mut found = Vec::new();
    for (name, files) in &files_of {
        let Some((word, term)) = private_word(name) else {
            continue;
        };
        let is_allowed = |file: &&String| {
            let mut allowed = ALLOWED_NAMES.iter();
            allowed.any(|(path, allowed, _)| file.starts_with(path) && allowed == name)
        };
        let others = files.iter().filter(|file| !is_allowed(file));
        found.extend(others.map(|file| format!("{file}: {name}: not {word}, but {term}")));
    }
    assert!(
        found.is_empty(),
        "use the field's terms:\n{}",
        found.join("\n")
    );
}

#[test]
fn the_check_splits_names_into_words() {
    assert_eq!(words_of("told_at"), ["told", "at"]);
    assert_eq!(words_of("TrailError"), ["", "trail", "error"]);
    assert_eq!(words_of("TOLD_MAX"), ["told", "max"]);
    assert_eq!(words_of("retold"), ["retold"]);
    for name in [
        "STANDING_5",
        "put_aside_now",
        "PutAside",
        "misfits",
        "is_told",
    ] {
        assert!(private_word(name).is_some(), "{name}");
    }
    for name in ["aside_put", "putaside", "retold", "tendency", "T"] {
        assert_eq!(private_word(name), None, "{name}");
    }
}

#[test]
fn the_check_reads_names_wherever_they_are_declared() {
    let code = r###"
// a comment
const ONE_MAX: &str = "a \" text // of {x}"; // and another
struct Two<'three> { r#four: bool, five: &'three [u8] }
enum Six { Seven(char) }
fn eight(nine: u8) { let (ten, '"' | '\'' | '\\') = (b"x", y) else { r#"a "raw" text"# }; }
html! { p #"id" .class { (eleven) } }
"###;
    let expected = "ONE_MAX Seven Six Two bool char class const eight eleven else enum five fn four html let nine p r str \
                    struct ten three u8 y";
    let found: Vec<&str> = names(code).into_iter().collect();
    assert_eq!(found.join(" "), expected);
}

#[test]
fn public_types_carry_their_noun() {
    let mut named: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for source in sources() {
        for line in source.code.lines() {
            let mut words = line.split_whitespace();
            let (public, kind) = (words.next(), words.next());
            if public != Some("pub") || !matches!(kind, Some("struct" | "enum" | "type")) {
                continue;
            }
            // What a macro names is named where it is called.
            let Some(name) = words.next().filter(|name| !name.starts_with('$')) else {
                continue;
            };
            let name = name.split(|c: char| !c.is_alphanumeric()).next();
            let named = named.entry(name.unwrap_or_default().to_owned());
            named.or_default().push(source.path.display().to_string());
        }
    }
    assert!(named.len() > 200, "only {} types found", named.len());
    // A macro has a parameter there.
    named.retain(|name, places| places.len() > 2 && !name.is_empty());
    assert!(named.is_empty(), "give these names their nouns: {named:#?}");
}

/// Lines that no file may have.
const FILE_LINES_MAX: usize = 450;

/// Printed for whoever runs it with `--nocapture`: whether the files stay small.
#[test]
fn the_figures_of_the_tree() {
    let mut lines: Vec<(usize, String)> = sources()
        .iter()
        .map(|source| {
            let root = Path::new(env!("CARGO_MANIFEST_DIR"));
            let shown = source.path.strip_prefix(root).unwrap_or(&source.path);
            (source.code.lines().count(), shown.display().to_string())
        })
        .collect();
    lines.sort_unstable();
    let at = |percent: usize| lines[(lines.len() - 1) * percent / 100].0;
    let all: usize = lines.iter().map(|(count, _)| count).sum();
    let (longest, file) = lines.last().expect("files");
    println!(
        "{} files, {all} lines; median {}, ninety per cent below {}, longest {longest} ({file})",
        lines.len(),
        at(50),
        at(90)
    );
    assert!(
        *longest <= FILE_LINES_MAX,
        "{file} has {longest} lines: split it by what it owns"
    );
}

#[test]
fn every_file_says_what_it_owns() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    for source in sources() {
        let text = std::fs::read_to_string(&source.path).expect("a source file");
        let shown = source.path.strip_prefix(root).unwrap_or(&source.path);
        assert!(text.starts_with("//!"), "{}", shown.display());
    }
}

/// Lines that declare a whole number whose name ends in `_ms`.
fn plain_times(code: &str) -> impl Iterator<Item = &str> {
    const NUMBERS: [&str; 9] = [
        "u16", "u32", "u64", "u128", "usize", "i32", "i64", "i128", "Atomic",
    ];
    code.lines().filter(|line| {
        line.split("_ms: ").skip(1).any(|kind| {
            let kind = kind.trim_start_matches("Option<").trim_start_matches('&');
            NUMBERS.iter().any(|number| kind.starts_with(number))
        })
    })
}

/// A number of milliseconds says neither whether it is a moment or a duration, nor by which clock.
#[test]
fn no_time_is_a_plain_number() {
    let sources = sources();
    let found = sources.iter().flat_map(|source| {
        plain_times(&source.code).map(|line| (source.path.display(), line.trim()))
    });
    let found: Vec<String> = found
        .map(|(path, line)| format!("{path}: {line}"))
        .collect();
    assert!(
        found.is_empty(),
        "make these a Duration, or one of `clock::Unix` and `clock::Lived`: {found:#?}"
    );
    let code =
        "pub a_ms: u64,\nfn b(c_ms: Option<Option<i64>>) {}\nd_ms: f64,\ne_ms: Unix,\nf: u64,\n";
    let seen: Vec<&str> = plain_times(code).collect();
    assert_eq!(
        seen,
        ["pub a_ms: u64,", "fn b(c_ms: Option<Option<i64>>) {}"]
    );
}

#[test]
fn the_check_sees_functions_in_all_their_forms() {
    let code = "\
pub(in crate::http) async fn long<T>(
    a: T,
) -> bool {
    if a {
    }
}

impl X {
    pub const fn short(&self) {}

    unsafe extern \"C\" fn three() {
        let function = 1;
    }

    fn declared();
}
// fn not_code() {
";
    assert_eq!(functions(code), [("long", 6), ("short", 1), ("three", 3)]);
}

#[test]
fn the_check_sees_imports_in_all_their_forms() {
    let code = "use crate::a::b; use crate::{c, d::{e, f}, g as h}; crate::i::j();";
    assert_eq!(imports(code), ["a", "c", "d", "g", "i"]);
    let code = "use crate::api::X; use super::super::{body, error::E}; use super::web;";
    let files = names_after(code, &["crate::", "super::super::", "super::"]);
    for file in ["api", "body", "error", "web"] {
        assert!(files.contains(&file.to_owned()), "{file}: {files:?}");
    }
}

/// Where the path of a file in a comment may begin, beside the folder of the comment and its package.
const ROOTS: [&str; 4] = ["", "src", "tests", "tests/it"];

/// The files with a folder that comments name: `a/b.rs`.
fn named_files(text: &str) -> Vec<&str> {
    let comments = text.lines().map(str::trim_start);
    let comments = comments.filter(|line| line.starts_with("//"));
    let quoted = comments.flat_map(|line| line.split('`').skip(1).step_by(2));
    let is_file = |text: &&str| {
        let is_plain =
            |character: char| character.is_ascii_alphanumeric() || "/._-".contains(character);
        text.contains('/') && text.ends_with(".rs") && text.chars().all(is_plain)
    };
    quoted.filter(is_file).collect()
}

#[test]
fn files_that_comments_name_are_there() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let (mut missing, mut count) = (Vec::new(), 0);
    for source in sources() {
        let text = std::fs::read_to_string(&source.path).expect("a source file");
        let folder = source.path.parent().expect("a folder").to_owned();
        let package = root.join("src").join(&source.module);
        for named in named_files(&text) {
            count += 1;
            let mut folders = ROOTS.map(|folder| root.join(folder)).to_vec();
            folders.extend([folder.clone(), package.clone()]);
            if !folders.iter().any(|folder| folder.join(named).exists()) {
                missing.push(format!("{} names {named}", source.path.display()));
            }
        }
    }
    assert!(count > 100, "only {count} found");
    assert!(missing.is_empty(), "{}", missing.join("\n"));
}

#[test]
fn the_check_sees_files_in_comments() {
    let text =
        "//! As `a/b.rs` and `c.rs` say, `d/e.rs`.\nlet f = \"`g/h.rs`\";\n    /// `POST /x/y.rs`";
    assert_eq!(named_files(text), ["a/b.rs", "d/e.rs"]);
}

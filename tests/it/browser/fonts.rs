//! `font=` of `/render`: fonts from the folder `pages`, and what is shown where there is none.

use std::path::Path;

use serde_json::{Value, json};

use super::daemon::Daemon;
use super::driver::Window;
use super::render::{STATE, TABLE, open};
use super::screen::SEEN;
use crate::command_line::operate;

/// The fonts that `font=` asked for: weight, and what became of it.
const OWN: &str = "return [...document.fonts].filter((face) => /Headgate own/.test(face.family)).map((face) => [face.weight, face.status])";
/// How wide the first name is on the screen.
const WIDTH: &str = "const range = document.createRange(); range.selectNodeContents(document.querySelector('tbody th bdi')); return range.getBoundingClientRect().width";

/// Two fonts that are as different as the same letters can be: the first is bold where ours is not.
fn put_fonts(data_dir: &Path) {
    let ours = Path::new(env!("CARGO_MANIFEST_DIR")).join("src/http/pages/fonts");
    let club = data_dir.join("pages/club");
    std::fs::create_dir_all(&club).expect("a folder");
    for (from, to) in [
        ("latin-700", "letters é.woff2"),
        ("latin-500", "bold.woff2"),
    ] {
        let from = ours.join(format!("barlow-condensed-{from}.woff2"));
        std::fs::copy(from, club.join(to)).expect("a font");
    }
    std::fs::write(data_dir.join("pages/broken.woff2"), "no font").expect("a file");
}

#[test]
fn a_font_of_the_folder_pages_is_used_and_any_other_leaves_ours_and_no_word() {
    let test = "a_font_of_the_folder_pages_is_used_and_any_other_leaves_ours_and_no_word";
    let Some(window) = Window::open(test) else {
        return;
    };
    let daemon = Daemon::start(&["orders"]);
    put_fonts(daemon.process().setup.data_dir());
    daemon.post("orders", r#"{"id": "Mmmmmmmmmmmm", "text": "t"}"#);
    let table = json!([["id", "text"], ["Mmmmmmmmmmmm", "t"]]);
    let show = |font: &str, own: &Value| -> f64 {
        open(&window, &daemon, &format!("size=1&font={font}"));
        window.shows(STATE, &json!("shown"));
        window.shows(OWN, own);
        window.shows(TABLE, &table);
        window.run(WIDTH, &json!([])).as_f64().expect("a width")
    };
    let ours = show("", &json!([]));
    let loaded = json!([["500", "loaded"], ["700", "loaded"]]);
    // A name stands in the bold font, which here is the lighter one.
    let theirs = show("club/letters%20%C3%A9.woff2,club/bold.woff2", &loaded);
    assert!(theirs < ours - 1.0, "{theirs} {ours}");
    let policy = |line: &String| line.contains("Content Security Policy");
    assert!(!window.log(&daemon.origin()).iter().any(policy));

    let failed = json!([["500", "error"]]);
    for (font, own) in [
        ("missing.woff2", &failed),
        ("broken.woff2", &failed),
        // Neither addresses, nor ways out of the folder, nor what is no font is asked for at all.
        ("//elsewhere.invalid/a.woff2", &json!([])),
        ("https://elsewhere.invalid/a.woff2", &json!([])),
        ("../admin.woff2", &json!([])),
        ("club/../../admin.woff2", &json!([])),
        ("club%5Cletters.woff2", &json!([])),
        ("lobby.html", &json!([])),
        ("Arial", &json!([])),
    ] {
        assert!((show(font, own) - ours).abs() < 0.5, "{font}");
    }
    // Whoever asks is told.
    for font in ["missing.woff2", "Arial"] {
        open(&window, &daemon, &format!("debug&font={font}"));
        let told = format!("ignored: font={font}");
        window.becomes(&told, SEEN, &json!([]), |text| {
            text.to_string().contains(&told)
        });
    }
    drop(window.log(&daemon.origin()));
}

#[test]
fn a_saved_file_has_its_font_in_it() {
    let Some(window) = Window::open("a_saved_file_has_its_font_in_it") else {
        return;
    };
    let mut daemon = Daemon::start(&["orders"]);
    put_fonts(daemon.process().setup.data_dir());
    let origin = daemon.origin();
    let save = |font: &str, key: &str| {
        let font = format!("font={font}");
        let wanted = [
            "screen", "save", "orders", "--url", &origin, "--option", &font,
        ];
        operate(daemon.process(), wanted.into_iter().chain(["--key", key]))
    };
    // No key is made for a file that there is not.
    let missing = save("missing.woff2", "first");
    assert_eq!((missing.code, &*missing.out), (Some(1), ""));
    assert!(
        missing.err.contains("/pages/missing.woff2"),
        "{}",
        missing.err
    );
    let wrong = save("../x.woff2", "first");
    assert_eq!((wrong.code, &*wrong.out), (Some(2), ""));
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("lobby.html");
    let saved = save("club/letters é.woff2, club/bold.woff2", "first");
    std::fs::write(&file, saved.ok()).expect("a file");
    daemon.stop();
    window.go(&format!("file://{}", file.display()));
    window.shows(STATE, &json!("offline"));
    window.shows(OWN, &json!([["500", "loaded"], ["700", "loaded"]]));
    window.shows(SEEN, &json!(""));
}

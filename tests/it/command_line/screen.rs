//! `headgate screen`: pages to start from, addresses, pages in a file.

use super::{headgate, operate, run};
use crate::program::output;
use crate::setup::Setup;

#[test]
fn a_page_is_written_once_and_again_only_by_force() {
    let folder = tempfile::tempdir().expect("a folder");
    let here = folder.path();
    std::fs::create_dir(here.join("data")).expect("a folder");
    let made = run(here, ["screen", "new", "lobby", "--stream", "a b"]);
    assert!(made.err.contains("data/pages/lobby.html"), "{made:?}");
    assert_eq!(
        made.ok(),
        "http://127.0.0.1:8080/pages/lobby.html?stream=a%20b#READ_KEY\n"
    );
    let path = here.join("data/pages/lobby.html");
    let text = || std::fs::read_to_string(&path).expect("the page");
    assert!(text().contains("<title>lobby</title>") && text().contains("\"/headgate.js\""));
    assert!(text().lines().count() < 75, "it can be read");
    std::fs::write(&path, "mine").expect("a page");
    let again = run(here, ["screen", "new", "lobby"]);
    assert_eq!(again.code, Some(1), "{again:?}");
    assert!(again.err.contains("--force"), "{again:?}");
    assert_eq!(text(), "mine");
    let forced = ["screen", "new", "lobby", "--template", "ticker", "--force"];
    run(here, forced).ok();
    assert!(text().contains("id=\"strip\""));

    run(here, ["screen", "new", "b", "--to", "elsewhere/x"]).ok();
    assert!(here.join("elsewhere/x/b.html").is_file());
    for wrong in ["../b", ".b", "a/b", "", "a b"] {
        assert_eq!(run(here, ["screen", "new", wrong]).code, Some(2), "{wrong}");
    }
    let nowhere = run(here, ["screen", "new", "c", "--data-dir", "none"]);
    assert_eq!(nowhere.code, Some(2));
    assert!(nowhere.err.contains("--to"), "{nowhere:?}");
}

#[test]
fn an_address_has_a_key_that_is_made_for_it_or_given() {
    let process = Setup::with_streams(&["orders"]).spawn();
    let service = format!("http://{}", process.service);
    let wanted = [
        "screen",
        "url",
        "orders",
        "--url",
        &service,
        "--template",
        "number",
        "--option",
        "title=a b&c",
        "--key",
        "lobby",
    ];
    let made = operate(&process, wanted).ok();
    let address = format!("{service}/render/orders?template=number&title=a%20b%26c#");
    let key = made
        .trim_end()
        .strip_prefix(&*address)
        .expect("the address");
    assert!(key.starts_with("rk_live_"), "{made}");
    let items = process.ask("GET", "/api/streams/orders/items", key, "", "");
    assert_eq!(items.status, 200);
    let again = operate(&process, wanted);
    assert_eq!(again.code, Some(1), "the name is taken: {again:?}");

    let with_key = |args: &[&str], key: &str| {
        let mut command = headgate(&process.setup.path(""));
        command.arg("screen").args(args);
        let done = output(command.env("HEADGATE_READ_KEY", key)).expect("it runs");
        let text = |bytes: Vec<u8>| String::from_utf8(bytes).expect("UTF-8");
        (done.status.code(), text(done.stdout), text(done.stderr))
    };
    let page = ["url", "orders", "--page", "lobby", "--qr"];
    let (code, out, err) = with_key(&page, "rk_live_given");
    assert_eq!(code, Some(0), "{err}");
    let (address, image) = out.split_once('\n').expect("lines");
    assert_eq!(
        address,
        "http://127.0.0.1:8080/pages/lobby.html?stream=orders#rk_live_given"
    );
    assert!(err.contains("only this machine"), "{err}");
    let rows: Vec<&str> = image.lines().filter(|row| row.contains('█')).collect();
    let widths: Vec<usize> = rows.iter().map(|row| row.chars().count()).collect();
    assert!(widths.len() > 12, "{image}");
    assert!(widths.iter().all(|width| *width == widths[0]), "{widths:?}");

    for (args, key, word) in [
        (&["url", "orders"][..], "", "--key NAME"),
        (&["url", "orders"], "ik_live_x", "ingest key"),
        (&["save", "orders"], "rk_<b>", "not a read key"),
        (
            &["save", "orders", "--url", "unix:/x"],
            "rk_live_x",
            "--url",
        ),
        (
            &["save", "orders", "--url", "http://h/path"],
            "rk_live_x",
            "--url",
        ),
    ] {
        let (code, out, err) = with_key(args, key);
        assert_eq!((code, &*out), (Some(2), ""), "{args:?}");
        assert!(err.contains(word), "{err}");
    }
    let (code, out, _) = with_key(&["save", "orders"], "rk_live_given");
    assert_eq!(code, Some(0));
    assert!(out.starts_with("<!doctype html>") && out.contains("\"key\":\"rk_live_given\""));
}

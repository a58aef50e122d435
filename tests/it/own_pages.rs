//! Pages of the user's own: what is served from `pages` of the data folder, as what, and what is not.

use std::os::unix::fs::{PermissionsExt as _, symlink};
use std::path::Path;

use reqwest::Method;

use crate::app::{Caller, Raw, TestApp};
use crate::setup::Setup;

fn write(folder: &Path, name: &str, content: impl AsRef<[u8]>) {
    let path = folder.join("pages").join(name);
    std::fs::create_dir_all(path.parent().expect("a folder")).expect("a folder");
    std::fs::write(path, content).expect("a file");
}

/// A daemon whose folder `pages` has these files. They come while it runs.
async fn with(files: &[(&str, &str)]) -> (TestApp, Caller) {
    let app = Setup::screen().start().await;
    for (name, content) in files {
        write(app.data_dir(), name, content);
    }
    let anybody = app.anonymous();
    (app, anybody)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn files_are_served_as_what_they_are() {
    let (_app, anybody) = with(&[
        ("lobby.html", "<p>Lobby"),
        ("lobby/style.CSS", "p {}"),
        ("lobby/main.mjs", "export {}"),
        ("lobby/crest.svg", "<svg/>"),
        ("lobby/a b é.txt", "text"),
        ("lobby/font.woff2", "wOF2"),
        ("lobby/index.html", "<p>Index"),
    ])
    .await;
    for (path, content_type, body) in [
        ("lobby.html", "text/html; charset=utf-8", "<p>Lobby"),
        ("lobby/style.CSS", "text/css; charset=utf-8", "p {}"),
        (
            "lobby/main.mjs",
            "text/javascript; charset=utf-8",
            "export {}",
        ),
        (
            "lobby/crest.svg?v=2",
            "image/svg+xml; charset=utf-8",
            "<svg/>",
        ),
        (
            "lobby/a%20b%20%C3%A9.txt",
            "text/plain; charset=utf-8",
            "text",
        ),
        ("lobby/font.woff2", "font/woff2", "wOF2"),
        ("lobby/", "text/html; charset=utf-8", "<p>Index"),
    ] {
        let path = format!("/pages/{path}");
        let reply = anybody.get(&path).await;
        assert_eq!((reply.status, &*reply.text()), (200, body), "{path}");
        assert_eq!(reply.header("content-type"), Some(content_type), "{path}");
        assert_eq!(reply.header("cache-control"), Some("no-cache"));
        assert_eq!(reply.header("x-content-type-options"), Some("nosniff"));
        let policy = reply.header("content-security-policy").expect("a policy");
        assert!(policy.contains("frame-ancestors *"), "{policy}");
        let head = anybody.call(Method::HEAD, &path, &[], "").await;
        assert_eq!((head.status, head.body.len()), (200, 0));
        for name in [
            "content-type",
            "content-length",
            "etag",
            "content-security-policy",
        ] {
            assert!(reply.header(name).is_some(), "{name}");
            assert_eq!(head.header(name), reply.header(name), "{name}");
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn who_has_a_file_is_not_sent_it_again_until_it_changes() {
    let (app, anybody) = with(&[("a.html", "one")]).await;
    let first = anybody.get("/pages/a.html").await;
    let tag = first.header("etag").expect("a tag").to_owned();
    let known = [("If-None-Match", &*tag)];
    let again = anybody.call(Method::GET, "/pages/a.html", &known, "").await;
    assert_eq!((again.status, again.body.len()), (304, 0));
    // Another file in its place, of the same length: as an editor and `mv` do.
    write(app.data_dir(), "b.html", "two");
    let pages = app.data_dir().join("pages");
    std::fs::rename(pages.join("b.html"), pages.join("a.html")).expect("renamed");
    let changed = anybody.call(Method::GET, "/pages/a.html", &known, "").await;
    assert_eq!((changed.status, &*changed.text()), (200, "two"));
    assert_ne!(changed.header("etag"), Some(&*tag));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn a_player_is_sent_the_part_of_a_file_that_it_asks_for() {
    let (app, anybody) = with(&[]).await;
    let video: Vec<u8> = (0..200_000_u32).map(|at| at.to_le_bytes()[1]).collect();
    write(app.data_dir(), "loop.mp4", &video);
    let whole = anybody.get("/pages/loop.mp4").await;
    assert_eq!(whole.header("accept-ranges"), Some("bytes"));
    assert!(whole.body == video);
    let tag = whole.header("etag").expect("a tag");
    let ask = async |range: &str, of: &str| {
        let headers = [("Range", range), ("If-Range", of)];
        anybody
            .call(Method::GET, "/pages/loop.mp4", &headers, "")
            .await
    };
    let part = ask("bytes=100000-199998", tag).await;
    assert_eq!(part.status, 206);
    let range = part.header("content-range");
    assert_eq!(range, Some("bytes 100000-199998/200000"));
    assert!(part.body == video[100_000..199_999]);
    let beyond = ask("bytes=200000-", tag).await;
    assert_eq!(beyond.status, 416);
    assert_eq!(beyond.header("content-range"), Some("bytes */200000"));
    // Of another file than it has begun with: all of it.
    let other = ask("bytes=1-2", "\"another\"").await;
    assert_eq!((other.status, other.body.len()), (200, video.len()));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn nothing_but_files_of_known_kinds_below_the_folder_is_served() {
    let (app, anybody) = with(&[
        ("a.html", "here"),
        ("x/b.html", "here"),
        (".hidden.html", "secret"),
        (".git/config.txt", "secret"),
        ("notes.php", "secret"),
        ("none", "secret"),
    ])
    .await;
    let folder = app.data_dir().to_owned();
    let pages = folder.join("pages");
    std::fs::write(folder.join("outside.html"), "secret").expect("a file");
    symlink("../outside.html", pages.join("link.html")).expect("a link");
    symlink("..", pages.join("up")).expect("a link");
    symlink(&folder, pages.join("absolute")).expect("a link");
    symlink("a.html", pages.join("inside.html")).expect("a link");
    std::fs::create_dir(pages.join("folder.html")).expect("a folder");
    let pipe = pages.join("pipe.html");
    let made = std::process::Command::new("mkfifo").arg(pipe).status();
    assert!(made.is_ok_and(|made| made.success()));
    let large = std::fs::File::create(pages.join("large.mp4")).expect("a file");
    large.set_len((32 << 20) + 1).expect("it is long");
    for path in [
        "link.html",
        "inside.html",
        "up/outside.html",
        "up/pages/a.html",
        "absolute/outside.html",
        "pipe.html",
        "large.mp4",
        ".hidden.html",
        ".git/config.txt",
        "notes.php",
        "none",
        "",
        "x/",
        "folder.html/",
        "a.html/",
        "missing.html",
        "missing/",
        "x//b.html",
        "%2e%2e/outside.html",
        "..%2foutside.html",
        "x%2fb.html",
        "x%2f..%2f..%2foutside.html",
        "..%5coutside.html",
        "a.html%00",
        "%ff.html",
    ] {
        let reply = anybody.get(&format!("/pages/{path}")).await;
        assert!(!reply.text().contains("secret"), "{path}");
        reply.refused(404, "NOT_FOUND");
    }
    for path in ["/pages/a.html", "/pages/x/b.html"] {
        assert_eq!(anybody.get(path).await.text(), "here", "{path}");
    }
    // As no browser would write them.
    for path in [
        "/pages/../outside.html",
        "/pages/x/../../outside.html",
        "/pages/./../outside.html",
        "/pages//../outside.html",
        "//pages/../outside.html",
    ] {
        let mut raw = Raw::connect(&app.service).await;
        raw.send(format!("GET {path} HTTP/1.1\r\nHost: a\r\n\r\n"))
            .await;
        let reply = raw.reply().await;
        assert_ne!(reply.status, 200, "{path}");
        assert!(!reply.text().contains("secret"), "{path}");
    }
    for method in [Method::POST, Method::PUT, Method::DELETE, Method::PATCH] {
        let reply = anybody.call(method, "/pages/a.html", &[], "new").await;
        assert!(matches!(reply.status, 404 | 405), "{}", reply.status);
        assert_eq!(anybody.get("/pages/a.html").await.text(), "here");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn a_folder_is_entered_and_a_folder_of_pages_that_is_a_link_is_not_followed() {
    let (app, anybody) = with(&[("x/index.html", "index")]).await;
    let reply = anybody.get("/pages/x?stream=orders").await;
    assert_eq!(reply.status, 307);
    assert_eq!(reply.header("location"), Some("/pages/x/?stream=orders"));
    let pages = app.data_dir().join("pages");
    std::fs::rename(&pages, app.data_dir().join("elsewhere")).expect("renamed");
    symlink("elsewhere", &pages).expect("a link");
    let reply = anybody.get("/pages/x/").await;
    reply.refused(404, "NOT_FOUND");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn a_file_that_the_daemon_may_not_read_is_said_to_be_one() {
    let (app, anybody) = with(&[("a.html", "x")]).await;
    let path = app.data_dir().join("pages/a.html");
    let closed = std::fs::Permissions::from_mode(0o000);
    std::fs::set_permissions(&path, closed).expect("its mode");
    if std::fs::File::open(&path).is_ok() {
        return crate::process::skipped(
            "a_file_that_the_daemon_may_not_read_is_said_to_be_one",
            "root may read any file",
        );
    }
    let told = anybody.get("/pages/a.html").await.refused(404, "NOT_FOUND");
    assert!(told.message.contains("owner and mode"), "{}", told.message);
}

//! Unit tests of `user_pages/file.rs`.

use super::*;

#[test]
fn a_path_is_names_that_files_can_have_or_nothing() {
    let check = |path: &str, expected: Option<&[&str]>| {
        let found = names(path);
        let found: Option<Vec<&str>> = found
            .as_ref()
            .map(|names| names.iter().map(String::as_str).collect());
        assert_eq!(found.as_deref(), expected, "{path}");
    };
    check("/pages/a.html", Some(&["a.html"]));
    check("/pages/x/", Some(&["x", "index.html"]));
    check("/pages/", Some(&["index.html"]));
    check("/pages/a%20b/%C3%A9.css", Some(&["a b", "é.css"]));
    check("/pages", None);
    check("/pagesx/a.html", None);
    for wrong in [
        "/pages/../admin.token",
        "/pages/%2e%2e/admin.token",
        "/pages/.%2e/admin.token",
        "/pages/..%2fadmin.token",
        "/pages/x%2f..%2f..%2fadmin.token",
        "/pages/x\\..\\..\\admin.token",
        "/pages/x%5c..%5cadmin.token",
        "/pages//etc/passwd",
        "/pages/x//a.html",
        "/pages/./a.html",
        "/pages/.git/config",
        "/pages/x/.env.txt",
        "/pages/a%00.html",
        "/pages/%ff.html",
    ] {
        check(wrong, None);
    }
}

#[test]
fn the_kind_is_the_end_of_the_name() {
    assert_eq!(kind("a.HTML"), Some("text/html; charset=utf-8"));
    assert_eq!(kind("a.min.js"), Some("text/javascript; charset=utf-8"));
    for other in ["a", "html", "a.", "a.php", "pool.db", "a.html~"] {
        assert_eq!(kind(other), None, "{other}");
    }
}

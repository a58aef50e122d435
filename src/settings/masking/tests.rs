//! Unit tests of `masking.rs`.

use serde_json::json;

use super::*;

#[test]
fn a_url_is_shown_without_its_password_and_its_tokens() {
    let check = |text: &str, expected: &str| assert_eq!(shown_url(text), expected, "{text}");
    check(
        "https://me:hush@a.example/x",
        "https://me:********@a.example/x",
    );
    check("ftp://me:p:w@rd@db/x", "ftp://me:********@db/x");
    check("postgres://me:p/a?s#s@db/x", "postgres://me:********@db/x");
    check(
        "https://a.example:8443/@me:x",
        "https://a.example:8443/@me:x",
    );
    check("https://me@a.example/x:y@z", "https://me@a.example/x:y@z");
    check("https://me:@a.example", "https://me:@a.example");
    check(
        "https://a.example/?a=1&token=hush&b=2&api_key=hush#token=x",
        "https://a.example/?a=1&token=********&b=2&api_key=********#token=x",
    );
    check(
        "https://me:hush@a.example/?access_token=hush",
        "https://me:********@a.example/?access_token=********",
    );
    check("me:hush@a.example", "me:hush@a.example");
    check("token=hush", "token=hush");
}

#[test]
fn settings_are_shown_without_what_is_named_like_a_secret() {
    let settings = json!({
        "url": "https://me:hush-1@a.example",
        "headers": {"X-Api-Key": "hush-2", "x-team": "blue", "Cookie": "hush-3"},
        "auth": {"user": "hush-4", "ttl": 3},
        "tokens": ["hush-5", "", {"any": "hush-6"}],
        "key": ["id"],
        "author": "Ada",
    });
    let mut hidden = hidden(&settings);
    hidden.sort_unstable();
    assert_eq!(
        hidden,
        ["hush-1", "hush-2", "hush-3", "hush-4", "hush-5", "hush-6"]
    );
    let mut masked = settings.clone();
    mask(&mut masked);
    assert_eq!(
        masked,
        json!({
            "url": "https://me:********@a.example",
            "headers": {"X-Api-Key": MASK, "x-team": "blue", "Cookie": MASK},
            "auth": {"user": MASK, "ttl": 3},
            "tokens": [MASK, MASK, {"any": MASK}],
            "key": ["id"],
            "author": "Ada",
        })
    );
    let mut places = named_secrets(&settings);
    places.sort_unstable();
    assert_eq!(
        places,
        [
            "auth.user",
            "headers.Cookie",
            "headers.X-Api-Key",
            "tokens[0]",
            "tokens[2].any"
        ]
    );
}

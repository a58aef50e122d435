//! Unit tests of `plugin/fetch.rs`.

use super::*;

#[test]
fn a_manifest_names_one_component() {
    let component = |layers: &str| {
        let manifest = format!("{{\"layers\": {layers}}}");
        let manifest: Manifest = serde_json::from_str(&manifest).expect("a manifest");
        manifest.component().map(str::to_owned)
    };
    let wasm = r#"{"mediaType": "application/wasm", "digest": "sha256:aa"}"#;
    let other = r#"{"mediaType": "application/json", "digest": "sha256:bb"}"#;
    assert_eq!(component(&format!("[{wasm}]")).as_deref(), Some("aa"));
    assert_eq!(component(&format!("[{other}]")).as_deref(), Some("bb"));
    assert_eq!(
        component(&format!("[{other}, {wasm}]")).as_deref(),
        Some("aa")
    );
    assert_eq!(component(&format!("[{wasm}, {wasm}]")), None);
    assert_eq!(component(&format!("[{other}, {other}]")), None);
    assert_eq!(component("[]"), None);
}

#[test]
fn a_challenge_is_read() {
    let challenge = r#"realm="https://auth.example.com/token",service="example.com",scope="repository:cart:pull""#;
    let found = ["realm", "service", "scope", "error"].map(|name| parameter(challenge, name));
    let expected = [
        "https://auth.example.com/token",
        "example.com",
        "repository:cart:pull",
    ];
    assert_eq!(found[..3], expected.map(|text| Some(text.to_owned())));
    assert_eq!(found[3], None);
}

#[tokio::test]
async fn what_cannot_be_fetched_is_told_with_what_to_give() {
    for (source, says) in [
        (
            "http://127.0.0.1:9/cart.wasm",
            "give a file, https://… or oci://…",
        ),
        (
            "oci://example.com/cart:1.4",
            "a tag may mean something else tomorrow",
        ),
        (
            "oci://example.com/cart@sha256:12",
            "HOST/REPOSITORY@sha256:DIGEST",
        ),
        ("/nowhere/cart.wasm", "cannot read /nowhere/cart.wasm"),
        (
            "https://127.0.0.1:9/cart.wasm",
            "cannot fetch https://127.0.0.1:9/cart.wasm: ",
        ),
    ] {
        let error = fetch(source, &SignIn::default())
            .await
            .expect_err("it cannot be fetched");
        assert!(error.message.contains(says), "{}", error.message);
    }
}

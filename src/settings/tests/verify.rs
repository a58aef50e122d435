//! Keys of tools that sign with a certificate or a key set: what `headgate check` refuses, and what it warns of.

use serde_json::Value;

use super::Place;

const CERTIFICATE: &str = include_str!("../../../tests/fixtures/sender.pem");
const KEY_SET: &str = r#"{"keys": [{"kty": "RSA", "e": "AQAB", "n": "MODULUS"}]}"#;

/// A connector with a key that verifies so, with `tool.pem` and `keys.json` beside the configuration.
fn place(verify: &str) -> Place {
    let site = format!(
        "[[streams]]\nname = \"a\"\n[[connectors]]\nname = \"a\"\nkind = \"webhook\"\n\
         keys = [{{ name = \"a\", stream = \"a\", verify = {{ {verify} }} }}]\n"
    );
    let modulus = format!("v{}w", "_".repeat(340));
    Place::with(&site)
        .file("tool.pem", CERTIFICATE)
        .file("keys.json", &KEY_SET.replace("MODULUS", &modulus))
}

const FILE: &str = "secret = { file = \"tool.pem\" }";
const KEYS: &str = "secret = { file = \"keys.json\" }, audience = \"a\"";

/// A certificate of 2017.
fn expired() -> String {
    let file = include_str!("../../../tests/fixtures/senders.json");
    let file: Value = serde_json::from_str(file).expect("the file is JSON");
    let vectors = file["vectors"].as_array().expect("vectors");
    let paypal = vectors.iter().find(|one| one["provider"] == "paypal");
    let certificate = &paypal.expect("a vector")["verify"]["certificate"];
    certificate.as_str().expect("text").to_owned()
}

#[test]
fn what_is_published_is_read_from_files_variables_and_text() {
    let good = [
        format!("scheme = \"sns\", {FILE}, topic = \"arn:a\""),
        format!("scheme = \"paypal\", {FILE}, webhook_id = \"WH-1\""),
        format!("scheme = \"pubsub\", {KEYS}, email = \"a@example.com\""),
        format!("scheme = \"sns\", secret = \"\"\"{CERTIFICATE}\"\"\", topic = \"arn:a\""),
        "scheme = \"sns\", secret = { env = \"TOOL\" }, topic = \"arn:a\"".to_owned(),
    ];
    for verify in good {
        let place = place(&verify).var("TOOL", CERTIFICATE);
        // Anybody may read them.
        assert_eq!(place.warnings(), [""; 0], "{verify}");
    }
}

#[test]
fn what_is_missing_or_cannot_be_read_is_refused() {
    let refused = |verify: &str, field: &str, part: &str| {
        let problems = place(verify).problems();
        let at = format!("connectors[0].keys[0].verify.{field}");
        assert!(problems.contains(&at), "{field}: {problems}");
        assert!(problems.contains(part), "{part}: {problems}");
        assert_eq!(problems.lines().count(), 1, "{problems}");
    };
    let sns = "scheme = \"sns\"";
    refused(
        &format!("{sns}, {FILE}"),
        "topic",
        "it is missing. Amazon SNS console",
    );
    refused(
        &format!("scheme = \"paypal\", {FILE}"),
        "webhook_id",
        "it is missing. PayPal",
    );
    let keys = "secret = { file = \"keys.json\" }";
    refused(
        &format!("scheme = \"pubsub\", {keys}"),
        "audience",
        "it is missing. Google",
    );
    let topic = "topic = \"arn:a\"";
    let cut = "secret = \"-----BEGIN CERTIFICATE-----MIIB-----END CERTIFICATE-----\"";
    refused(
        &format!("{sns}, {topic}, {cut}"),
        "secret",
        "certificate 1 cannot be read",
    );
    refused(
        &format!("{sns}, {topic}, {keys}"),
        "secret",
        "it has no certificate",
    );
    let missing = "secret = { file = \"none.pem\" }";
    refused(
        &format!("{sns}, {topic}, {missing}"),
        "secret",
        "does not exist",
    );
    let pubsub = "scheme = \"pubsub\", audience = \"a\"";
    refused(
        &format!("{pubsub}, {FILE}"),
        "secret",
        "it is not a JSON Web Key Set",
    );
    let elliptic = "secret = '{\"keys\": [{\"kty\": \"EC\"}]}'";
    refused(
        &format!("{pubsub}, {elliptic}"),
        "secret",
        "it has no RSA key",
    );
    let github = "scheme = \"github\", secret = \"a secret of the tests\"";
    refused(
        &format!("{github}, {topic}"),
        "topic",
        "the preset `github` does not use it; omit it",
    );
}

#[test]
fn who_else_could_send_and_what_has_expired_is_warned_of() {
    let warned = |place: Place, field: &str, part: &str| {
        let warnings = place.warnings();
        let [one] = warnings.as_slice() else {
            panic!("{warnings:?}");
        };
        assert!(one.contains(field) && one.contains(part), "{one}");
    };
    let pubsub = place(&format!("scheme = \"pubsub\", {KEYS}"));
    warned(
        pubsub,
        "verify.email",
        "missing: anyone with a Google account",
    );
    let sns = format!("scheme = \"sns\", {FILE}, topic = \"arn:a\"");
    let sns = place(&sns).file("tool.pem", &expired());
    warned(sns, "verify.secret", "the certificate has expired");
    let notion = place("scheme = \"notion\"");
    warned(notion, "verify.secret", "cannot verify requests yet");
}

#[test]
fn only_a_tool_that_sends_its_secret_can_do_without_one() {
    for scheme in ["github", "hmac", "sns", "standard"] {
        let problems = place(&format!("scheme = \"{scheme}\"")).problems();
        assert!(problems.contains("verify.secret: missing"), "{problems}");
    }
    let problems = place("scheme = \"notion\", secret = \"\"").problems();
    assert!(problems.contains("the secret is empty"), "{problems}");
}

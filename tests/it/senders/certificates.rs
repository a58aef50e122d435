//! Tools that sign with a private key of their own, which `openssl` makes and signs with here.

use std::path::Path;
use std::process::Command;

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use reqwest::Method;
use serde_json::{Value, json};

use super::{BASE64, address, now_seconds};
use crate::command_line::operate;
use crate::process::{JSON, Process, skipped};
use crate::setup::Setup;
use crate::wait::eventually;

const TOPIC: &str = "arn:aws:sns:eu-west-1:123456789012:alarms";
const SERVICE_ACCOUNT: &str = "push@example.iam.gserviceaccount.com";
const AUDIENCE: &str = "https://hooks.example.com";

/// Files `tool.key` and `tool.pem`, a private key and its certificate, in the folder of a configuration.
struct Tool<'a>(&'a Path);

impl<'a> Tool<'a> {
    /// None where there is no openssl.
    fn new(folder: &'a Path, test: &str) -> Option<Self> {
        let made = Command::new("openssl")
            .args(["req", "-x509", "-newkey", "rsa:2048", "-nodes"])
            .args(["-days", "30", "-subj", "/CN=tool.example.com"])
            .args(["-keyout", "tool.key", "-out", "tool.pem"])
            .current_dir(folder)
            .output();
        match made {
            Ok(made) => assert!(made.status.success(), "{made:?}"),
            Err(_) => {
                skipped(test, "there is no openssl");
                return None;
            }
        }
        Some(Self(folder))
    }

    fn openssl(&self, arguments: &[&str]) -> Vec<u8> {
        let mut command = Command::new("openssl");
        let done = command.args(arguments).current_dir(self.0).output();
        let done = done.expect("openssl starts");
        assert!(done.status.success(), "{done:?}");
        done.stdout
    }

    fn sign(&self, hash: &str, message: &str) -> Vec<u8> {
        std::fs::write(self.0.join("message"), message).expect("a file");
        self.openssl(&["dgst", hash, "-sign", "tool.key", "message"])
    }

    /// The public half as Google publishes it.
    fn key_set(&self, name: &str) -> String {
        let printed = self.openssl(&["rsa", "-in", "tool.key", "-noout", "-modulus"]);
        let printed = String::from_utf8(printed).expect("text");
        let digits = printed.trim().strip_prefix("Modulus=").expect("a modulus");
        let byte = |at: usize| u8::from_str_radix(&digits[at..at + 2], 16).expect("digits");
        let modulus: Vec<u8> = (0..digits.len()).step_by(2).map(byte).collect();
        let modulus = URL_SAFE_NO_PAD.encode(modulus);
        let key = json!({"kty": "RSA", "alg": "RS256", "use": "sig", "kid": name, "n": modulus, "e": "AQAB"});
        json!({"keys": [key]}).to_string()
    }
}

/// A message of SNS, signed with the first version of its signatures or the second.
fn sns(tool: &Tool<'_>, version: u8, mut body: Value) -> String {
    let names = match &body["Type"] == "Notification" {
        true => "Message MessageId Timestamp TopicArn Type",
        false => "Message MessageId SubscribeURL Timestamp Token TopicArn Type",
    };
    let line = |name: &str| format!("{name}\n{}\n", body[name].as_str().expect("text"));
    let message: String = names.split(' ').map(line).collect();
    let hash = if version == 1 { "-sha1" } else { "-sha256" };
    body["SignatureVersion"] = version.to_string().into();
    body["Signature"] = BASE64.encode(tool.sign(hash, &message)).into();
    body["SigningCertURL"] =
        "https://sns.eu-west-1.amazonaws.com/SimpleNotificationService-2.pem".into();
    body.to_string()
}

fn notification(id: &str) -> Value {
    json!({
        "Type": "Notification", "MessageId": id, "TopicArn": TOPIC, "Message": "disk full",
        "Timestamp": "2027-01-15T08:00:00.000Z",
    })
}

#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn sns_is_verified_with_a_certificate_of_the_configuration() {
    let setup = Setup::new().unlimited().stream("alarms");
    let folder = setup.path("");
    let Some(tool) = Tool::new(&folder, "sns_is_verified") else {
        return;
    };
    let verify = format!(
        "verify = {{ scheme = \"sns\", secret = {{ file = \"tool.pem\" }}, topic = \"{TOPIC}\" }}"
    );
    let setup = setup.signing_key("alarms", "main", "alarms", &verify);
    let app = setup.start().await;
    let (anyone, path) = (app.anonymous(), address("alarms"));
    let send = async |kind: &'static str, body: String| {
        let headers = [
            ("Content-Type", "text/plain; charset=UTF-8"),
            ("x-amz-sns-message-type", kind),
        ];
        anyone.post(&path, &headers, body).await
    };
    let log = async || app.admin().log("alarms", "").await;

    let mut hello = notification("m-0");
    hello["Type"] = "SubscriptionConfirmation".into();
    hello["Token"] = "t0".into();
    let url = "https://sns.eu-west-1.amazonaws.com/?Action=ConfirmSubscription&Token=t0";
    hello["SubscribeURL"] = url.into();
    let hello = sns(&tool, 1, hello);
    let greeted = send("SubscriptionConfirmation", hello.clone()).await;
    assert_eq!((greeted.status, greeted.body.len()), (200, 0));
    let entry = &log().await[0];
    assert_eq!(entry["status"], "handshake");
    let to_do = format!("open {url} to confirm the subscription");
    assert_eq!(entry["errors"][0], to_do, "{entry}");
    let forged = hello.replace("t0", "t1");
    let refused = send("SubscriptionConfirmation", forged).await;
    refused.refused(401, "UNAUTHORIZED");

    for (version, id) in [(1, "m-1"), (2, "m-2")] {
        let body = sns(&tool, version, notification(id));
        send("Notification", body.clone()).await.receipt();
        let again = send("Notification", body.clone()).await;
        assert_eq!(again.header("idempotent-replayed"), Some("true"));
        let changed = send("Notification", body.replace("disk full", "all is well")).await;
        changed.refused(401, "UNAUTHORIZED");
    }
    app.drain().await;
    let said = &log().await;
    // Of many refusals in a second the log has one, and how many there were.
    let mut rejected = (said.iter()).filter(|entry| entry["status"] == "rejected");
    let reason = "the signature in the body does not match the certificate; the delivery names the one at https://sns.eu-west-1.amazonaws.com/SimpleNotificationService-2.pem";
    let is_said = |entry: &Value| {
        entry["errors"][0]
            .as_str()
            .is_some_and(|said| said.contains(reason))
    };
    assert!(rejected.any(is_said), "{said:?}");
    let stored = app.fields("alarms").await;
    let keys: Vec<&str> = stored.iter().map(|(key, _)| key.as_str()).collect();
    assert_eq!(keys, ["m-1", "m-2"]);
    assert_eq!(said[said.len() - 3]["scheme"], "sns");

    let mut other = notification("m-3");
    other["TopicArn"] = "arn:aws:sns:eu-west-1:210987654321:alarms".into();
    let other = sns(&tool, 2, other);
    send("Notification", other)
        .await
        .refused(401, "UNAUTHORIZED");
    let raw = [
        ("x-amz-sns-rawdelivery", "true"),
        ("Content-Type", "text/plain"),
    ];
    let raw = anyone.post(&path, &raw, "disk full").await;
    raw.refused(401, "UNAUTHORIZED");
    // The daemon has nothing to sign with.
    let trigger = "/api/admin/connectors/alarms/trigger";
    let cannot = app.admin().send(Method::POST, trigger, &json!({})).await;
    let told = cannot.refused(409, "CANNOT_SIGN").message;
    assert!(told.contains("send a test from its settings"), "{told}");
}

#[test]
fn paypal_is_connected_with_its_certificate_and_the_id_of_the_webhook() {
    let folder = Setup::with_streams(&["payments"]);
    let path = folder.path("");
    let Some(tool) = Tool::new(&path, "paypal_is_connected") else {
        return;
    };
    let process = folder.spawn();
    let run = |line: &str| operate(&process, line.split(' '));
    let create = "connector create shop --from paypal --stream payments";
    let told = run(create).failed(2);
    assert!(
        told.contains("give the certificate with --secret-file"),
        "{told}"
    );
    let told = run(&format!("{create} --secret-file tool.pem")).failed(1);
    assert!(
        told.contains("webhook_id") && told.contains("Webhook ID"),
        "{told}"
    );
    let wrong = format!("{create} --secret-file tool.key --option webhook_id=WH-1");
    let told = run(&wrong).failed(1);
    assert!(told.contains("it has no certificate"), "{told}");
    assert!(!told.contains("BEGIN PRIVATE"), "{told}");
    run(&format!(
        "{create} --secret-file tool.pem --option webhook_id=WH-1"
    ))
    .ok();

    let send = |body: &str, signed: &str| {
        let (id, time) = ("t-1", "2027-01-15T08:00:00Z");
        let message = format!("{id}|{time}|WH-1|{}", crc32fast::hash(signed.as_bytes()));
        let signature = BASE64.encode(tool.sign("-sha256", &message));
        let headers = format!(
            "{JSON}PAYPAL-TRANSMISSION-ID: {id}\r\nPAYPAL-TRANSMISSION-TIME: {time}\r\nPAYPAL-TRANSMISSION-SIG: {signature}\r\n\
             PAYPAL-CERT-URL: https://api.paypal.com/v1/notifications/certs/CERT-1\r\n"
        );
        let mut client = process.client();
        let answer = client.request("POST", "/api/webhook/payments/shop", &headers, body);
        answer.expect("an answer")
    };
    let body = r#"{"id": "WH-E-1", "event_type": "PAYMENT.CAPTURE.COMPLETED", "resource": {"id": "c-1", "amount": 24}}"#;
    let sent = send(body, body);
    assert_eq!(sent.status, 202, "{}", sent.body);
    let id = sent.request_id();
    let known = process.request_becomes(&id, "processed");
    assert_eq!(known["scheme"], "paypal", "{known}");
    assert_eq!(known["delivery_id"], "WH-E-1", "{known}");
    assert_eq!(send(&body.replace("24", "9"), body).status, 401);
    let said = "the delivery names the one at https://api.paypal.com/v1/notifications/certs/CERT-1";
    let listed = eventually("the log says why", || {
        let listed = run("requests --connector shop --status rejected --output json").ok();
        listed.contains(said).then_some(listed)
    });
    assert!(listed.contains(r#""name": "paypal-cert-url""#), "{listed}");
    let told = run("trigger paypal --connector shop").failed(1);
    assert!(told.contains("send a test from its settings"), "{told}");
}

/// What Pub/Sub pushes, with a token of this key and for this audience.
fn push(process: &Process, tool: &Tool<'_>, key: &str, audience: &str, path: &str) -> u16 {
    let now = now_seconds();
    let part = |value: Value| URL_SAFE_NO_PAD.encode(value.to_string());
    let head = part(json!({"alg": "RS256", "kid": key, "typ": "JWT"}));
    let claims = part(json!({
        "iss": "https://accounts.google.com", "aud": audience, "email": SERVICE_ACCOUNT,
        "email_verified": true, "iat": now, "exp": now + 3_600,
    }));
    let message = format!("{head}.{claims}");
    let signature = URL_SAFE_NO_PAD.encode(tool.sign("-sha256", &message));
    let body = r#"{"message": {"data": "e30=", "messageId": "7"}, "subscription": "projects/a/subscriptions/b"}"#;
    let token = format!("{message}.{signature}");
    process.ask("POST", path, &token, JSON, body).status
}

#[test]
fn pub_sub_is_verified_with_a_key_set_that_changes_while_the_daemon_runs() {
    let setup = Setup::with_streams(&["events"]);
    let folder = setup.path("");
    let Some(tool) = Tool::new(&folder, "pub_sub_is_verified") else {
        return;
    };
    let publish = |key: &str| {
        let file = folder.join("keys.json");
        std::fs::write(file.with_extension("new"), tool.key_set(key)).expect("a file");
        std::fs::rename(file.with_extension("new"), file).expect("a file");
    };
    publish("first");
    let verify = format!(
        "verify = {{ scheme = \"pubsub\", secret = {{ file = \"keys.json\" }}, audience = \"{AUDIENCE}\", email = \"{SERVICE_ACCOUNT}\" }}"
    );
    let setup = setup.signing_key("google", "main", "events", &verify);
    let process = setup.spawn();
    let path = "/api/webhook/events/google";
    let push = |key: &str, audience: &str, path: &str| push(&process, &tool, key, audience, path);
    assert_eq!(push("first", AUDIENCE, path), 202);
    assert_eq!(push("first", "https://other.example.com", path), 401);
    assert_eq!(push("second", AUDIENCE, path), 401);
    // A token is no ingest key.
    for other in [
        "/api/webhook/events",
        "/api/ingest",
        "/api/webhook/events/events",
    ] {
        assert_eq!(push("first", AUDIENCE, other), 401, "{other}");
    }
    assert_eq!(
        process
            .ask("POST", path, "ik_live_unknown", JSON, "{}")
            .status,
        401
    );
    let list = "/api/admin/connectors/google/requests?status=rejected";
    let reasons = eventually("the log says why", || {
        let reasons = process
            .list(list)
            .iter()
            .map(|one| one["errors"].to_string())
            .collect::<String>();
        reasons.contains("audience is").then_some(reasons)
    });
    assert!(
        reasons.contains("`https://other.example.com`, not `https://hooks.example.com`"),
        "{reasons}"
    );
    publish("second");
    eventually("the second key counts", || {
        (push("second", AUDIENCE, path) == 202).then_some(())
    });
    // 401, or 429 after so many in vain.
    assert_ne!(push("first", AUDIENCE, path), 202);
    // What cannot be used changes nothing.
    std::fs::write(folder.join("keys.json"), "{}").expect("a file");
    eventually("the problem is told", || {
        process
            .problems()
            .contains("not a JSON Web Key Set")
            .then_some(())
    });
    assert_eq!(push("second", AUDIENCE, path), 202);
}

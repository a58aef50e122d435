//! The published deliveries of real tools, over HTTP: as they were published, and signed anew with another secret.

use base::clock::Unix;
use base64::Engine as _;
use reqwest::Method;
use serde_json::{Value, json};
use settings::{Key, Patch, Verify};
use webhook::{Draft, Signed, Verifier, preset};

use super::BASE64;
use crate::app::{Reply, TestApp};
use crate::setup::Setup;
use crate::wait::eventually_async;

const FILE: &str = include_str!("../../fixtures/senders.json");
/// Their certificates are made in tests of their own.
const BY_CERTIFICATE: [&str; 3] = ["sns", "paypal", "pubsub"];
/// They sign nothing.
const BY_KEY: [&str; 2] = ["eventgrid", "cloudevents"];
/// Deliveries of any age are taken.
const FOR_EVER_SECONDS: u64 = 4_000_000_000;
const SECRET_CHARS_MIN: usize = 16;

/// How deliveries are verified, as the admin API reads it.
fn read_verify(settings: &Value) -> Option<Verify> {
    let body = json!({"name": "main", "stream": "orders", "verify": settings});
    let patch = Patch::of_new(Key::FIELDS, &[], body.as_object()?.clone()).ok()?;
    let mut key = Key::default();
    key.set_all(&patch).ok()?;
    key.verify
}

/// One delivery of the file.
struct Vector {
    name: String,
    method: Method,
    url: String,
    headers: Vec<(String, String)>,
    body: Vec<u8>,
    /// The scheme with its options and without a secret.
    verify: Value,
    secrets: Vec<String>,
    expect: Value,
    is_handshake: bool,
    is_json: bool,
}

impl Vector {
    fn of(vector: &Value) -> Self {
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        let (request, mut verify) = (&vector["request"], vector["verify"].clone());
        let options = verify.as_object_mut().expect("an object");
        let secrets = options.remove("secrets").unwrap_or_default();
        let secrets = secrets.as_array().into_iter().flatten().map(text).collect();
        if options["scheme"] == "svix" {
            options["scheme"] = "standard".into();
        }
        let headers = request["headers"].as_object().expect("headers").iter();
        let body = match request["body_base64"].as_str() {
            Some(body) => BASE64.decode(body).expect("Base64"),
            None => text(&request["body"]).into_bytes(),
        };
        Self {
            name: text(&vector["name"]),
            method: text(&request["method"]).parse().expect("a method"),
            url: text(&request["url"]),
            headers: headers
                .map(|(name, value)| (name.clone(), text(value)))
                .collect(),
            body,
            verify,
            secrets,
            expect: vector["expect"].clone(),
            is_handshake: vector["kind"] == "handshake",
            is_json: vector["json_body"] == true,
        }
    }

    fn scheme(&self) -> &str {
        self.verify["scheme"].as_str().expect("a scheme")
    }

    /// Whether a configuration takes the secrets.
    fn has_good_secrets(&self) -> bool {
        let scheme = self.scheme();
        !self.secrets.is_empty()
            && (self.secrets.iter()).all(|secret| {
                secret.len() >= SECRET_CHARS_MIN
                    && (scheme != "stripe" || secret.starts_with("whsec_"))
            })
    }

    /// The settings of a key: for deliveries as old as these are, or of today.
    fn settings(&self, secret: &str, of_any_age: bool) -> Value {
        let mut settings = self.verify.clone();
        settings["secret"] = secret.into();
        let Some(Ok(verifier)) = read_verify(&settings).map(|verify| verify.verifier()) else {
            panic!("{}: {settings}", self.name);
        };
        if verifier.signs_url() && settings.get("url").is_none() {
            settings["url"] = self.url.as_str().into();
        }
        if of_any_age {
            settings["tolerance_seconds"] = FOR_EVER_SECONDS.into();
        }
        settings
    }

    /// A delivery as its tool would send it now; none where only the tool can sign.
    fn anew(&self, settings: &Value) -> Option<Signed> {
        let verify = read_verify(settings).expect("settings");
        let verifier: Verifier = verify.verifier().expect("they fit");
        let name = |name: &str| {
            self.headers
                .iter()
                .find(|(own, _)| own.eq_ignore_ascii_case(name))
        };
        let content_type = name("content-type").map_or("", |(_, value)| value);
        let text = |said: &Value| said.as_str().unwrap_or_default().to_owned();
        let id = match text(&self.expect["id"]) {
            none if none.is_empty() => "delivery-of-the-tests".to_owned(),
            id => id,
        };
        let signed = verifier.sign(Draft {
            method: "POST",
            url: settings["url"].as_str().unwrap_or(&self.url),
            body: &self.body,
            content_type,
            headers: &[],
            id: &id,
            event: &text(&self.expect["event"]),
            now: Unix::now(),
        });
        signed.ok()
    }

    /// A secret that the scheme takes and no vector has.
    fn other_secret(&self) -> Option<String> {
        match self.scheme() {
            "standard" | "gitlab" => Some(format!("whsec_{}", BASE64.encode([7; 32]))),
            "stripe" => Some("whsec_of_the_tests_of_vectors".to_owned()),
            "sendgrid" | "discord" => None,
            _ => Some(super::OTHER.to_owned()),
        }
    }

    async fn send(
        &self,
        app: &TestApp,
        at: &str,
        headers: &[(String, String)],
        body: &[u8],
    ) -> Reply {
        let query = self
            .url
            .split_once('?')
            .map(|(_, query)| format!("?{query}"));
        let path = format!("/api/webhook/{at}/{at}{}", query.unwrap_or_default());
        let headers: Vec<(&str, &str)> = (headers.iter())
            .filter(|(name, _)| {
                !name.eq_ignore_ascii_case("host") && !name.eq_ignore_ascii_case("content-length")
            })
            .map(|(name, value)| (name.as_str(), value.as_str()))
            .collect();
        let anyone = app.anonymous();
        anyone
            .call(self.method.clone(), &path, &headers, body.to_vec())
            .await
    }

    /// What a good one is answered.
    fn status(&self) -> u16 {
        let is_form = self.headers.iter().any(|(name, value)| {
            name.eq_ignore_ascii_case("content-type") && value.contains("form-urlencoded")
        });
        match self.is_json || is_form {
            true => preset(self.scheme()).expect("a preset").answer.status,
            false => 400,
        }
    }
}

fn vectors() -> Vec<Vector> {
    let file: Value = serde_json::from_str(FILE).expect("the file is JSON");
    let all = file["vectors"]
        .as_array()
        .expect("vectors")
        .iter()
        .map(Vector::of);
    all.filter(|one| !BY_CERTIFICATE.contains(&one.scheme()) && !BY_KEY.contains(&one.scheme()))
        .collect()
}

/// As `verify = …` of a key.
fn toml(settings: &Value) -> String {
    match settings {
        Value::Object(fields) => {
            let fields = fields
                .iter()
                .map(|(name, value)| format!("{name} = {}", toml(value)));
            format!("{{ {} }}", fields.collect::<Vec<_>>().join(", "))
        }
        other => other.to_string(),
    }
}

/// One connector of this name in the stream of this name, with these keys.
pub(super) fn with(setup: Setup, name: &str, keys: &[Value]) -> Setup {
    let setup = setup.stream(name);
    keys.iter()
        .enumerate()
        .fold(setup, |setup, (at, settings)| {
            let settings = format!("verify = {}", toml(settings));
            setup.signing_key(name, &format!("k{at}"), name, &settings)
        })
}

#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn published_deliveries_are_answered_as_their_tools_want_it() {
    let vectors: Vec<Vector> = vectors()
        .into_iter()
        .filter(Vector::has_good_secrets)
        .collect();
    assert!(vectors.len() >= 36, "{}", vectors.len());
    let mut setup = Setup::new().unlimited();
    for (at, vector) in vectors.iter().enumerate() {
        // Those that are wrong for their time only would be good with more tolerance.
        let of_any_age = vector.expect["because"] != "timestamp";
        let keys: Vec<Value> = (vector.secrets.iter())
            .map(|secret| vector.settings(secret, of_any_age))
            .collect();
        setup = with(setup, &format!("s{at}"), &keys);
    }
    let app = setup.start().await;
    for (at, vector) in vectors.iter().enumerate() {
        let (name, stream) = (&vector.name, format!("s{at}"));
        let reply = vector
            .send(&app, &stream, &vector.headers, &vector.body)
            .await;
        // A refusal is answered before it is logged.
        let newest = async || {
            let logged = eventually_async("it is logged", async || {
                let mut log = app.admin().log(&stream, "").await;
                (!log.is_empty()).then(|| log.swap_remove(0))
            });
            logged.await
        };
        if vector.is_handshake {
            let answer = &vector.expect["answer"];
            assert_eq!(
                json!(reply.status),
                answer["status"],
                "{name}: {}",
                reply.text()
            );
            assert_eq!(json!(reply.text()), answer["body"], "{name}");
            assert_eq!(newest().await["status"], "handshake", "{name}");
            continue;
        }
        if vector.expect["valid"] != true {
            assert_eq!(reply.status, 401, "{name}: {}", reply.text());
            assert_eq!(newest().await["status"], "rejected", "{name}");
            continue;
        }
        assert_eq!(reply.status, vector.status(), "{name}: {}", reply.text());
        if reply.status == 400 {
            continue;
        }
        app.drain().await;
        assert!(!app.fields(&stream).await.is_empty(), "{name}");
        let newest = newest().await;
        assert_eq!(newest["scheme"], vector.scheme(), "{name}");
        assert_eq!(newest["delivery_id"], vector.expect["id"], "{name}");
        assert_eq!(newest["event"], vector.expect["event"], "{name}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn deliveries_that_are_signed_now_are_stored() {
    let good = |one: &Vector| !one.is_handshake && one.expect["valid"] == true;
    let mut setup = Setup::new().unlimited();
    let (mut signed, mut at) = (Vec::new(), 0);
    for vector in vectors().into_iter().filter(good) {
        let Some(secret) = vector.other_secret() else {
            continue;
        };
        let settings = vector.settings(&secret, false);
        if let Some(Signed { headers, body, .. }) = vector.anew(&settings) {
            let stream = format!("s{at}");
            at += 1;
            setup = with(setup, &stream, &[settings]);
            signed.push((vector, stream, headers, body));
        }
    }
    assert!(signed.len() >= 30, "{}", signed.len());
    let app = setup.start().await;
    for (vector, stream, headers, body) in &signed {
        let name = &vector.name;
        let reply = vector.send(&app, stream, headers, body).await;
        assert_eq!(reply.status, vector.status(), "{name}: {}", reply.text());
        // The same with one byte more is nobody's.
        let other = [&**body, b" "].concat();
        let changed = vector.send(&app, stream, headers, &other).await;
        let is_over_body = !matches!(
            vector.scheme(),
            "mailgun" | "graph" | "telegram" | "gitlab" | "twilio"
        );
        if is_over_body {
            changed.refused(401, "UNAUTHORIZED");
        }
        if reply.status == 400 {
            continue;
        }
        app.drain().await;
        assert!(!app.fields(stream).await.is_empty(), "{name}");
        let log = app.admin().log(stream, "").await;
        let first = log.last().expect("an entry");
        assert_eq!(first["status"], "processed", "{name}");
        assert_eq!(first["scheme"], vector.scheme(), "{name}");
    }
}

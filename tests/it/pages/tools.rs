//! Tools that sign: from the list of them to the line that turns green, and what their forms refuse.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use ring::hmac;

use super::managed::{is_wrong, leads_to, secret};
use super::site::Site;
use crate::process::{Answer, JSON, Process};
use crate::setup::Setup;
use crate::wait::eventually;

/// As somebody types it.
const SECRET: &str = "shpss_typed_by_hand_0123456789";
const NEW_SECRET: &str = "shpss_another_one_98765432100";
const SHOPIFY: &str = "/api/webhook/orders/shop";

/// The header of a signature by this secret, as Shopify makes it.
fn signed(secret: &str, body: &str) -> String {
    let key = hmac::Key::new(hmac::HMAC_SHA256, secret.as_bytes());
    let signature = STANDARD.encode(hmac::sign(&key, body.as_bytes()));
    format!("X-Shopify-Hmac-Sha256: {signature}\r\n")
}

/// Sends without a key.
fn send(process: &Process, path: &str, headers: &str, body: &str) -> Answer {
    let headers = format!("{JSON}{headers}");
    let answer = process.client().request("POST", path, &headers, body);
    answer.expect("an answer")
}

/// Sends an order as Shopify does.
fn order(process: &Process, secret: &str, delivery: &str, body: &str) -> u16 {
    let signature = signed(secret, body);
    let headers = format!(
        "{signature}X-Shopify-Topic: orders/create\r\nX-Shopify-Webhook-Id: {delivery}\r\n"
    );
    send(process, SHOPIFY, &headers, body).status
}

/// The connector `shop` of Shopify.
fn connect(site: &Site) {
    let fields = format!("name=shop&stream=orders&secret={SECRET}");
    leads_to(
        &site.submit("/new/connector?tool=shopify", &fields),
        "/connectors/shop",
    );
}

/// The page as soon as its log has such a text.
fn page_with(site: &Site, path: &str, text: &str) -> String {
    eventually(text, || {
        let page = site.page(path);
        page.contains(text).then_some(page)
    })
}

#[test]
fn a_test_delivery_is_sent_by_a_button_and_goes_the_way_of_any_other() {
    let process = Setup::with_streams(&["orders"]).spawn();
    let site = Site::signed_in(&process);
    connect(&site);
    let page = site.page("/connectors/shop");
    assert!(page.contains("Send test</button>"), "{page}");
    let sent = site.submit("/connectors/shop/trigger", "event=orders/updated");
    let to = sent.header("location").expect("a page").to_owned();
    assert!(to.starts_with("/requests/"), "{to}");
    let page = site.page(&to);
    for part in [
        "The test delivery orders/updated was accepted.",
        "Committed as number",
        "orders/updated",
    ] {
        assert!(page.contains(part), "{part}: {page}");
    }
    leads_to(
        &site.submit("/connectors/shop/trigger", "event=nothing"),
        "/connectors/shop",
    );
    let page = site.page("/connectors/shop");
    assert!(
        page.contains("not accepted: there is no sample of this event"),
        "{page}"
    );
    // Keys are kept as digests, so nothing can be sent with one.
    assert!(
        !site
            .page("/connectors/tests?tab=setup")
            .contains("Send test</button>")
    );
}

#[test]
fn the_list_of_tools_leads_to_a_form_for_each() {
    let process = Setup::with_streams(&["orders"]).spawn();
    let site = Site::signed_in(&process);
    assert!(site.page("/new/connector").contains(r#"href="/new/tool""#));
    assert!(site.page("/connectors").contains(r#"href="/new/tool""#));
    let list = site.page("/new/tool");
    let forms: Vec<&str> = list
        .split("href=\"/new/connector?tool=")
        .skip(1)
        .filter_map(|rest| rest.split('"').next())
        .collect();
    assert_eq!(
        forms[forms.len() - 3..],
        ["hmac", "token", "none"],
        "{forms:?}"
    );
    assert!(forms.len() > 40, "{forms:?}");
    for name in forms {
        let form = site.page(&format!("/new/connector?tool={name}"));
        let signs = form.contains(r#"id="secret""#);
        let is_signed = webhook::preset(name).is_some_and(webhook::Preset::signed);
        assert_eq!(signs, is_signed, "{name}");
    }
    let form = site.page("/new/connector?tool=shopify");
    for said in [
        r#"value="shopify""#,
        "Shopify admin, Settings, Notifications, Webhooks",
        "Default: id.",
        r#"<option value="orders">orders</option>"#,
    ] {
        assert!(form.contains(said), "{said}: {form}");
    }
    assert!(
        site.page("/new/connector?tool=meta")
            .contains(r#"id="verify_token""#)
    );
    assert_eq!(site.get("/new/connector?tool=nothing").status, 404);
}

#[test]
fn a_shop_is_connected_by_its_secret_and_the_line_turns_green() {
    let process = Setup::with_streams(&["orders"])
        .set("server.public_url", "https://hooks.example.com")
        .spawn();
    let site = Site::signed_in(&process);
    connect(&site);
    let page = site.page("/connectors/shop");
    for said in [
        "Now paste its URL into Shopify.",
        r#"<p class="panel" id="first" role="status">Waiting for your first request.</p>"#,
        "https://hooks.example.com/api/webhook/orders/shop<",
        "Events worth choosing: orders/create",
        "as usual for Shopify",
        "verifies Shopify",
        r#"data-copy="tool-url-0""#,
    ] {
        assert!(page.contains(said), "{said}: {page}");
    }
    for absent in [
        "HEADGATE_KEY",
        "/api/ingest",
        "Nothing identifies",
        "server.public_url",
    ] {
        assert!(!page.contains(absent), "{absent}: {page}");
    }

    assert_eq!(order(&process, SECRET, "one", r#"{"id": 7}"#), 202);
    let page = page_with(&site, "/connectors/shop", "first-came");
    assert!(
        page.contains(r#"<p id="first-came" hidden>Your first request came at"#),
        "{page}"
    );
    assert!(page.contains("orders/create"), "{page}");
    let (_, rest) = page.split_once("id=\"request-").expect("a request");
    let request = site.page(&format!("/requests/{}", &rest[..36]));
    for said in ["Shopify (<code>shopify</code>)", "orders/create", ">one<"] {
        assert!(request.contains(said), "{said}: {request}");
    }
    for path in [
        "/connectors/shop",
        "/connectors/shop/keys/main",
        "/connectors/shop/change",
        "/connectors",
        "/audit",
    ] {
        assert!(!site.page(path).contains(SECRET), "{path}");
    }
    assert!(!process.log().contains(SECRET));
}

#[test]
fn without_a_public_url_the_page_says_what_to_set() {
    let process = Setup::with_streams(&["orders"]).spawn();
    let site = Site::signed_in(&process);
    connect(&site);
    let page = site.page("/connectors/shop");
    let url = format!("http://{}{SHOPIFY}<", process.service);
    assert!(
        page.contains(&url) && page.contains("<code>server.public_url</code>"),
        "{page}"
    );
    // What signs the URL cannot do without.
    let fields = format!("name=texts&stream=orders&secret={SECRET}");
    let twilio = site.submit("/new/connector?tool=twilio", &fields);
    is_wrong(
        &twilio,
        400,
        "url",
        "It signs the URL that the tool was given",
    );
    assert!(!twilio.body.contains(SECRET), "{}", twilio.body);
    let fields = format!("{fields}&url=https%3A%2F%2Fhooks.example.com%2Fin");
    leads_to(
        &site.submit("/new/connector?tool=twilio", &fields),
        "/connectors/texts",
    );
}

#[test]
fn a_secret_that_is_refused_is_named_and_not_repeated() {
    let process = Setup::with_streams(&["orders"]).spawn();
    let site = Site::signed_in(&process);
    for (tool, typed, message) in [
        ("shopify", "", "It is empty"),
        ("shopify", "shpss_short", "It has 11 bytes"),
        ("stripe", SECRET, "Secrets of Stripe begin with"),
        ("svix", "whsec_never_base64", "It is not `whsec_`"),
    ] {
        let path = format!("/new/connector?tool={tool}");
        let fields = format!("name=shop&stream=orders&item_key=order.id&secret={typed}");
        let answer = site.submit(&path, &fields);
        is_wrong(&answer, 400, "secret", message);
        assert!(
            typed.is_empty() || !answer.body.contains(typed),
            "{}",
            answer.body
        );
        for kept in ["shop", "order.id"] {
            let kept = format!(r#"value="{kept}""#);
            assert!(answer.body.contains(&kept), "{kept}: {}", answer.body);
        }
    }
    let fields = format!("name=other&stream=orders&secret={SECRET}");
    let nowhere = site.submit("/new/connector?tool=hmac", &fields);
    is_wrong(&nowhere, 400, "header", "It is missing");
    let fields = format!("{fields}&header=X-Signature&signed=%7Bts%7D");
    let unsigned = site.submit("/new/connector?tool=hmac", &fields);
    is_wrong(&unsigned, 400, "signed", "It has no {body}");
    let wordless = site.submit("/new/connector?tool=meta", &fields);
    is_wrong(&wordless, 400, "verify_token", "Choose a word.");
    assert!(
        !process
            .admin("/api/admin/connectors")
            .to_string()
            .contains("shop")
    );

    // Two keys of a stream cannot have one secret.
    connect(&site);
    let fields = format!("name=again&stream=orders&secret={SECRET}");
    let same = site.submit("/new/connector?tool=shopify", &fields);
    is_wrong(&same, 400, "secret", "Another key of this stream has it");
    assert!(!same.body.contains(SECRET) && !process.log().contains(SECRET));
}

#[test]
fn what_is_refused_turns_the_line_amber_until_a_good_request_comes() {
    let process = Setup::with_streams(&["orders"]).spawn();
    let site = Site::signed_in(&process);
    connect(&site);
    assert_eq!(order(&process, NEW_SECRET, "one", r#"{"id": 7}"#), 401);
    let page = page_with(&site, "/connectors/shop", "does not match");
    for said in [
        r#"<p class="panel refused" id="first" role="status">A request was rejected at "#,
        r#"<p id="first-refused" hidden>A request was rejected at "#,
        "The signature in X-Shopify-Hmac-Sha256 does not match the secret of the key main",
    ] {
        assert!(page.contains(said), "{said}: {page}");
    }
    assert!(!page.contains("first-came"), "{page}");
    let polled = site.send("GET", "/connectors/shop", &[("HX-Request", "true")], "");
    assert!(
        polled.body.contains(r#"id="first-refused""#) && !polled.body.contains(r#"id="first""#),
        "{}",
        polled.body
    );

    // A good one, and what is refused later is only in the log.
    assert_eq!(order(&process, SECRET, "two", r#"{"id": 7}"#), 202);
    page_with(&site, "/connectors/shop", "first-came");
    assert_eq!(order(&process, NEW_SECRET, "three", r#"{"id": 8}"#), 401);
    // Within the same second it is told as one of a flood.
    let page = eventually("both refusals", || {
        let page = site.page("/connectors/shop");
        (page.matches(">rejected</span>").count() == 2).then_some(page)
    });
    assert!(
        page.contains(r#"<p class="panel good" id="first" role="status">Your first request came"#),
        "{page}"
    );
    assert!(!page.contains("first-refused"), "{page}");

    // Without any signature, and without a key.
    let fields = format!("name=other&stream=orders&secret={SECRET}2");
    leads_to(
        &site.submit("/new/connector?tool=shopify", &fields),
        "/connectors/other",
    );
    let sent = send(&process, "/api/webhook/orders/other", "", "{}");
    assert_eq!(sent.status, 401, "{}", sent.body);
    let page = page_with(&site, "/connectors/other", "panel refused");
    assert!(
        page.contains("The header X-Shopify-Hmac-Sha256 is missing"),
        "{page}"
    );
}

#[test]
fn a_greeting_is_good_and_still_waits_for_an_event() {
    let process = Setup::with_streams(&["orders"]).spawn();
    let site = Site::signed_in(&process);
    let fields = format!("name=boards&stream=orders&secret={SECRET}&url=https%3A%2F%2Fexample.com");
    leads_to(
        &site.submit("/new/connector?tool=trello", &fields),
        "/connectors/boards",
    );
    let mut client = process.client();
    let head = "HEAD /api/webhook/orders/boards HTTP/1.1\r\nHost: localhost\r\n\r\n";
    client.send(head).expect("it is sent");
    // Its length is none of ours.
    drop(client.answer());
    let page = page_with(&site, "/connectors/boards", "sent a challenge at");
    assert!(
        page.contains(
            r#"<p class="panel good" id="first" role="status">Trello sent a challenge at "#
        ),
        "{page}"
    );
    assert!(page.contains(">handshake<"), "{page}");
}

#[test]
fn a_tool_that_signs_nothing_is_given_a_url_with_a_key() {
    let process = Setup::with_streams(&["orders"])
        .set("server.public_url", "https://hooks.example.com")
        .spawn();
    let site = Site::signed_in(&process);
    leads_to(
        &site.submit("/new/connector?tool=eventgrid", "name=azure&stream=orders"),
        "/connectors/azure",
    );
    let page = site.page("/connectors/azure");
    let key = secret(&page).expect("the key");
    let path = "/api/webhook/orders/azure";
    let url = format!(
        r#"<code id="url-with-key">https://hooks.example.com{path}?access_token={key}</code>"#
    );
    assert!(page.contains(&url), "{page}");
    // To the address of the connector, with the field that identifies.
    let snippet = format!("http://{}{path}", process.service);
    assert!(
        page.contains(&snippet) && page.contains("&quot;id&quot;: 1"),
        "{page}"
    );
    let page = site.page("/connectors/azure");
    assert!(!page.contains(&key), "{page}");
    assert!(page.contains("allowed in URLs"), "{page}");
    let token = format!("{path}?access_token={key}");
    let sent = send(&process, &token, "", r#"{"id": "1"}"#);
    assert!((200..300).contains(&sent.status), "{}", sent.body);
}

#[test]
fn a_tool_with_a_certificate_is_connected_by_its_lines() {
    let process = Setup::with_streams(&["orders"]).spawn();
    let site = Site::signed_in(&process);
    let new = "/new/connector?tool=sns";
    let form = site.page(new);
    for said in [
        r#"<label for="secret">Certificate</label><textarea"#,
        r#"<label for="topic">Topic ARN</label>"#,
        "that SigningCertURL",
    ] {
        assert!(form.contains(said), "{said}: {form}");
    }
    let form = site.page("/new/connector?tool=pubsub");
    assert!(form.contains(r#"for="secret">Key set</label>"#), "{form}");
    assert!(form.contains("Service account (optional)"), "{form}");
    let lines = |text: &str| {
        let text = text.replace('\n', "\r\n");
        form_urlencoded::byte_serialize(text.as_bytes()).collect::<String>()
    };
    let certificate = lines(include_str!("../../fixtures/sender.pem"));
    let fields =
        |secret: &str, topic: &str| format!("name=aws&stream=orders&topic={topic}&secret={secret}");
    let wrong = site.submit(new, &fields("MIIB", "arn%3Aa"));
    is_wrong(&wrong, 400, "secret", "It has no certificate");
    let wrong = site.submit(new, &fields(&certificate, ""));
    is_wrong(&wrong, 400, "topic", "It is missing");
    leads_to(
        &site.submit(new, &fields(&certificate, "arn%3Aa")),
        "/connectors/aws",
    );
    let page = site.page("/connectors/aws");
    assert!(page.contains("Amazon SNS (<code>sns</code>)"), "{page}");
    let key = site.page("/connectors/aws/keys/main");
    assert!(key.contains("New certificate"), "{key}");
    // The same certificate is that of another topic, too.
    let second = "/connectors/aws/new-key?tool=sns";
    let again = fields(&certificate, "arn%3Aa").replace("name=aws", "name=second");
    is_wrong(&site.submit(second, &again), 400, "secret", "Another key");
    let other = again.replace("arn%3Aa", "arn%3Ab");
    leads_to(&site.submit(second, &other), "/connectors/aws");
}

#[test]
fn a_change_keeps_the_tool_and_where_its_items_are() {
    let process = Setup::with_streams(&["orders"]).spawn();
    let site = Site::signed_in(&process);
    leads_to(
        &site.submit("/new/connector?tool=eventgrid", "name=azure&stream=orders"),
        "/connectors/azure",
    );
    let azure = || process.admin("/api/admin/connectors/azure");
    let change = "/connectors/azure/change";
    let form = site.page(change);
    assert!(
        form.contains(r#"<option value="eventgrid" selected>Azure Event Grid</option>"#),
        "{form}"
    );
    let fields = "kind=webhook&preset=eventgrid&items=value&item_key=data.id";
    leads_to(&site.submit(change, fields), "/connectors/azure");
    let changed = azure();
    assert_eq!(
        (&changed["preset"], &changed["items"], &changed["item_key"]),
        (&"eventgrid".into(), &"value".into(), &"data.id".into()),
        "{changed}"
    );
    let form = site.page(change);
    assert!(
        form.contains(r#"name="items" type="text" value="value""#),
        "{form}"
    );
    // A form without the fields leaves them.
    leads_to(
        &site.submit(change, "kind=webhook&item_key=id&burst=9"),
        "/connectors/azure",
    );
    let changed = azure();
    assert_eq!(
        (&changed["preset"], &changed["items"], &changed["burst"]),
        (&"eventgrid".into(), &"value".into(), &9.into()),
        "{changed}"
    );
    let wrong = site.submit(change, "kind=webhook&preset=nothing&items=value");
    is_wrong(&wrong, 400, "preset", "Unknown preset");
}

#[test]
fn where_nothing_identifies_an_item_the_fields_stand_to_choose_from() {
    let process = Setup::with_streams(&["orders"])
        .set("storage.payload_retention_minutes", 60)
        .spawn();
    let site = Site::signed_in(&process);
    leads_to(
        &site.submit("/new/connector", "name=till&kind=webhook&stream=orders"),
        "/connectors/till",
    );
    let page = site.page("/connectors/till");
    let key = secret(&page).expect("the key");
    assert!(page.contains("No item key: each new object"), "{page}");
    let body = r#"{"total": 3, "order": {"id": "a-1"}}"#;
    let sent = process.ask("POST", "/api/webhook/orders", &key, JSON, body);
    assert_eq!(sent.status, 202, "{}", sent.body);
    let page = page_with(&site, "/connectors/till", "?item_key=order.id");
    let choice = |field: &str| page.find(&format!("/connectors/till/change?item_key={field}\""));
    assert!(choice("order.id") < choice("total"), "{page}");
    let form = site.page("/connectors/till/change?item_key=order.id");
    assert!(form.contains(r#"value="order.id""#), "{form}");
    leads_to(
        &site.submit("/connectors/till/change", "kind=webhook&item_key=order.id"),
        "/connectors/till",
    );
    let page = site.page("/connectors/till");
    assert!(!page.contains("No item key: each new object"), "{page}");
    // What is ready to paste has the field.
    let page = site.page("/connectors/till?tab=setup");
    assert!(page.contains("&quot;order.id&quot;: 1"), "{page}");
}

#[test]
fn a_signing_key_is_added_and_rotated_by_the_new_secret() {
    let process = Setup::with_streams(&["orders"]).spawn();
    let site = Site::signed_in(&process);
    connect(&site);
    let new_key = "/connectors/shop/new-key";
    assert!(site.page(new_key).contains(r#"name="tool""#));
    assert_eq!(
        site.get("/connectors/shop/new-key?tool=cloudevents").status,
        404
    );
    let path = format!("{new_key}?tool=shopify");
    let fields = "name=second&stream=orders&secret=short";
    is_wrong(&site.submit(&path, fields), 400, "secret", "It has 5 bytes");
    let third = "shpss_of_the_second_shop_1";
    let fields = format!("name=second&stream=orders&secret={third}");
    leads_to(&site.submit(&path, &fields), "/connectors/shop");
    assert_eq!(order(&process, third, "one", r#"{"id": 1}"#), 202);

    let rotate = "/connectors/shop/keys/main/rotate";
    let page = site.page("/connectors/shop/keys/main");
    assert!(
        page.contains("New secret") && page.contains("verifies Shopify"),
        "{page}"
    );
    let none = site.submit(rotate, "grace=1&grace_unit=hours");
    is_wrong(&none, 400, "secret", "It is empty");
    let fields = format!("grace=1&grace_unit=hours&secret={NEW_SECRET}");
    leads_to(&site.submit(rotate, &fields), "/connectors/shop");
    let page = site.page("/connectors/shop");
    assert!(page.contains("verifies with the new secret"), "{page}");
    let keys = site.page("/connectors/shop?tab=keys");
    assert!(keys.contains("grace until"), "{keys}");
    assert!(!page.contains(NEW_SECRET), "{page}");
    assert_eq!(order(&process, SECRET, "two", r#"{"id": 2}"#), 202);
    assert_eq!(order(&process, NEW_SECRET, "three", r#"{"id": 3}"#), 202);
    assert!(!process.log().contains(NEW_SECRET));
}

#[test]
fn the_form_for_other_tools_says_all_of_a_signature() {
    let process = Setup::with_streams(&["orders"]).spawn();
    let site = Site::signed_in(&process);
    // Base64 of the secret, as it is typed into a form.
    let encoded = STANDARD.encode(SECRET);
    let fields = format!(
        "name=till&stream=orders&secret={}&header=X-Signature&prefix=v1%3D&signed=%7Bts%7D.%7Bbody%7D\
         &hash=sha256&encoding=hex&secret_encoding=base64&timestamp=t%3D&timestamp_in=part&unit=ms",
        encoded.replace('+', "%2B").replace('=', "%3D")
    );
    let path = "/new/connector?tool=hmac";
    let one = site.submit(path, &fields);
    is_wrong(&one, 400, "separator", "It is missing");
    for kept in [
        r#"<option value="part" selected>"#,
        r#"<option value="ms" selected>"#,
    ] {
        assert!(one.body.contains(kept), "{kept}: {}", one.body);
    }
    let fields = format!("{fields}&separator=%2C");
    leads_to(&site.submit(path, &fields), "/connectors/till");
    let (body, now) = (r#"{"id": 1}"#, base::clock::Unix::now().ms());
    let key = hmac::Key::new(hmac::HMAC_SHA256, SECRET.as_bytes());
    let tag = hmac::sign(&key, format!("{now}.{body}").as_bytes());
    let hex: String = (tag.as_ref().iter())
        .map(|byte| format!("{byte:02x}"))
        .collect();
    let headers = format!("X-Signature: t={now},v1={hex}\r\n");
    let sent = send(&process, "/api/webhook/orders/till", &headers, body);
    assert_eq!(sent.status, 202, "{}", sent.body);
}

#[test]
fn what_is_ready_to_paste_has_the_item_where_the_connector_looks_for_it() {
    let process = Setup::with_streams(&["orders"]).spawn();
    let site = Site::signed_in(&process);
    let body = serde_json::json!({"name": "list", "kind": "webhook", "stream": "orders", "items": "data.rows"});
    assert_eq!(process.make("/api/admin/connectors", &body).status, 201);
    let page = site.page("/connectors/list");
    for said in [
        "/api/webhook/orders/list'",
        "{&quot;data&quot;: {&quot;rows&quot;: [{&quot;id&quot;: 1, &quot;name&quot;: &quot;first&quot;}]}}",
        "/api/webhook/orders/list</code>",
    ] {
        assert!(page.contains(said), "{said}: {page}");
    }
}

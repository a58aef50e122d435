//! A tool that signs, connected in a browser: from the list of tools to the line that turns amber, and green.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use ring::hmac;
use serde_json::json;

use super::admin::{log_without_refusals, origin};
use super::daemon::Daemon;
use super::driver::{Window, key};
use super::forms::{fill, is_at, text};
use crate::process::JSON;

const SECRET: &str = "shpss_typed_by_hand_0123456789";

/// Sends an order to the address that the page names, as Shopify does; the status of the answer.
fn order(daemon: &Daemon, url: &str, secret: &str, body: &str) -> u16 {
    let path = url.strip_prefix(&daemon.origin()).expect("the daemon's");
    let signature = hmac::sign(
        &hmac::Key::new(hmac::HMAC_SHA256, secret.as_bytes()),
        body.as_bytes(),
    );
    let headers = format!(
        "{JSON}X-Shopify-Hmac-Sha256: {}\r\nX-Shopify-Topic: orders/create\r\n",
        STANDARD.encode(signature)
    );
    let mut client = daemon.process().client();
    let answer = client.request("POST", path, &headers, body);
    answer.expect("an answer").status
}

#[test]
fn a_tool_is_found_connected_refused_and_believed() {
    let Some(window) = Window::open("a_tool_is_found_connected_refused_and_believed") else {
        return;
    };
    let daemon = Daemon::start(&["orders"]);
    window.go(&daemon.process().sign_in_link());
    is_at(&window, "Overview");
    window.click("nav a[href='/connectors']");
    is_at(&window, "Connectors");
    window.click("a[href='/new/tool']");
    is_at(&window, "Which tool?");
    window.click("#find-tool");
    window.keys("shopi");
    let left = "return [...document.querySelectorAll('#tools li:not([hidden])')].map((tool) => tool.textContent)";
    window.shows(left, &json!(["Shopify"]));
    window.keys(&key::ENTER.to_string());
    is_at(&window, "Connect Shopify");
    fill(&window, "name", "shop");
    fill(&window, "stream", "orders");
    window.click("#secret");
    window.keys(SECRET);
    window.click("form.panel button");
    is_at(&window, "shop");
    assert_eq!(
        text(&window, "p.said"),
        "Connector shop created. Now paste its URL into Shopify."
    );
    assert_eq!(text(&window, "#first"), "Waiting for your first request.");
    let url = text(&window, "#tool-url-0");
    assert!(url.ends_with("/api/webhook/orders/shop"), "{url}");
    window.run("window.loadedOnce = true", &json!([]));

    // Amber, with the reason.
    let mistyped = "shpss_typed_by_hand_0123456788";
    assert_eq!(order(&daemon, &url, mistyped, r#"{"id": 7}"#), 401);
    let amber = "const line = document.querySelector('#first.refused'); \
                 return [line?.textContent.includes('The signature in X-Shopify-Hmac-Sha256 does not match the secret of the key main'), line?.role]";
    window.shows(amber, &json!([true, "status"]));

    // Green, and the page was never loaded again.
    assert_eq!(
        order(&daemon, &url, SECRET, r#"{"id": 7, "total": "12.50"}"#),
        202
    );
    let green = "const line = document.querySelector('#first.good'); \
                 return [line?.textContent.startsWith('Your first request came at'), window.loadedOnce]";
    window.shows(green, &json!([true, true]));
    let page = "return document.documentElement.outerHTML.includes(arguments[0])";
    assert_eq!(window.run(page, &json!([SECRET])), false);

    // And on the screen.
    window.go(&format!("{}/streams/orders", origin(&daemon)));
    let shown = "return document.querySelector('main').textContent.includes('12.50')";
    window.becomes("the order", shown, &json!([]), |value| *value == true);
    assert_eq!(
        log_without_refusals(&window, &origin(&daemon)),
        Vec::<String>::new()
    );
}

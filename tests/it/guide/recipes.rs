//! The recipes of the guide, each against a fake that refuses what the documents of its tool refuse.
//!
//! **Invariant**: what is tried is the section as the guide prints it, but for its host and its secrets.

use std::sync::Arc;

use serde_json::{Value, json};

use super::{blocks, read};
use crate::process::BY_ID;
use crate::receiver::{Receiver, Reply, Seen, answer};
use crate::setup::Setup;

/// A tool: the sink of its recipe, its server as the recipe has it, secrets, and its answer to a request.
struct Tool {
    sink: &'static str,
    server: &'static str,
    /// The variable of a secret, and its text; one that begins with a slash is a path of the server.
    secret: (&'static str, &'static str),
    answers: fn(&Seen) -> Reply,
}

const BEARER: &str = "Bearer token-of-the-recipes";
const TOOLS: [Tool; 11] = [
    Tool {
        sink: "slack",
        server: "slack.com",
        secret: ("SLACK_AUTHORIZATION", BEARER),
        answers: slack,
    },
    Tool {
        sink: "discord",
        server: "discord.com",
        secret: ("DISCORD_WEBHOOK", "/api/webhooks/123/abc-DEF"),
        answers: discord,
    },
    Tool {
        sink: "teams",
        server: "prod-00.westeurope.logic.azure.com",
        secret: (
            "TEAMS_WORKFLOW",
            "/workflows/0a1b/triggers/manual/paths/invoke?api-version=2016-06-01&sig=x-_y",
        ),
        answers: teams,
    },
    Tool {
        sink: "ntfy",
        server: "ntfy.sh",
        secret: ("NTFY_AUTHORIZATION", BEARER),
        answers: ntfy,
    },
    Tool {
        sink: "home-assistant",
        server: "home.example.com:8123",
        secret: ("HOME_ASSISTANT_AUTHORIZATION", BEARER),
        answers: home_assistant,
    },
    Tool {
        sink: "vmix",
        server: "http://127.0.0.1:8088",
        secret: ("", ""),
        answers: vmix,
    },
    Tool {
        sink: "companion",
        server: "http://127.0.0.1:8000",
        secret: ("", ""),
        answers: companion,
    },
    Tool {
        sink: "h2r",
        server: "http://127.0.0.1:4001",
        secret: ("", ""),
        answers: h2r,
    },
    Tool {
        sink: "spx",
        server: "http://127.0.0.1:5656",
        secret: ("SPX_URL", "/api/v1/directplayout?apikey=0123456789"),
        answers: spx,
    },
    Tool {
        sink: "casparcg",
        server: "http://127.0.0.1:5656",
        secret: ("SPX_URL", "/api/v1/directplayout?apikey=0123456789"),
        answers: spx,
    },
    Tool {
        sink: "trmnl",
        server: "trmnl.com",
        secret: (
            "TRMNL_PLUGIN",
            "/api/custom_plugins/0a1b2c3d-0000-4000-8000-0123456789ab",
        ),
        answers: trmnl,
    },
];

fn no(status: u16, said: &str) -> Reply {
    answer(status, "", said)
}

fn is_json(seen: &Seen) -> bool {
    let content_type = seen.header("content-type").unwrap_or_default();
    content_type.split(';').next() == Some("application/json")
}

/// A text of the body, not empty, of so many characters at most.
fn text_of<'a>(body: &'a Value, pointer: &str, chars_max: usize) -> Option<&'a str> {
    let text = body.pointer(pointer)?.as_str()?;
    (!text.is_empty() && text.chars().count() <= chars_max).then_some(text)
}

fn slack(seen: &Seen) -> Reply {
    let refused = |error: &str| answer(200, "", &json!({"ok": false, "error": error}).to_string());
    if seen.method != "POST" || seen.path != "/api/chat.postMessage" {
        return refused("unknown_method");
    }
    if seen.header("authorization") != Some(BEARER) {
        return refused("not_authed");
    }
    if !is_json(seen) {
        return refused("invalid_post_type");
    }
    let Ok(body) = serde_json::from_str::<Value>(&seen.body) else {
        return refused("invalid_json");
    };
    if text_of(&body, "/channel", 80).is_none() {
        return refused("channel_not_found");
    }
    let blocks = body["blocks"].as_array().map_or(&[][..], Vec::as_slice);
    let fits = |block: &Value| {
        block["type"] == "section"
            && block["text"]["type"] == "plain_text"
            && text_of(block, "/text/text", 3_000).is_some()
    };
    match (
        text_of(&body, "/text", 40_000),
        blocks.len() <= 50 && blocks.iter().all(fits),
    ) {
        (None, _) => refused("no_text"),
        (_, false) => refused("invalid_blocks"),
        _ => answer(
            200,
            "",
            &json!({"ok": true, "channel": body["channel"], "ts": "1.2"}).to_string(),
        ),
    }
}

fn discord(seen: &Seen) -> Reply {
    let body: Value = serde_json::from_str(&seen.body).unwrap_or_default();
    if seen.method != "POST" || !is_json(seen) {
        return no(405, "405: Method Not Allowed");
    }
    if seen.path != "/api/webhooks/123/abc-DEF" {
        return no(404, r#"{"message": "Unknown Webhook", "code": 10015}"#);
    }
    match text_of(&body, "/content", 2_000).is_some()
        && body["allowed_mentions"]["parse"].is_array()
    {
        true => no(204, ""),
        false => no(
            400,
            r#"{"message": "Cannot send an empty message", "code": 50006}"#,
        ),
    }
}

fn teams(seen: &Seen) -> Reply {
    let body: Value = serde_json::from_str(&seen.body).unwrap_or_default();
    if seen.method != "POST" || !seen.path.ends_with("&sig=x-_y") {
        return no(401, "DirectApiAuthorizationRequired");
    }
    let card = &body["attachments"][0];
    let is_card = body["type"] == "message"
        && card["contentType"] == "application/vnd.microsoft.card.adaptive"
        && card["content"]["type"] == "AdaptiveCard"
        && card["content"]["version"].is_string()
        && card["content"]["body"]
            .as_array()
            .is_some_and(|body| !body.is_empty());
    let elements = card["content"]["body"].as_array().into_iter().flatten();
    let mut elements = elements.map(|element| match element["type"].as_str() {
        Some("TextBlock") => element["text"].is_string(),
        Some("FactSet") => element["facts"]
            .as_array()
            .into_iter()
            .flatten()
            .all(|fact| fact["title"].is_string() && fact["value"].is_string()),
        _ => false,
    });
    match is_json(seen) && is_card && elements.all(|fits| fits) && seen.body.len() <= 28 << 10 {
        true => no(202, ""),
        false => no(400, "TriggerInputSchemaMismatch"),
    }
}

fn ntfy(seen: &Seen) -> Reply {
    let body: Value = serde_json::from_str(&seen.body).unwrap_or_default();
    if seen.header("authorization") != Some(BEARER) {
        return no(401, r#"{"code": 40101, "error": "unauthorized"}"#);
    }
    let is_topic = |topic: &str| {
        topic
            .chars()
            .all(|one| one.is_ascii_alphanumeric() || "-_".contains(one))
    };
    let fits = seen.method == "POST"
        && seen.path == "/"
        && text_of(&body, "/topic", 64).is_some_and(is_topic)
        && text_of(&body, "/message", 4_096).is_some()
        && body["tags"]
            .as_array()
            .is_some_and(|tags| tags.iter().all(Value::is_string));
    match fits {
        true => no(200, r#"{"event": "message"}"#),
        false => no(
            400,
            r#"{"code": 40024, "error": "invalid request: request body must be valid JSON"}"#,
        ),
    }
}

fn home_assistant(seen: &Seen) -> Reply {
    if seen.header("authorization") != Some(BEARER) {
        return no(401, "401: Unauthorized");
    }
    let entity = seen.path.strip_prefix("/api/states/").unwrap_or_default();
    let is_id = |part: &str| {
        !part.is_empty()
            && part
                .chars()
                .all(|one| matches!(one, 'a'..='z' | '0'..='9' | '_'))
    };
    let (domain, id) = entity.split_once('.').unwrap_or_default();
    if !is_id(domain) || !is_id(id) {
        return no(400, r#"{"message": "Invalid entity ID specified."}"#);
    }
    if seen.method == "DELETE" {
        return no(200, r#"{"message": "Entity removed."}"#);
    }
    let body: Value = serde_json::from_str(&seen.body).unwrap_or_default();
    match seen.method == "POST"
        && text_of(&body, "/state", 255).is_some()
        && body["attributes"].is_object()
    {
        true => no(201, "{}"),
        false => no(400, r#"{"message": "No state specified."}"#),
    }
}

fn vmix(seen: &Seen) -> Reply {
    let query = seen.path.strip_prefix("/api/?").unwrap_or_default();
    let names: Vec<&str> = query
        .split('&')
        .map(|part| part.split('=').next().unwrap_or_default())
        .collect();
    match seen.method == "GET"
        && seen.body.is_empty()
        && names == ["Function", "Input", "SelectedName", "Value"]
    {
        true => no(200, "Function completed successfully."),
        false => no(500, "Function failed."),
    }
}

fn companion(seen: &Seen) -> Reply {
    let path: Vec<&str> = seen.path.split('/').collect();
    let is_text = seen
        .header("content-type")
        .is_some_and(|one| one.starts_with("text/plain"));
    match (seen.method.as_str(), &path[..]) {
        ("POST", ["", "api", "custom-variable", "score_final", "value"])
            if is_text && !seen.body.is_empty() =>
        {
            no(200, "ok")
        }
        ("POST", ["", "api", "custom-variable", "score_final", "value"]) => no(400, "No value"),
        _ => no(404, "Not found"),
    }
}

fn h2r(seen: &Seen) -> Reply {
    let body: Value = serde_json::from_str(&seen.body).unwrap_or_default();
    let is_known = seen.method == "POST" && seen.path == "/api/ABCD/updateVariableText/1";
    match (is_known, is_json(seen) && body["text"].is_string()) {
        (false, _) => no(404, "Cannot POST"),
        (_, false) => no(400, "text is missing"),
        _ => no(200, "{}"),
    }
}

fn spx(seen: &Seen) -> Reply {
    if !seen.path.ends_with("?apikey=0123456789") {
        return no(403, "Invalid API key");
    }
    let body: Value = serde_json::from_str(&seen.body).unwrap_or_default();
    let texts = [
        "casparServer",
        "casparChannel",
        "casparLayer",
        "webplayoutLayer",
        "relativeTemplatePath",
    ];
    let has_fields = body["DataFields"].as_array().is_some_and(|fields| {
        fields
            .iter()
            .all(|field| field["field"].is_string() && field["value"].is_string())
    });
    let is_command = match body["command"].as_str() {
        Some("play") => has_fields,
        Some("stop") => true,
        _ => false,
    };
    let is_known = seen.method == "POST" && seen.path.starts_with("/api/v1/directplayout?");
    match is_known && is_json(seen) && is_command && texts.iter().all(|name| body[name].is_string())
    {
        true => no(200, "Sent request to SPX server."),
        false => no(500, "Error in /api/v1/directplayout"),
    }
}

fn trmnl(seen: &Seen) -> Reply {
    let body: Value = serde_json::from_str(&seen.body).unwrap_or_default();
    let id = seen
        .path
        .strip_prefix("/api/custom_plugins/")
        .unwrap_or_default();
    match (
        id.len() == 36,
        seen.body.len() <= 2_048,
        seen.method == "POST" && body["merge_variables"].is_object(),
    ) {
        (false, ..) => no(404, "not found"),
        (_, false, _) => no(422, "payload too large"),
        (.., false) => no(422, "merge_variables is missing"),
        _ => no(200, r#"{"message": null}"#),
    }
}

/// The section of a tool in the guide, for this server.
fn section(tool: &Tool, receiver: &Receiver) -> String {
    let page = read("src/guide/recipes.md");
    let named = format!("name = \"{}\"\n", tool.sink);
    let mut own = blocks(&page, "toml")
        .into_iter()
        .filter(|block| block.contains(&named));
    let section = own
        .next()
        .unwrap_or_else(|| panic!("no recipe {}", tool.sink))
        .to_owned();
    let (variable, secret) = tool.secret;
    let secret = match secret.starts_with('/') {
        true => receiver.url(secret),
        false => secret.to_owned(),
    };
    let url = receiver.url("");
    let mut section = section.replace(
        &format!("{{ env = \"{variable}\" }}"),
        &format!("{secret:?}"),
    );
    if !tool.server.starts_with("http") {
        let hosts = format!("hosts = [{:?}]", tool.server);
        assert!(section.contains(&hosts), "{section}");
        section = section.replace(
            &hosts,
            &format!("hosts = [{url:?}]\nnetworks = [\"127.0.0.0/8\"]"),
        );
    }
    let server = format!("https://{}", tool.server);
    section.replace(&server, &url).replace(tool.server, &url)
}

#[test]
fn each_recipe_is_taken_by_a_fake_of_its_tool() {
    let mut folder = Setup::with_streams(&["orders", "scores"]).sink("pool", "pool", "*", "");
    let mut receivers = Vec::new();
    for tool in TOOLS {
        let answers = tool.answers;
        let receiver = Arc::new(Receiver::start(move |seen, _| answers(seen)));
        folder = folder.toml(&section(&tool, &receiver));
        receivers.push((tool.sink, receiver));
    }
    let page = read("src/guide/recipes.md");
    assert_eq!(blocks(&page, "toml").len(), TOOLS.len(), "each has a fake");
    assert_eq!(
        page.matches("\nTried against a fake of its documents.")
            .count(),
        TOOLS.len()
    );
    let process = folder.spawn();
    let odd = json!([
        {"id": 1, "customer": "Ada", "total": 1.5},
        {"id": 2, "customer": "\"}]{\\ <@everyone> & é 日本\r\nx: y\u{0}", "total": "59.999"},
        {"id": 3, "total": null},
        {"id": 4, "customer": "x".repeat(5_000), "total": 1e30},
    ]);
    process.processed("orders", BY_ID, &odd.to_string());
    let title = "Zürich & \"Bern\" <1> +%\r\n{}";
    let score = json!({"id": "final", "title": title, "home": 2, "away": 1});
    process.processed("scores", BY_ID, &score.to_string());
    // One of them follows the newest state.
    process.drained();
    process.removed("scores", "final");
    process.drained();
    for (sink, receiver) in &receivers {
        assert_eq!(
            process.dead_letters(sink),
            [] as [Value; 0],
            "{sink}: {:?}",
            receiver.seen()
        );
        let expected = match *sink {
            "slack" | "discord" | "teams" | "ntfy" => 4,
            "home-assistant" | "casparcg" => 2,
            _ => 1,
        };
        assert_eq!(
            receiver.seen().len(),
            expected,
            "{sink}: {:?}",
            receiver.seen()
        );
    }
    process.stop();
}

#[test]
fn the_fakes_refuse_what_their_documents_refuse() {
    for tool in TOOLS {
        let seen = Seen {
            method: "POST".to_owned(),
            path: "/".to_owned(),
            headers: Vec::new(),
            body: "[]".to_owned(),
            from: None,
        };
        let Reply::Whole(text) = (tool.answers)(&seen) else {
            panic!("{} does not answer", tool.sink);
        };
        let took = text.starts_with("HTTP/1.1 2") && !text.contains("\"ok\":false");
        assert!(!took, "{}: {text}", tool.sink);
    }
}

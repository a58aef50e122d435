//! What each role may do: every route of the admin listener, taken from the router itself, with each role.

use std::sync::Arc;

use headgate::daemon::routes::admin;
use http::host::Hosts;
use http::sessions::Sessions;
use http::{AdminParts, Outside};
use serde_json::{Value, json};
use settings::{Role, Settings};

use crate::app::TestApp;
use crate::command_line::{operate, run};
use crate::pages::Site;
use crate::process::{Answer, Client, Process};
use crate::setup::{ADMIN_TOKEN, Setup};

/// What needs neither token nor session.
const OPEN: [&str; 7] = [
    "/healthz",
    "/docs",
    "/docs.css",
    "/favicon.ico",
    "/openapi.json",
    "/assets",
    "/sign-in",
];

fn secret(role: Role) -> String {
    format!("token-of-the-tests-{}", role.as_str())
}

fn setup() -> Setup {
    let tokens = Role::ALL.map(|role| {
        let (name, secret) = (role.as_str(), secret(role));
        format!("[[admin.tokens]]\nname = \"{name}-1\"\nrole = \"{name}\"\nsecret = \"{secret}\"\n")
    });
    Setup::with_streams(&["orders"]).toml(&tokens.concat())
}

/// Method and path of everything that the admin listener serves.
async fn routes() -> Vec<(String, String)> {
    let setup = setup();
    let settings = setup.load().settings;
    let app = setup.start().await;
    let mut routes = admin_routes(&app, &settings);
    // What HEAD needs is what GET needs (`head.rs`).
    routes.retain(|(method, _)| method != "HEAD");
    routes
}

/// Method and path of each route of the admin listener.
pub(crate) fn admin_routes(app: &TestApp, settings: &Settings) -> Vec<(String, String)> {
    let service = admin(&AdminParts {
        operator: app.parts.clone(),
        sessions: Arc::new(Sessions::new(&app.parts.access)),
        hosts: Hosts {
            listed: Arc::new([]),
            is_local: true,
        },
        outside: Outside::of(settings),
    });
    listed(&format!("{:?}", service.router))
}

/// Method and path of each route of a router, as it shows itself.
pub(crate) fn listed(tree: &str) -> Vec<(String, String)> {
    let mut around: Vec<String> = Vec::new();
    let mut found = Vec::new();
    for line in tree.lines() {
        let (before, named) = line.split_once("──").expect("a branch");
        let depth = before.chars().count() / 4;
        let (filters, goal) = match named.split_once(" -> ") {
            Some((filters, goal)) => (filters, Some(goal)),
            None => (named, None),
        };
        let (path, method) = match filters.split_once('[') {
            Some((path, method)) => (path, Some(method.trim_end_matches(']'))),
            None => (filters, None),
        };
        around.truncate(depth);
        let own = path.trim_matches('/');
        let whole = match own {
            "" | "!NULL!" => around.last().cloned().unwrap_or_default(),
            own => format!("{}/{own}", around.last().cloned().unwrap_or_default()),
        };
        if goal.is_some() {
            let method = method.expect("a method").to_owned();
            let path = if whole.is_empty() { "/" } else { &whole };
            found.push((method, path.replace(['{', '}'], "_")));
        }
        around.push(whole);
    }
    found
}

/// What operators do with what a stream shows.
const ACTS: [&str; 7] = [
    "override", "add", "release", "hold", "take", "resume", "undo",
];

fn is_open(path: &str) -> bool {
    let below = |open: &&str| {
        path.strip_prefix(*open)
            .is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
    };
    OPEN.iter().any(below)
}

/// The role that a route is promised to need.
fn needed(method: &str, path: &str) -> Role {
    let reads = method == "GET";
    let last = path.rsplit('/').next().unwrap_or_default();
    if path == "/metrics" {
        return Role::Metrics;
    }
    if let Some(of_api) = path.strip_prefix("/api/admin/") {
        let subject = of_api.split('/').next().unwrap_or_default();
        return match subject {
            _ if reads => Role::Viewer,
            "tickets" | "sign-in-links" => Role::Viewer,
            "connectors" if last == "trigger" => Role::Operator,
            "streams" if of_api.contains("/items/") || ACTS.contains(&last) => Role::Operator,
            "sinks" if last == "sinks" || method == "PATCH" => Role::Admin,
            "streams" | "connectors" | "read-keys" | "sessions" | "plugins" | "cluster" => {
                Role::Admin
            }
            _ => Role::Operator,
        };
    }
    if method == "POST" && path.starts_with("/connectors/") && last == "trigger" {
        return Role::Operator;
    }
    // Paths of version 0.1 lead to others, which need what they need.
    if path.starts_with("/sources") || path == "/new/source" {
        return Role::Viewer;
    }
    let is_form =
        path.starts_with("/new/") || ["change", "delete", "revoke", "new-key"].contains(&last);
    match path.split('/').nth(1).unwrap_or_default() {
        _ if reads && !is_form => Role::Viewer,
        "sign-out" => Role::Viewer,
        "streams" if last.starts_with("export.") => Role::Viewer,
        "streams" if ["act", "expire-items", "release-items", "remove"].contains(&last) => {
            Role::Operator
        }
        "new" | "connectors" | "streams" | "read-keys" | "sessions" => Role::Admin,
        "sinks" if ["change", "delete"].contains(&last) => Role::Admin,
        "settings" if last == "claim" => Role::Admin,
        _ => Role::Operator,
    }
}

fn call(process: &Process, method: &str, path: &str, token: &str) -> Answer {
    let mut client = Client::connect(process.admin).expect("it listens");
    let head = format!(
        "{method} {path} HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {token}\r\nContent-Length: 2\r\n\r\n{{}}"
    );
    client.send(&head).expect("it listens");
    let answer = client.answer();
    answer.unwrap_or_else(|error| panic!("{method} {path}: {error}"))
}

fn trail(process: &Process, action: &str) -> Vec<Value> {
    let all = process.list("/api/admin/audit?limit=500");
    let found = all.into_iter().filter(|one| one["action"] == action);
    found.collect()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn every_route_is_refused_to_every_role_below_the_one_it_needs() {
    let routes = routes().await;
    tokio::task::spawn_blocking(move || check_all(&routes))
        .await
        .expect("it is true");
}

fn check_all(routes: &[(String, String)]) {
    let process = setup().spawn();
    let guarded: Vec<_> = routes.iter().filter(|(_, path)| !is_open(path)).collect();
    let of_api = |path: &str| path.starts_with("/api/") || path == "/metrics";
    let (api, pages): (Vec<_>, Vec<_>) = guarded.into_iter().partition(|(_, path)| of_api(path));
    assert!(api.len() > 45 && pages.len() > 40, "{routes:?}");
    for role in Role::ALL {
        for (method, path) in &api {
            let answer = call(&process, method, path, &secret(role));
            let what = format!("{} {method} {path}: {}", role.as_str(), answer.body);
            let needed = needed(method, path);
            assert_ne!(answer.status, 401, "{what}");
            assert_eq!(answer.status == 403, role < needed, "{what}");
            if role < needed {
                let error = &answer.json()["error"];
                assert_eq!(error["code"], "FORBIDDEN", "{what}");
                let says = format!("needs the role {}", needed.as_str());
                assert!(error["message"].to_string().contains(&says), "{what}");
            }
        }
        let mut site = Site::of(&process);
        let signed_in = site.sign_in(&secret(role)).status;
        if role < Role::Viewer {
            assert_eq!(signed_in, 403);
            assert_eq!(site.get("/").status, 401);
            continue;
        }
        assert_eq!(signed_in, 303);
        for (method, path) in &pages {
            let answer = match &**method {
                "GET" => site.get(path),
                // The session's form token is wrong, so that nothing is done.
                _ => site.post(path, "form_token=x"),
            };
            let what = format!("{} {method} {path}: {}", role.as_str(), answer.body);
            let refused = answer.status == 403 && answer.body.contains("needs the role");
            assert_ne!(answer.status, 401, "{what}");
            assert_eq!(refused, role < needed(method, path), "{what}");
            if method != "GET" {
                assert_eq!(answer.status, 403, "{what}");
            }
        }
    }
    // Once a minute for each token, with what it was refused first.
    let refused = trail(&process, "role_refused");
    let mut names: Vec<_> = refused.iter().map(|one| &one["name"]).collect();
    names.dedup();
    assert_eq!(names, ["operator-1", "viewer-1", "metrics-1"]);
    let mut of_viewer = refused.iter().filter(|one| one["name"] == "viewer-1");
    let first = of_viewer.next_back().expect("a refusal");
    assert_eq!(first["who"], "token viewer-1");
    assert_eq!(first["after"]["role"], "viewer");
    assert_eq!(first["after"]["needed"], "admin");
    assert_eq!(first["after"]["last"], "POST /api/admin/streams");
    assert!(
        !process.log().contains("token-of-the-tests"),
        "no token is written"
    );
}

#[test]
fn what_a_token_did_bears_its_name_and_the_main_one_is_called_as_ever() {
    let process = setup().spawn();
    let made = call(
        &process,
        "POST",
        "/api/admin/sinks/pool/retry",
        &secret(Role::Operator),
    );
    assert_eq!(made.status, 200, "{}", made.body);
    let made = call(&process, "POST", "/api/admin/sinks/pool/retry", ADMIN_TOKEN);
    assert_eq!(made.status, 200, "{}", made.body);
    let mut site = Site::of(&process);
    assert_eq!(site.sign_in(&secret(Role::Operator)).status, 303);
    assert_eq!(site.submit("/sinks/pool/retry", "").status, 303);
    let who: Vec<Value> = trail(&process, "retry")
        .iter()
        .map(|one| one["who"].clone())
        .collect();
    assert_eq!(
        who,
        [
            "page of token operator-1",
            "admin token",
            "token operator-1"
        ]
    );
    assert_eq!(trail(&process, "sign_in")[0]["who"], "token operator-1");
    let page = site.page("/");
    assert!(page.contains("operator-1, operator"), "{page}");
    assert!(!Site::signed_in(&process).page("/").contains("admin, admin"));
}

#[test]
fn a_link_gives_no_more_than_the_token_has_that_asked_for_it() {
    let process = setup().spawn();
    let link = call(
        &process,
        "POST",
        "/api/admin/sign-in-links",
        &secret(Role::Viewer),
    );
    let link = link.json()["data"]["path"]
        .as_str()
        .expect("a path")
        .to_owned();
    let (_, invitation) = link.split_once('#').expect("a secret");
    let mut site = Site::of(&process);
    assert_eq!(site.sign_in(invitation).status, 303);
    let refused = site.submit("/sinks/pool/retry", "");
    assert_eq!(refused.status, 403);
    assert!(
        refused.body.contains("needs the role operator"),
        "{}",
        refused.body
    );
    assert!(site.page("/sinks/pool").contains("data-role=\"viewer\""));
    assert_eq!(
        trail(&process, "sign_in")[0]["who"],
        "link of token viewer-1"
    );
}

#[test]
fn a_changed_configuration_ends_tokens_and_their_sessions_without_a_restart() {
    let mut setup = setup();
    let process = setup.spawn();
    let mut site = Site::of(&process);
    assert_eq!(site.sign_in(&secret(Role::Operator)).status, 303);
    let kept = Site::signed_in(&process);
    setup.change(
        "name = \"operator-1\"\nrole = \"operator\"\nsecret = \"token-of-the-tests-operator\"",
        "name = \"operator-2\"\nrole = \"viewer\"\nsecret = \"another-token-of-the-tests\"",
    );
    let status = |token: &str| call(&process, "GET", "/api/admin/status", token).status;
    // Who asks before that is told to wait at last.
    crate::wait::eventually("the configuration is read again", || {
        (process.log().contains("configuration reloaded")).then_some(())
    });
    assert_eq!(status("another-token-of-the-tests"), 200);
    assert_eq!(status(&secret(Role::Operator)), 401);
    assert_eq!(site.get("/").status, 401);
    assert_eq!(kept.get("/").status, 200);
    assert_eq!(status(ADMIN_TOKEN), 200);
}

#[test]
fn sessions_are_listed_and_ended() {
    let process = setup().spawn();
    let mut site = Site::of(&process);
    assert_eq!(site.sign_in(&secret(Role::Viewer)).status, 303);
    let admin = Site::signed_in(&process);
    let sessions = process.list("/api/admin/sessions");
    let of = |at: usize, field: &str| sessions[at][field].clone();
    assert_eq!(sessions.len(), 2);
    assert_eq!(
        [of(0, "token"), of(0, "role")],
        [json!("admin"), json!("admin")]
    );
    assert_eq!(
        [of(1, "token"), of(1, "role")],
        [json!("viewer-1"), json!("viewer")]
    );
    assert_eq!(of(1, "client"), "127.0.0.1");
    let id = of(1, "id").as_str().expect("an id").to_owned();
    assert_eq!(trail(&process, "sign_in")[1]["after"]["session"], *id);

    let page = admin.page("/sessions");
    assert!(
        page.contains("viewer-1") && page.contains(", you"),
        "{page}"
    );
    let listed = operate(&process, ["session", "list"]).ok();
    assert!(
        listed.contains(&id) && listed.contains("viewer-1"),
        "{listed}"
    );
    let ended = operate(&process, ["session", "end", &id]).ok();
    assert_eq!(ended, format!("session {id} of viewer-1 ended\n"));
    assert_eq!(site.get("/").status, 401);
    let refused = operate(&process, ["session", "end", &id]).failed(1);
    assert!(refused.contains("no such session"), "{refused}");
    let out = trail(&process, "sign_out");
    assert_eq!(
        (&out[0]["who"], &out[0]["name"]),
        (&json!("admin token"), &json!(id))
    );
    assert_eq!(out[0]["before"]["token"], "viewer-1");

    assert_eq!(site.sign_in(&secret(Role::Viewer)).status, 303);
    let own = process.list("/api/admin/sessions")[0]["id"].clone();
    let path = format!("/sessions/{}/end", own.as_str().expect("an id"));
    assert_eq!(admin.submit(&path, "").status, 303);
    assert_eq!(site.get("/").status, 401);
    assert_eq!(admin.submit(&path, "").status, 404);
    assert_eq!(trail(&process, "sign_out")[0]["who"], "admin page");
}

#[test]
fn the_audit_trail_is_printed_and_verified_in_a_daemon_and_in_a_folder() {
    let setup = setup();
    let process = setup.spawn();
    let folder = setup.path("");
    for _ in 0..3 {
        let made = call(&process, "POST", "/api/admin/sinks/pool/retry", ADMIN_TOKEN);
        assert_eq!(made.status, 200, "{}", made.body);
    }
    let listed = operate(&process, ["audit"]).ok();
    assert_eq!(listed.lines().count(), 4, "{listed}");
    let retries = [
        "audit", "--action", "retry", "--kind", "sink", "--name", "pool",
    ];
    let listed = operate(&process, retries).ok();
    assert_eq!(listed.lines().count(), 4, "{listed}");
    for [option, value] in [
        ["--until", "1h"],
        ["--who", "nobody"],
        ["--action", "trigger"],
    ] {
        let listed = operate(&process, ["audit", option, value]).ok();
        assert!(!listed.contains("retry"), "{option}: {listed}");
    }
    let since = ["audit", "--since", "1h", "--who", "admin token"];
    let listed = operate(&process, since).ok();
    assert_eq!(listed.lines().count(), 4, "{listed}");
    let refused = operate(&process, ["audit", "--kind", "sinks"]).failed(2);
    assert!(refused.contains("sign_in_link"), "{refused}");
    let first = process.list("/api/admin/audit?action=retry&limit=2");
    let next = first[1]["id"].as_str().expect("an id");
    let path = format!("/api/admin/audit?action=retry&cursor={next}");
    assert_eq!(process.list(&path).len(), 1);
    let entries = process.list("/api/admin/audit");
    let newest = entries[0]["digest"].as_str().expect("a digest").to_owned();
    let told = operate(&process, ["audit", "verify"]).ok();
    assert!(
        told.contains("3 entries verified") && told.contains(&newest),
        "{told}"
    );
    operate(&process, ["audit", "verify", "--expect", &newest]).ok();
    let other = "0".repeat(63) + "1";
    let refused = operate(&process, ["audit", "verify", "--expect", &other]).failed(1);
    assert!(refused.contains("not in the audit log"), "{refused}");
    let told = process.admin(&format!("/api/admin/audit/verify?expect={newest}"));
    assert_eq!(
        (&told["good"], &told["expected"]),
        (&json!(true), &json!(true))
    );
    let wrong = call(
        &process,
        "GET",
        "/api/admin/audit/verify?expect=x",
        ADMIN_TOKEN,
    );
    assert_eq!(wrong.status, 400, "{}", wrong.body);

    let data_dir = setup.data_dir();
    process.stop();
    let dir = data_dir.to_str().expect("a path");
    let verify = ["audit", "verify", "--output", "json", "--folder", dir];
    let told: Value = serde_json::from_str(&run(&folder, verify).ok()).expect("JSON");
    assert_eq!(
        (&told["entries"], &told["newest"]["digest"]),
        (&json!(3), &json!(newest))
    );
    let file = rusqlite::Connection::open(data_dir.join("catalog.db")).expect("the file");
    file.execute("UPDATE audit SET who = 'nobody' WHERE id = 2", [])
        .expect("a change");
    drop(file);
    let refused = run(&folder, ["audit", "verify", "--folder", dir]).failed(1);
    assert!(refused.contains("the entry 2 does not match"), "{refused}");
}

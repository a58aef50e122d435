//! HEAD wherever GET is: over all routes of both listeners, taken from the routers themselves, and over the answers.

use std::sync::Arc;

use headgate::daemon::routes::service;
use http::{Outside, ServiceParts};
use reqwest::Method;

use crate::app::actor::Caller;
use crate::openapi::{READ_KEY, document, filled, operations, with_data};
use crate::pages::signed_in;
use crate::roles::{admin_routes, listed};
use crate::setup::{ADMIN_TOKEN, Setup, key_of};

#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn every_route_that_takes_get_takes_head() {
    let setup = Setup::shop();
    let settings = setup.load().settings;
    let app = setup.start().await;
    let of_service = service(&ServiceParts {
        operator: app.parts.clone(),
        origins: Arc::new([]),
        body_timeout_seconds: 10,
        outside: Outside::of(&settings),
    });
    let of_service = listed(&format!("{:?}", of_service.service.router));
    let of_admin = admin_routes(&app, &settings);
    for (routes, count_min) in [(of_service, 15), (of_admin, 60)] {
        let paths = |wanted: &str| {
            let with_method = routes.iter().filter(|(method, _)| method == wanted);
            let mut paths: Vec<String> = with_method.map(|(_, path)| path.clone()).collect();
            paths.sort();
            paths
        };
        assert_eq!(paths("HEAD"), paths("GET"));
        assert!(paths("GET").len() >= count_min, "{routes:?}");
    }
}

/// Status and headers of an answer, but for those that differ from request to request.
fn told(reply: &crate::app::Reply) -> Vec<(String, String)> {
    let mut headers: Vec<(String, String)> = (reply.headers.iter())
        .filter(|(name, _)| {
            !matches!(
                name.as_str(),
                "date" | "x-request-id" | "ratelimit" | "transfer-encoding"
            )
        })
        .map(|(name, value)| {
            (
                name.to_string(),
                String::from_utf8_lossy(value.as_bytes()).into_owned(),
            )
        })
        .collect();
    headers.push(("status".to_owned(), reply.status.to_string()));
    headers.sort();
    headers
}

async fn compare(caller: &Caller, path: &str, headers: &[(&str, &str)], lengths_differ: bool) {
    let get = caller.call(Method::GET, path, headers, "").await;
    let head = caller.call(Method::HEAD, path, headers, "").await;
    assert_eq!(head.body, b"", "{path}");
    let without_length = |told: Vec<(String, String)>| -> Vec<(String, String)> {
        told.into_iter()
            .filter(|(name, _)| name != "content-length")
            .collect()
    };
    match lengths_differ {
        true => assert_eq!(
            without_length(told(&head)),
            without_length(told(&get)),
            "{path}"
        ),
        false => assert_eq!(told(&head), told(&get), "{path}"),
    }
}

#[test]
fn head_is_answered_as_get_without_the_body() {
    let (_folder, process, request_id) = with_data();
    let site = signed_in(&process);
    let runtime = tokio::runtime::Runtime::new().expect("a runtime");
    runtime.block_on(async {
        for (address, secrets) in [
            (process.service, [key_of("orders"), READ_KEY.to_owned()]),
            (process.admin, [ADMIN_TOKEN.to_owned(), String::new()]),
        ] {
            let url = format!("http://{address}");
            let document = document(address);
            for operation in operations(&document) {
                // What follows streams has no end.
                if operation.method != "GET" || operation.path == "/api/live" {
                    continue;
                }
                let secret = &secrets[usize::from(operation.needs("read_key"))];
                let caller = Caller::new(&url, Some(secret));
                let path = filled(&operation.path, &request_id);
                // They tell the time, or how much memory there is.
                let moves = [
                    "/metrics",
                    "/api/admin/status",
                    "/api/admin/audit",
                    "/api/admin/audit/verify",
                ];
                let is_read = moves.contains(&&*path) || path.starts_with("/api/admin/");
                compare(&caller, &path, &[], is_read).await;
            }
        }
        let service = Caller::new(&format!("http://{}", process.service), None);
        for path in [
            "/feed/orders.csv",
            "/render/orders",
            "/render.js",
            "/render.css",
            "/headgate.js",
            "/docs",
            "/docs/show",
            "/openapi.json",
        ] {
            compare(&service, path, &[], false).await;
        }
        let admin = Caller::new(&format!("http://{}", process.admin), None);
        let cookie = [("Cookie", site.cookie())];
        for path in [
            "/",
            "/streams",
            "/streams/orders",
            "/streams/orders/feeds",
            "/renderers",
            "/sinks",
            "/connectors",
            "/settings",
        ] {
            compare(&admin, path, &cookie, true).await;
        }
    });
}

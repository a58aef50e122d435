//! Unit tests of `docs/reference.rs`.

use serde_json::json;

use super::*;

fn document(schemas: &Value) -> Value {
    json!({
        "info": {"title": "<T>", "version": "1", "description": "One `a<b` two.\n\nThree."},
        "tags": [{"name": "read keys", "description": "Those."}],
        "paths": {"/a/{name}": {"post": {
            "tags": ["read keys"],
            "summary": "Do \"it\".",
            "operationId": "do_it",
            "parameters": [{"name": "name", "in": "path", "required": true, "description": "Which.", "schema": {"type": "string"}}],
            "requestBody": {"content": {"application/json": {"schema": {"$ref": "#/components/schemas/Tree"}}}},
            "responses": {"200": {"description": "Done."}},
            "security": [{"token": []}, {}],
        }}},
        "components": {"schemas": schemas, "securitySchemes": {"token": {"description": "A `token`."}}},
    })
}

#[test]
fn the_page_is_the_document() {
    let document = document(
        &json!({"Tree": {"type": "object", "required": ["a"], "properties": {
            "a": {"type": ["string", "null"], "description": "The `a`."},
            "children": {"type": "array", "items": {"$ref": "#/components/schemas/Tree"}},
            "other": {"$ref": "#/components/schemas/Missing"},
        }}}),
    );
    let page = page(&document, Listener::Admin, "http://h:1");
    let page = page.markup().into_string();
    for part in [
        "&lt;T&gt; API",
        "One <code>a&lt;b</code> two.</p><p>Three.",
        "href=\"#tag-read-keys\"",
        "id=\"do_it\"",
        "Do &quot;it&quot;.",
        "array of <code>Tree</code>",
        "as above",
        "The <code>a</code>.",
        "curl -X POST",
        "http://h:1/a/NAME",
        "$TOKEN",
        "or without",
    ] {
        assert!(page.contains(part), "{part}\n{page}");
    }
    assert!(!page.contains("<script"), "{page}");
}

#[test]
fn only_a_host_stands_in_the_examples() {
    let base_of = |host: &str, proto: &'static str| {
        let mut headers = HeaderMap::new();
        headers.insert(HOST, HeaderValue::from_str(host).expect("a header"));
        headers.insert(X_FORWARDED_PROTO, HeaderValue::from_static(proto));
        base(&headers)
    };
    assert_eq!(base_of("[::1]:8080", "http"), "http://[::1]:8080");
    assert_eq!(
        base_of("data.example.com", "https"),
        "https://data.example.com"
    );
    for other in ["", "a b", "a'; rm -rf /", "$(id)", "a/b", "a@b"] {
        assert_eq!(base_of(other, "ftp"), "http://localhost", "{other}");
    }
}

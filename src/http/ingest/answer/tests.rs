//! Unit tests of `ingest/answer.rs`.

use journal::Receipt;
use salvo_core::http::header::VARY;

use super::*;

fn answered(headers: usize, replayed: bool) -> Response {
    let (mut req, mut res) = (Request::new(), Response::new());
    for number in 0..headers {
        let name = HeaderName::try_from(format!("x-{number}")).expect("a name");
        let value = HeaderValue::from_static("sent");
        req.headers_mut().insert(name, value);
    }
    let vary = HeaderValue::from_static("origin");
    res.headers_mut().insert(VARY, vary);
    let receipt = Receipt {
        request_id: Uuid::from_u128(7),
        items: 12,
        replayed,
    };
    let answer = Answer {
        quota: Some(QuotaState {
            burst: 20,
            window_seconds: 2,
            remaining: 19,
            reset_seconds: 1,
        }),
        volume: VolumeLeft::default(),
        result: Ok(Reply::Accepted(Accepted {
            stream: "größe".into(),
            receipt,
            status: 202,
            answer: None,
            without_item_key: true,
        })),
    };
    write(answer, Endpoint::Ingest, &mut req, &mut res);
    res
}

#[test]
fn an_acknowledgement_says_its_own_whatever_the_map_of_its_request_had() {
    let id = "00000000-0000-0000-0000-000000000007";
    let location = format!("/api/requests/{id}");
    for (headers, replayed) in [(0, false), (5, true), (9, false), (100, true)] {
        let mut res = answered(headers, replayed);
        let mut expected = vec![
            ("vary", "origin"),
            ("x-request-id", id),
            ("ratelimit-policy", r#""key";q=20;w=2"#),
            ("ratelimit", r#""key";r=19;t=1"#),
            ("idempotent-replayed", "true"),
            ("location", &location),
            ("content-type", "application/json"),
        ];
        expected.retain(|(name, _)| replayed || *name != "idempotent-replayed");
        let said = (res.headers().iter())
            .map(|(name, value)| (name.as_str(), value.to_str().expect("text")));
        assert_eq!(said.collect::<Vec<_>>(), expected);
        assert!(res.headers().capacity() <= HEADERS_MAX);
        let json = format!(
            r#"{{"success":true,"data":{{"stream":"größe","items_received":12,"request_id":"{id}"}}}}"#
        );
        assert_eq!(res.status_code, Some(StatusCode::ACCEPTED));
        assert!(matches!(res.take_body(), ResBody::Once(body) if *body == *json.as_bytes()));
    }
}

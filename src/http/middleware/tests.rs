//! Unit tests of `middleware.rs`.

use std::time::Duration;

use salvo_core::catcher::Catcher;
use salvo_core::{Router, Service};
use tokio::io::{AsyncReadExt, AsyncWriteExt};

use super::*;
use crate::listen::{Places, bind};
use settings::{Listen, Server};

struct Panics;

#[async_trait]
impl Handler for Panics {
    async fn handle(&self, _: &mut Request, _: &mut Depot, _: &mut Response, _: &mut FlowCtrl) {
        panic!("on purpose");
    }
}

#[tokio::test]
async fn a_panic_is_answered_in_the_envelope_and_the_server_goes_on() {
    let metrics = Arc::new(Metrics::new());
    let listen = Listen::Tcp("127.0.0.1:0".to_owned());
    let bound = bind(&listen, None, &Networks::default()).await;
    let bound = bound.expect("a free port");
    let address = bound.address.trim_start_matches("http://").to_owned();
    let service = Service::new(Router::new().get(Panics))
        .hoop(Outer {
            metrics: Arc::clone(&metrics),
            log_requests: true,
            proxies: Proxies::default(),
            networks: Networks::default(),
            unauthenticated: None,
        })
        .catcher(Catcher::new(ErrorEnvelope(Nowhere::SERVICE)));
    let (stopper, serving) = bound.serve(
        service,
        &Server::default(),
        Places {
            max: 10,
            of_address_max: 10,
            exempt: Networks::default(),
        },
        (&metrics, |all| &all.listeners.service),
    );
    let asking = async {
        for _ in 0..2 {
            let mut socket = tokio::net::TcpStream::connect(&address)
                .await
                .expect("the server listens");
            let request = b"GET / HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n";
            socket.write_all(request).await.expect("it reads");
            let mut answer = String::new();
            socket.read_to_string(&mut answer).await.expect("it writes");
            assert!(answer.starts_with("HTTP/1.1 500 "), "{answer}");
            assert!(answer.contains(r#"{"success":false,"error":{"code":"INTERNAL""#));
            assert!(!answer.contains("on purpose"), "{answer}");
            let id = answer.split("x-request-id: ").nth(1).expect("the header");
            let id = &id[..36];
            assert!(
                answer.contains(&format!(r#""request_id":"{id}""#)),
                "{answer}"
            );
        }
        stopper.stop(Duration::ZERO);
    };
    tokio::join!(asking, serving);
    assert_eq!(metrics.panics.get(), 2);
}

//! Unit tests of `listen.rs`.

use salvo_core::{Router, Service};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;

use super::*;

#[tokio::test]
async fn half_connections_keep_no_request_from_its_answer() {
    let metrics = Arc::new(Metrics::new());
    let listen = Listen::Tcp("127.0.0.1:0".to_owned());
    let bound = bind(&listen, None, &Networks::default()).await;
    let bound = bound.expect("a free port");
    let address = bound.address.trim_start_matches("http://").to_owned();
    let (stopper, serving) = bound.serve(
        Service::new(Router::new()),
        &settings::Server::default(),
        Places {
            max: 32,
            of_address_max: 32,
            exempt: Networks::of(["127.0.0.1"]).expect("networks"),
        },
        (&metrics, |all| &all.listeners.service),
    );
    let begun = async |text: &str| {
        let mut socket = TcpStream::connect(&address).await.expect("it listens");
        // It may have been closed for another one.
        let _ = socket.write_all(text.as_bytes()).await;
        socket
    };
    let asking = async {
        let mut half = Vec::new();
        for _ in 0..4 {
            for _ in 0..50 {
                half.push(begun("").await);
                half.push(begun("GET / HTTP/1.1\r\nHost").await);
            }
            let mut asks = begun("GET / HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n").await;
            let mut answer = String::new();
            asks.read_to_string(&mut answer).await.expect("it writes");
            assert!(answer.starts_with("HTTP/1.1 404 "), "{answer}");
        }
        stopper.stop(Duration::ZERO);
    };
    tokio::join!(asking, serving);
}

use crate::app::*;
#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn smoke() {
    let t = std::time::Instant::now();
    let app = Setup::shop().start().await;
    eprintln!("start {:?}", t.elapsed());
    let caller = app.caller("shop");
    caller.ingest(r#"{"a":{"b":1}}"#).await.receipt();
    eprintln!("first 202 {:?}", t.elapsed());
    eprintln!("{:?}", app.items("orders").await);
    eprintln!("pool {:?}", t.elapsed());
    let app = app.restart().await;
    eprintln!("restart {:?}", t.elapsed());
    drop(app);
    eprintln!("stop {:?}", t.elapsed());
}

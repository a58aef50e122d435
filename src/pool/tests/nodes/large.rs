//! Changes that are larger than an entry of the log may be.
//!
//! **Invariant**: what is refused for its size leaves the file, the log and the node as they were.

use super::*;

/// A text of so many MiB, as a field.
fn fields(mebibytes: usize) -> String {
    format!(r#"{{"text":"{}"}}"#, "x".repeat(mebibytes << 20))
}

fn large(accepted_seq: u64, items: &[(&str, usize)]) -> Batch {
    let mut writer = ItemsWriter::new(128 << 20, 0);
    for (key, mebibytes) in items {
        writer.push(key, &fields(*mebibytes)).expect("it fits");
    }
    whole(STREAM, accepted_seq, writer.into_items())
}

fn settled(batch: &Batch, is_divisible: bool) -> Settlement {
    Settlement {
        sink: "pool".into(),
        staged: Staged {
            effects: vec![Effect::Upsert(batch.clone())],
            ..Staged::default()
        },
        cursor: Some(batch.slices()[0].entry.seq),
        is_divisible,
        ..Settlement::default()
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn what_is_too_large_for_an_entry_is_refused_and_the_rest_goes_on() {
    let Some(server) = Postgres::start("what_is_too_large_for_an_entry_is_refused") else {
        return;
    };
    let database = server.cluster("headgate").await;
    let folders = [(); 2].map(|()| tempfile::tempdir().expect("a folder"));
    let (one, _following) = Node::start(&database, folders[0].path()).await;
    let other = Node::open(&database, folders[1].path()).await;
    one.claim().await;
    let size = "SELECT max(octet_length(change)) >> 20 FROM headgate.log";
    block_in_place(|| {
        one.pool.add_sink("pool", Seq::new(0)).expect("it writes");
        let settle = |batch: &Batch, is_divisible| {
            let settled = one.pool.settle(&settled(batch, is_divisible));
            settled.map(|done| done.is_some())
        };
        // In parts, if there are any.
        let two = large(1, &[("a", 40), ("b", 40)]);
        let refused = settle(&two, true).expect_err("it is to be divided");
        assert!(refused.is_too_large(), "{refused}");
        assert!(!refused.passes(), "{refused}");
        assert!(refused.to_string().contains("nothing was changed"));
        assert_eq!(server.query(size), "0");
        let halves = [large(1, &[("a", 40)]), large(2, &[("b", 40)])];
        for half in &halves {
            assert!(settle(half, true).expect("it fits"));
        }
        let whole = large(3, &[("c", 40), ("d", 40)]);
        assert!(settle(&whole, false).expect("it has no parts"));
        assert_eq!(server.query(size), "80");
        // Whatever it is.
        let refused = one.pool.write(|writer| {
            let sql =
                "INSERT INTO sink_state (sink, key, value) VALUES ('pool', 'x', zeroblob(?1))";
            writer.connection.execute(sql, [513_i64 << 20])
        });
        let refused = refused.expect_err("it is too large");
        assert!(refused.is_too_large(), "{refused}");
        assert_eq!(server.query(size), "80");
        assert!(settle(&batch(4, &["e"]), false).expect("it goes on"));
    });
    other.catch_up().await;
    assert_equal(&[&one, &other]).await;
    assert_eq!(other.pool.sizes().of(STREAM).items, 5);
}

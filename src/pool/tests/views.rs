//! Views are made beside settlements, and whatever was stored and not made is found again.

use super::*;

impl Test {
    /// Columns of a view beside its own four; `None` without a view.
    fn columns(&self, view: &str) -> Option<Vec<String>> {
        let path = self.folder.path().join("pool.db");
        let reader = Connection::open(path).expect("it opens");
        let mut statement = reader
            .prepare("SELECT name FROM pragma_table_info(?1) ORDER BY cid")
            .expect("a pragma");
        let names = statement.query_map([view], |row| row.get(0)).expect("rows");
        let names: Vec<String> = names.collect::<Result<_, _>>().expect("names");
        (!names.is_empty()).then(|| names[4..].to_vec())
    }

    fn refresh(&self) {
        while self.pool.refresh_views().expect("it writes") {}
    }

    fn run(&self, sql: &str) {
        let done = self.pool.lock().connection.execute_batch(sql);
        done.expect("it runs");
    }

    fn lacks_views(&self) -> bool {
        self.pool.lock().views.are_stale()
    }

    /// As after a kill: nothing is done at the end.
    pub(super) async fn killed(self) -> Self {
        let Self { pool, folder, .. } = self;
        drop(pool);
        let pool = open(folder.path()).await;
        Self::on(pool, folder).like_many()
    }

    /// A pool that treats its streams as if there were many.
    async fn with_many() -> Self {
        Self::new().await.like_many()
    }

    fn like_many(self) -> Self {
        self.pool.lock().views.few = 0;
        self
    }
}

#[tokio::test]
async fn with_few_streams_a_view_is_there_with_its_first_item() {
    let test = Test::new().await;
    test.upsert(&fields(STREAM, 1, r#"{"n":1}"#), true);
    assert_eq!(test.columns("stream_orders").expect("a view"), ["n"]);
    test.upsert(&fields(STREAM, 2, r#"{"m":1}"#), true);
    assert_eq!(test.columns("stream_orders").expect("a view"), ["n", "m"]);
    assert!(!test.lacks_views());
    let test = test.killed().await;
    assert!(!test.lacks_views());
}

fn fields(stream: &str, accepted_seq: u64, fields: &str) -> Batch {
    batch_of(stream, accepted_seq, &[("a", fields)])
}

#[tokio::test]
async fn a_settlement_notes_fields_and_views_are_made_after_it() {
    let test = Test::with_many().await;
    test.upsert(&fields(STREAM, 1, r#"{"n":1}"#), true);
    assert_eq!(test.columns("stream_orders"), None);
    test.refresh();
    assert_eq!(test.columns("stream_orders").expect("a view"), ["n"]);
    test.upsert(&fields(STREAM, 2, r#"{"n":1,"m":2}"#), true);
    test.upsert(&fields("other", 3, "{}"), true);
    test.upsert(&fields(STREAM, 4, r#"{"k":1,"n":2}"#), true);
    assert_eq!(test.columns("stream_orders").expect("a view"), ["n"]);
    test.refresh();
    assert_eq!(
        test.columns("stream_orders").expect("a view"),
        ["n", "m", "k"]
    );
    assert!(test.columns("stream_other").expect("a view").is_empty());
    // Known fields cost nothing.
    test.upsert(&fields(STREAM, 5, r#"{"m":1,"k":2}"#), true);
    assert!(!test.lacks_views());
}

#[tokio::test]
async fn what_was_not_made_before_a_kill_is_made_after_it() {
    let test = Test::with_many().await;
    test.upsert(&fields(STREAM, 1, r#"{"it's \"odd\"":1}"#), true);
    test.upsert(&fields("whole", 2, r#"{"a":1}"#), true);
    test.refresh();
    test.upsert(&fields(STREAM, 3, r#"{"m":1}"#), true);
    test.upsert(&fields("empty", 4, "{}"), true);
    let test = test.killed().await;
    assert!(test.lacks_views());
    assert_eq!(test.columns("stream_empty"), None);
    test.refresh();
    let columns = test.columns("stream_orders").expect("a view");
    assert_eq!(columns, ["it's \"odd\"", "m"]);
    assert_eq!(test.columns("stream_empty"), Some(Vec::new()));
    // A file that is whole stays as it is.
    let test = test.killed().await;
    assert!(!test.lacks_views());
    // Somebody has dropped a view.
    test.run("DROP VIEW stream_whole");
    let test = test.killed().await;
    test.refresh();
    assert_eq!(test.columns("stream_whole").expect("a view"), ["a"]);
}

#[tokio::test]
async fn an_orderly_end_leaves_whole_views() {
    let test = Test::with_many().await;
    test.upsert(&fields(STREAM, 1, r#"{"n":1}"#), true);
    let test = test.reopened().await;
    assert_eq!(test.columns("stream_orders").expect("a view"), ["n"]);
    assert!(!test.lacks_views());
}

#[tokio::test]
async fn fields_of_a_settlement_that_failed_are_stored_by_the_next() {
    let test = Test::with_many().await;
    test.run(
        "CREATE TRIGGER refuse AFTER INSERT ON items WHEN NEW.key = 'b' BEGIN SELECT raise(ABORT, 'no'); END",
    );
    let first = fields(STREAM, 1, r#"{"n":1}"#);
    let second = batch_of(STREAM, 2, &[("b", r#"{"m":1}"#)]);
    let both = Settlement {
        sink: "pool".into(),
        staged: Staged {
            effects: vec![
                Effect::Upsert(first.clone()),
                Effect::Upsert(second.clone()),
            ],
            ..Staged::default()
        },
        ..Settlement::default()
    };
    test.pool.settle(&both).expect_err("it is refused");
    test.run("DROP TRIGGER refuse");
    // What went wrong is unknown: the file is read afresh.
    let test = test.killed().await;
    test.refresh();
    assert_eq!(test.columns("stream_orders"), None);
    test.pool.settle(&both).expect("it settles");
    let test = test.killed().await;
    test.refresh();
    assert_eq!(test.columns("stream_orders").expect("a view"), ["n", "m"]);
}

#[tokio::test]
async fn something_in_the_way_of_a_view_is_in_the_way_of_no_other() {
    let test = Test::with_many().await;
    test.run("CREATE TABLE stream_orders (theirs)");
    test.upsert(&fields(STREAM, 1, r#"{"n":1}"#), true);
    for number in 2..20 {
        test.upsert(&fields(&format!("s{number}"), number, r#"{"n":1}"#), true);
    }
    test.refresh();
    for number in 2..20 {
        let columns = test.columns(&format!("stream_s{number}"));
        assert_eq!(columns.expect("a view"), ["n"]);
    }
    assert_eq!(test.items(STREAM).await.len(), 1);
}

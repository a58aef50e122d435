//! Unit tests of `file/group.rs`.

use base::clock::Unix;

use super::*;
use crate::Durability;
use crate::file::schema;

#[test]
fn an_entry_has_its_own_texts_whatever_the_one_before_had() -> Result<(), rusqlite::Error> {
    let connection = Connection::open_in_memory()?;
    let columns = INSERT_REQUEST.split(['(', ')']).nth(1).unwrap_or_default();
    connection.execute_batch(&format!("CREATE TABLE requests ({columns})"))?;
    let mut statement = RequestStatement::new(&connection)?;
    let all = ["-a", "aa", "aa", "a-", "--", "b-", "bb", "ab", "a-"];
    for (seq, texts) in (1..).map(Seq::new).zip(all) {
        let text = |at| Some(&texts[at..=at]).filter(|text| *text != "-");
        let (first, second) = (text(0), text(1));
        let name = first.unwrap_or_default();
        let (connector, stream) = (name.into(), name.into());
        let log = LogEntry {
            item_key: first.map(Into::into),
            idempotency_key: first.map(Into::into),
            error: second.map(Into::into),
            headers: second.map(Into::into),
            ..LogEntry::of(
                Uuid::nil(),
                Unix::from_ms(0),
                connector,
                stream,
                Outcome::Accepted,
            )
        };
        statement.execute(seq, &log, "", None)?;
        let sql = "SELECT connector, item_key, idempotency_key, errors, headers FROM requests WHERE seq = ?";
        let read = connection.query_row(sql, [seq.to_column()], |row| {
            let text = |at| row.get::<_, Option<String>>(at);
            Ok([text(0)?, text(1)?, text(2)?, text(3)?, text(4)?])
        })?;
        let read = read.each_ref().map(Option::as_deref);
        assert_eq!(read, [Some(name), first, first, second, second], "{seq}");
    }
    Ok(())
}

#[test]
fn payloads_of_one_transaction_share_a_row() -> Result<(), Box<dyn std::error::Error>> {
    let folder = tempfile::tempdir()?;
    let path = folder.path().join("journal.db");
    let connection = schema::open_writer(&path, Durability::Os)?;
    let (recent, metrics) = (Recent::starting_after(Seq::MIN), Arc::default());
    let shared = Arc::new(Shared::new(recent, Seq::MIN, metrics));
    let mut claims = Claims::open(&connection)?;
    let mut spans = Segments::open(&connection)?;
    let mut bodies = Bodies::new(Arc::clone(&shared));
    let mut payloads = Joined::default();
    let mut last_seq = Seq::MIN;
    let mut write = |requests: usize| -> Result<(), rusqlite::Error> {
        let mut group = Group::new(
            &connection,
            &mut claims,
            &mut bodies,
            last_seq,
            &mut spans,
            &mut payloads,
            &shared,
        );
        let job = || {
            let mut items = item::ItemsWriter::new(1 << 20, 0);
            items.push("key", "{}").expect("it fits");
            let (connector, stream) = ("c".into(), "s".into());
            let (id, at) = (Uuid::now_v7(), Unix::from_ms(0));
            let submission = Submission {
                log: LogEntry::of(id, at, connector, stream, Outcome::Accepted),
                arrived: Lived::MIN,
                items: items.into_items(),
                claim: None,
                second: None,
                recheck: None,
            };
            Job::Submit(Box::new(submission), tokio::sync::oneshot::channel().0)
        };
        let mut jobs: Vec<Job> = std::iter::repeat_with(job).take(requests).collect();
        group.write(&mut jobs, &mut Answers::default())?;
        last_seq = group.last_seq();
        Ok(())
    };
    for requests in [1, 3, 2, 1] {
        write(requests)?;
    }
    let sql = "SELECT group_concat(seq || iif(crc32 > 4294967295, ' of some', ' alone'), ', ') FROM payloads";
    let rows: String = connection.query_row(sql, [], |row| row.get(0))?;
    assert_eq!(rows, "1 alone, 4 of some, 6 of some, 7 alone");
    Ok(())
}

//! Unit tests of `file/group.rs`.

use base::clock::Unix;

use super::*;

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

//! Unit tests of `postgres.rs`.

use super::*;

#[test]
fn what_would_end_the_transaction_is_told_from_what_may_run() {
    for sql in [
        "INSERT INTO t SELECT 1",
        "\n -- COMMIT\n (with a AS (SELECT 1) SELECT * FROM a)",
        "/* x /* y */ */select 1",
        "VALUES(1)",
    ] {
        assert!(is_permitted(sql), "{sql}");
    }
    for sql in [
        "COMMIT",
        "-- SELECT\nROLLBACK",
        "/* /* */ select */ COMMIT",
        "/*/ select */ COMMIT",
        "/**/*/select",
        "/* */ /* select */ end",
        "SET search_path = x",
        "COPY t FROM STDIN",
        "selected",
        "",
        "--",
        "/*",
    ] {
        assert!(!is_permitted(sql), "{sql}");
    }
}

#[test]
fn a_url_that_cannot_be_read_is_refused_without_its_password() {
    let settings = |url: &str| settings::Postgres {
        url: settings::Secret::new(url),
        ..settings::Postgres::default()
    };
    assert!(Database::new(&settings("postgresql://u:canary@h:5432/d?sslmode=require")).is_ok());
    for url in [
        "postgresql://u:canary@h:port/d",
        "postgresql://u:canary@h/d?sslmode=canary-mode-of-nobody",
        "postgresql://[canary/",
    ] {
        let redacted = Database::new(&settings(url)).err().expect("no database");
        assert!(!redacted.contains("u:canary"), "{redacted}");
    }
}

//! Unit tests of `headers.rs`.

use super::{idempotency_key, item_key, secret};

#[test]
fn a_secret_is_the_bearer_s_or_the_password_of_basic() {
    for good in [
        &b"Bearer ik_x"[..],
        b"bearer  ik_x ",
        b"Basic OmlrX3g=",
        b"basic bmFtZTppa194",
        b"Basic aWtfeA==",
        b"Basic aWtfeDo=",
    ] {
        assert_eq!(secret(Some(good)).as_deref(), Some("ik_x"), "{good:?}");
    }
    for bad in [
        &b"ik_x"[..],
        b"Basic ik_x",
        b"Digest ik_x",
        b"",
        b"Bearer",
        b"\xff",
        b"Basic /w==",
    ] {
        assert_eq!(secret(Some(bad)), None, "{bad:?}");
    }
    assert_eq!(secret(None), None);
}

#[test]
fn an_idempotency_key_is_any_value_of_bounded_length_told_apart_by_its_bytes() {
    assert_eq!(idempotency_key(None), Ok(None));
    for (value, text) in [
        (&b"a"[..], "a"),
        (b"order 7, paid", "order 7, paid"),
        (b" a\tb\t", "a\tb"),
        ("größe".as_bytes(), "größe"),
        (b"gr\xf6\xdfe", "größe "),
    ] {
        assert_eq!(idempotency_key(Some(value)), Ok(Some(text.into())));
    }
    assert!(idempotency_key(Some(&[b'k'; 255])).is_ok());
    assert!(idempotency_key(Some(&[0xff; 255])).is_ok());
    for bad in [&b""[..], b" \t", &[b'k'; 256]] {
        assert!(idempotency_key(Some(bad)).is_err(), "{bad:?}");
    }
}

#[test]
fn item_keys_are_names() {
    assert_eq!(item_key(Some("größe".as_bytes())), Ok(Some("größe".into())));
    for bad in [&b""[..], b"  ", b"\xff", &[b'k'; 1_025]] {
        assert!(item_key(Some(bad)).is_err(), "{bad:?}");
    }
}

//! Compressed bodies: what comes out, what is refused, and where the limit is.

use super::*;

#[test]
fn compressed_bodies_come_out_as_they_went_in() {
    for body in [&b"{}"[..], &long_json()] {
        for (encoding, bytes) in compressed(body) {
            let json = decoded(JSON, encoding, &bytes).expect(encoding);
            assert!(json == body, "{encoding}, {} bytes", body.len());
        }
    }
    for (encoding, bytes) in compressed(b"") {
        assert_eq!(
            decoded(JSON, encoding, &bytes),
            Ok(Bytes::new()),
            "{encoding}"
        );
    }
}

#[test]
fn raw_deflate_is_told_from_zlib_by_the_check() {
    // A stored block whose padding makes its first byte a method of zlib, and an empty last block.
    let stored = [8, 2, 0, 0xfd, 0xff, b'{', b'}', 3, 0];
    assert_eq!(decoded(JSON, "deflate", &stored).as_deref(), Ok(&b"{}"[..]));
}

#[test]
fn every_form_can_be_compressed() {
    for (encoding, bytes) in compressed(b"a=1") {
        let json = decoded(FORM, encoding, &bytes).expect(encoding);
        assert_eq!(&json[..], br#"{"a":"1"}"#);
    }
    for (encoding, bytes) in compressed(b"{}\n{}\n") {
        let json = decoded(NDJSON, encoding, &bytes).expect(encoding);
        assert_eq!(&json[..], b"[{},{}]");
    }
    for (encoding, bytes) in compressed(b" {} ") {
        let json = decoded("", encoding, &bytes).expect(encoding);
        assert_eq!(&json[..], b"{}");
    }
}

#[test]
fn several_members_and_frames_are_one_body() {
    let members = [gzip(b"{\"a\""), gzip(b""), gzip(b":1}")].concat();
    assert_eq!(
        decoded(JSON, "gzip", &members).as_deref(),
        Ok(&b"{\"a\":1}"[..])
    );
    assert!(decoded(JSON, "gzip", &gzip(b"").repeat(10_000)).is_ok());
    let many = refusal(JSON, "gzip", &gzip(b"").repeat(10_001));
    check_contains(&many, &["more than 10000 members"]);
    let skippable = [0x5a, 0x2a, 0x4d, 0x18, 3, 0, 0, 0, 1, 2, 3];
    let frames = [&skippable[..], &zstd(b"{\"a\""), &skippable, &zstd(b":1}")].concat();
    assert_eq!(
        decoded(JSON, "zstd", &frames).as_deref(),
        Ok(&b"{\"a\":1}"[..])
    );
    let all = [long_json(), long_json()].concat();
    let frames = zstd(&long_json()).repeat(2);
    let exact = decode(form(JSON, "zstd"), Bytes::from(frames.clone()), all.len());
    assert!(exact.is_ok_and(|json| json == all));
    let small = decode(form(JSON, "zstd"), Bytes::from(frames), all.len() - 1);
    assert_eq!(small, Err(DecodeError::TooLarge));
}

#[test]
fn streams_that_are_cut_short_are_refused() {
    for (encoding, bytes) in compressed(br#"{"name":"name name name name"}"#) {
        for end in 0..bytes.len() {
            let sentence = refusal(JSON, encoding, &bytes[..end]);
            check_contains(&sentence, &["cut short", "leave the header out"]);
        }
    }
    for (encoding, bytes) in compressed(&long_json()) {
        for end in (1..bytes.len()).step_by(bytes.len() / 7) {
            check_contains(&refusal(JSON, encoding, &bytes[..end]), &["cut short"]);
        }
    }
    let skippable = [0x50, 0x2a, 0x4d, 0x18, 3, 0, 0, 0, 1, 2];
    check_contains(&refusal(JSON, "zstd", &skippable), &["cut short"]);
}

#[test]
fn bytes_after_the_stream_are_refused() {
    for (encoding, mut bytes) in compressed(b"{}") {
        for garbage in [&b"\0"[..], b"{}", b"\x1f", b"\x28\xb5"] {
            let len = bytes.len();
            bytes.extend_from_slice(garbage);
            let sentence = refusal(JSON, encoding, &bytes);
            check_contains(&sentence, &["after the end"]);
            bytes.truncate(len);
        }
    }
}

#[test]
fn damaged_and_uncompressed_bodies_are_refused() {
    for encoding in ["gzip", "deflate", "zstd"] {
        let sentence = refusal(JSON, encoding, br#"{"a":1}"#);
        check_contains(&sentence, &[encoding, "not compressed"]);
    }
    let wrong_sum = |mut bytes: Vec<u8>, back: usize| {
        let at = bytes.len() - back;
        bytes[at] ^= 1;
        bytes
    };
    let text = br#"{"name":"name name name"}"#;
    check_contains(
        &refusal(JSON, "gzip", &wrong_sum(gzip(text), 8)),
        &["damaged"],
    );
    check_contains(
        &refusal(JSON, "gzip", &wrong_sum(gzip(text), 4)),
        &["damaged"],
    );
    check_contains(
        &refusal(JSON, "deflate", &wrong_sum(zlib(text), 1)),
        &["damaged"],
    );
    check_contains(
        &refusal(JSON, "zstd", &wrong_sum(zstd(text), 1)),
        &["damaged"],
    );
    // Single segment, content size 3, one raw block of 2 bytes.
    let short = zstd_frame(0x20, &[3], &[&zstd_block(true, 0, 2), b"{}"]);
    check_contains(&refusal(JSON, "zstd", &short), &["damaged"]);
    let right = zstd_frame(0x20, &[2], &[&zstd_block(true, 0, 2), b"{}"]);
    assert_eq!(decoded(JSON, "zstd", &right).as_deref(), Ok(&b"{}"[..]));
}

#[test]
fn zstd_windows_and_dictionaries_are_limited() {
    let frame = |window| zstd_frame(0, &[window], &[&zstd_block(true, 0, 2), b"{}"]);
    assert_eq!(
        decoded(JSON, "zstd", &frame(13 << 3)).as_deref(),
        Ok(&b"{}"[..])
    );
    let sentence = refusal(JSON, "zstd", &frame(13 << 3 | 1));
    check_contains(
        &sentence,
        &["9437184 bytes", "the limit is 8388608", "level 19"],
    );
    check_contains(&refusal(JSON, "zstd", &frame(0xff)), &["window"]);
    let dictionary = zstd_frame(1, &[13 << 3, 7], &[&zstd_block(true, 0, 2), b"{}"]);
    check_contains(&refusal(JSON, "zstd", &dictionary), &["dictionary"]);
    // A single segment declares its size: 2 GiB, then 9 MiB where 16 MiB would be taken.
    let large = zstd_frame(0xa0, &[0, 0, 0, 0x80], &[&zstd_block(true, 0, 0)]);
    assert_eq!(decoded(JSON, "zstd", &large), Err(DecodeError::TooLarge));
    // Declared beside a window, it ends before the blocks, which are missing here.
    let declared = zstd_frame(0x80, &[0, 1, 0, 0x10, 0], &[]);
    assert_eq!(decoded(JSON, "zstd", &declared), Err(DecodeError::TooLarge));
    let window = zstd_frame(0xa0, &[0, 0, 0x90, 0], &[&zstd_block(true, 0, 0)]);
    let window = decode(form(JSON, "zstd"), Bytes::from(window), 16 * MANY);
    check_contains(&format!("{window:?}"), &["9437184 bytes"]);
}

#[test]
fn the_limit_is_exact() {
    let body = long_json();
    for (encoding, bytes) in compressed(&body) {
        let bytes = Bytes::from(bytes);
        let exact = decode(form(JSON, encoding), bytes.clone(), body.len());
        assert!(exact.is_ok_and(|json| json == body), "{encoding}");
        for bytes_max in [body.len() - 1, body.len() / 2, 1, 0] {
            let small = decode(form(JSON, encoding), bytes.clone(), bytes_max);
            assert_eq!(small, Err(DecodeError::TooLarge), "{encoding}, {bytes_max}");
        }
    }
}

/// Raw deflate of 10 GB of zeros: one piece of 10 MB, a thousand times.
fn deflated_zeros() -> Vec<u8> {
    let mut deflater = Compress::new(Compression::best(), false);
    let zeros = vec![0; 10_000_000];
    let mut piece = Vec::with_capacity(100_000);
    deflater
        .compress_vec(&zeros, &mut piece, FlushCompress::Full)
        .expect("room for the piece");
    assert_eq!(deflater.total_in(), 10_000_000);
    piece.repeat(1_000)
}

#[test]
fn bombs_end_at_the_limit() {
    let zeros = deflated_zeros();
    let gzip_header = [0x1f, 0x8b, 8, 0, 0, 0, 0, 0, 0, 0xff];
    let repeated = [zstd_block(false, 1, 128 * 1_024), vec![0]].concat();
    // A compressed block whose literals are a byte 1,048,575 times, more than a block may have.
    let literals = [zstd_block(false, 2, 5), vec![0xfd, 0xff, 0xff, 0, 0]].concat();
    for (encoding, body) in [
        ("gzip", [&gzip_header[..], &zeros].concat()),
        ("deflate", [&[0x78, 0x9c][..], &zeros].concat()),
        ("deflate", zeros),
        (
            "zstd",
            zstd_frame(0, &[13 << 3], &[&repeated.repeat(80_000)]),
        ),
        (
            "zstd",
            zstd_frame(0, &[13 << 3], &[&literals.repeat(10_000)]),
        ),
        (
            "zstd",
            zstd_frame(0, &[13 << 3], &[&literals.repeat(10_000)]).repeat(2),
        ),
    ] {
        for (content_type, bytes_max) in [(JSON, MANY), (FORM, 10), (NDJSON, 100_000), ("", 0)] {
            let bomb = decode(
                form(content_type, encoding),
                Bytes::from(body.clone()),
                bytes_max,
            );
            assert_eq!(bomb, Err(DecodeError::TooLarge), "{encoding}");
        }
    }
}

#[test]
fn output_never_takes_more_than_its_limit() {
    let mut out = output::Output::new(1_000);
    for _ in 0..11 {
        out.push(&[0; 90]).expect("room");
    }
    assert_eq!(out.push(&[0; 11]), Err(DecodeError::TooLarge));
    assert_eq!((out.len(), out.room()), (990, 10));
    assert!(out.push(&[0; 10]).is_ok());
    assert!(out.write(b"x").is_err());
    assert!(out.flush().is_ok());
    let bytes: Vec<u8> = out.into_bytes().into();
    assert_eq!((bytes.len(), bytes.capacity()), (1_000, 1_000));
}

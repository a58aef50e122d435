//! Random damage to bodies of every form.

use super::*;

/// Random numbers that are the same each time: a linear congruential generator.
struct Random(u64);

impl Random {
    fn below(&mut self, below: usize) -> usize {
        self.0 = self
            .0
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) as usize % below.max(1)
    }

    fn bytes(&mut self, len_max: usize) -> Vec<u8> {
        (0..self.below(len_max))
            .map(|_| self.below(256) as u8)
            .collect()
    }

    /// Changes, removes, repeats or adds a few bytes.
    fn mutate(&mut self, bytes: &mut Vec<u8>) {
        for _ in 0..=self.below(4) {
            let at = self.below(bytes.len());
            match self.below(6) {
                0 => bytes.insert(at, self.below(256) as u8),
                1 => bytes.truncate(at),
                2 => bytes.extend_from_within(at..),
                3 if at < bytes.len() => drop(bytes.remove(at)),
                _ if at < bytes.len() => bytes[at] ^= 1 << self.below(8),
                _ => {}
            }
        }
    }
}

#[test]
fn no_body_panics_or_passes_the_limit() {
    let mut random = Random(20_261_122);
    let types = [JSON, "text/plain", "", FORM, NDJSON];
    let texts: [&[u8]; 4] = [
        br#"{"value":[{"a":"b\u00e4","n":-1.5e3},{}],"a":{"b":[null,true]}}"#,
        b"\xef\xbb\xbf{\"a\":1}\r\n\n[2]\r\n\"three\"\n",
        b"a=1&b=%C3%A4+x&a=2&%41=&c",
        b"payload=%7B%22a%22%3A%5B1%2C2%5D%7D",
    ];
    let mut seeds: Vec<Vec<u8>> = texts.iter().map(|text| text.to_vec()).collect();
    for text in texts {
        seeds.extend(compressed(text).map(|(_, bytes)| bytes));
    }
    seeds.extend(compressed(&long_json()[..3_000]).map(|(_, bytes)| bytes));
    let (mut taken, mut refused) = (0, 0);
    for round in 0..4_000 {
        let mut body = match round % 8 {
            0 => random.bytes(200),
            _ => seeds[random.below(seeds.len())].clone(),
        };
        random.mutate(&mut body);
        let body = Bytes::from(body);
        let bytes_max = [MANY, 4_000, 100, 7, 0][random.below(5)];
        for content_type in types {
            for encoding in ["", "gzip", "deflate", "zstd"] {
                match decode(form(content_type, encoding), body.clone(), bytes_max) {
                    Ok(json) => {
                        assert!(json.len() <= bytes_max, "{content_type} {encoding}");
                        let _ = at_path(&json, "value");
                        taken += 1;
                    }
                    Err(_) => refused += 1,
                }
            }
        }
        let path = ["value", "a.b", "", "a..b"][random.below(4)];
        if let Ok(items) = at_path(&body, path) {
            assert!(body.as_ptr_range().contains(&items.as_ptr()));
        }
        let _ = Form::of(Some(&body), Some(&body));
        let headers = [("ce-specversion", &body[..]), ("ce-id", &body[..])];
        assert_eq!(cloudevent_fields(headers.into_iter()).len(), 2);
    }
    assert!(taken > 1_000 && refused > 1_000, "{taken}, {refused}");
}

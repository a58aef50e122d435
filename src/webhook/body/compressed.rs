//! Decompresses bodies: gzip (RFC 1952), zlib (RFC 1950), raw deflate (RFC 1951) and zstd (RFC 8878).
//!
//! Called by `decode`. The ratio and the sizes that a stream declares are not trusted. Several gzip members or zstd
//! frames in a row are one stream, as their specifications say; checksums are checked.
//!
//! **Invariant**: nothing is produced beyond `bytes_max` and one buffer. For zstd the buffer is a window of at most
//! 8 MiB and two blocks of at most 1 MiB, which the decoder rounds up to a power of two.

use std::io::Read;

use bytes::Bytes;
use flate2::bufread::GzDecoder;
use flate2::{Decompress, FlushDecompress, Status};
use ruzstd::decoding::errors::{FrameDecoderError, FrameHeaderError, ReadFrameHeaderError};
use ruzstd::decoding::{BlockDecodingStrategy, FrameDecoder};

use super::DecodeError;
use super::header::Encoding;
use super::output::Output;

const BUFFER_BYTES: usize = 16 * 1_024;
/// RFC 8878 asks every decoder to take 8 MiB. Levels of the zstd command up to 19 stay within it.
const ZSTD_WINDOW_BYTES_MAX: u64 = 8 * 1_024 * 1_024;
/// How much of a frame is decoded before it is moved to the output. A frame as a whole would otherwise be in memory
/// twice.
const ZSTD_STEP_BYTES: usize = 1_024 * 1_024;
const ZSTD_MAGIC: [u8; 4] = [0x28, 0xb5, 0x2f, 0xfd];
const ZSTD_SINGLE_SEGMENT: u8 = 0x20;
const GZIP_MAGIC: [u8; 2] = [0x1f, 0x8b];
/// A member has 20 bytes or more, and takes as much time to set up as thousands of bytes to decompress.
const GZIP_MEMBERS_MAX: usize = 10_000;

/// The body decompressed; `Identity` is copied. The output is limited while it grows, because a small body can stand
/// for any size.
pub(super) fn decompress(
    encoding: Encoding,
    body: &[u8],
    bytes_max: usize,
) -> Result<Bytes, DecodeError> {
    let mut out = Output::new(bytes_max);
    match encoding {
        Encoding::Identity => out.push(body)?,
        Encoding::Gzip => gzip(body, &mut out)?,
        Encoding::Deflate => deflate(body, &mut out)?,
        Encoding::Zstd => zstd(body, &mut out)?,
    }
    Ok(out.into_bytes())
}

fn gzip(body: &[u8], out: &mut Output) -> Result<(), DecodeError> {
    let mut buffer = vec![0; BUFFER_BYTES];
    let mut rest = body;
    for _ in 0..GZIP_MEMBERS_MAX {
        let mut member = GzDecoder::new(rest);
        loop {
            match member.read(&mut buffer) {
                Ok(0) => break,
                Ok(len) => out.push(&buffer[..len])?,
                Err(_) => return Err(damaged(Encoding::Gzip)),
            }
        }
        rest = member.into_inner();
        if rest.is_empty() {
            return Ok(());
        }
        if !rest.starts_with(&GZIP_MAGIC) {
            return Err(trailing(Encoding::Gzip));
        }
    }
    Err(DecodeError::Invalid(format!(
        "the gzip body has more than {GZIP_MEMBERS_MAX} members; compress it as one"
    )))
}

fn deflate(body: &[u8], out: &mut Output) -> Result<(), DecodeError> {
    let mut buffer = vec![0; BUFFER_BYTES];
    let mut inflater = Decompress::new(has_zlib_header(body));
    let mut rest = body;
    loop {
        let (read, written) = (inflater.total_in(), inflater.total_out());
        let status = inflater
            .decompress(rest, &mut buffer, FlushDecompress::None)
            .map_err(|_| damaged(Encoding::Deflate))?;
        // Both are bounded by the slices that were passed.
        let read = (inflater.total_in() - read) as usize;
        let written = (inflater.total_out() - written) as usize;
        out.push(&buffer[..written])?;
        rest = &rest[read..];
        match status {
            Status::StreamEnd if rest.is_empty() => return Ok(()),
            Status::StreamEnd => return Err(trailing(Encoding::Deflate)),
            _ if read == 0 && written == 0 => return Err(damaged(Encoding::Deflate)),
            _ => {}
        }
    }
}

/// Method 8, and a check that makes both bytes a multiple of 31. Read as raw deflate, this would be a stored block
/// with padding that is not zero, which no compressor writes. Both forms are taken, because many senders call raw
/// deflate `deflate`.
fn has_zlib_header(body: &[u8]) -> bool {
    let &[method, flags, ..] = body else {
        return false;
    };
    method & 0x0f == 8 && method >> 4 <= 7 && u16::from_be_bytes([method, flags]) % 31 == 0
}

fn zstd(body: &[u8], out: &mut Output) -> Result<(), DecodeError> {
    let mut decoder = FrameDecoder::new();
    decoder.set_max_window_size(ZSTD_WINDOW_BYTES_MAX);
    let mut rest = body;
    loop {
        let frame = rest;
        match decoder.init(&mut rest) {
            Ok(()) => zstd_frame(&mut decoder, &mut rest, out)?,
            Err(FrameDecoderError::ReadFrameHeaderError(ReadFrameHeaderError::SkipFrame {
                length,
                ..
            })) => {
                let after = usize::try_from(length).ok().and_then(|at| rest.get(at..));
                rest = after.ok_or_else(|| damaged(Encoding::Zstd))?;
            }
            Err(error) => return Err(zstd_refused(&error, frame, out)),
        }
        if rest.is_empty() {
            return Ok(());
        }
        if !begins_like_zstd(rest) {
            return Err(trailing(Encoding::Zstd));
        }
    }
}

/// One frame after its header, up to its end. The declared size is compared first, so that a frame that cannot fit
/// costs nothing.
fn zstd_frame(
    decoder: &mut FrameDecoder,
    rest: &mut &[u8],
    out: &mut Output,
) -> Result<(), DecodeError> {
    let (start, room) = (out.len(), out.room());
    if decoder.content_size() > room as u64 {
        return Err(DecodeError::TooLarge);
    }
    // The decoder holds back a window that it may need again, so the output alone does not show when to stop.
    let mut at_least = 0;
    loop {
        let step = ZSTD_STEP_BYTES.min(room - at_least) + 1;
        let finished = decoder
            .decode_blocks(&mut *rest, BlockDecodingStrategy::UptoBytes(step))
            .map_err(|_| damaged(Encoding::Zstd))?;
        decoder
            .collect_to_writer(&mut *out)
            .map_err(|_| DecodeError::TooLarge)?;
        if finished {
            break;
        }
        at_least += step;
        if at_least > room {
            return Err(DecodeError::TooLarge);
        }
    }
    let declared = decoder.content_size();
    let sum = decoder.get_checksum_from_data();
    let is_whole = declared == 0 || declared == (out.len() - start) as u64;
    if !is_whole || (sum.is_some() && sum != decoder.get_calculated_checksum()) {
        return Err(damaged(Encoding::Zstd));
    }
    Ok(())
}

/// Why a frame's header was refused. The message names a level, because that is what a sender can set.
fn zstd_refused(error: &FrameDecoderError, frame: &[u8], out: &Output) -> DecodeError {
    match error {
        FrameDecoderError::WindowSizeTooBig { requested, .. }
            if is_single_segment(frame) && *requested > out.room() as u64 =>
        {
            DecodeError::TooLarge
        }
        FrameDecoderError::WindowSizeTooBig { requested: got, .. }
        | FrameDecoderError::FrameHeaderError(FrameHeaderError::WindowTooBig { got }) => {
            DecodeError::Invalid(format!(
                "the zstd body needs a window of {got} bytes, and the limit is {ZSTD_WINDOW_BYTES_MAX}; compress it with level 19 or below and without long mode"
            ))
        }
        FrameDecoderError::DictNotProvided { .. } => DecodeError::Invalid(
            "the zstd body was compressed with a dictionary; compress it without one".to_owned(),
        ),
        _ => damaged(Encoding::Zstd),
    }
}

/// In such a frame the window is the whole content, so its size is a matter of the limit.
fn is_single_segment(frame: &[u8]) -> bool {
    frame
        .get(ZSTD_MAGIC.len())
        .is_some_and(|descriptor| descriptor & ZSTD_SINGLE_SEGMENT != 0)
}

/// A frame, or a skippable one: `0x184D2A5?`, little-endian. Other bytes after a frame are refused, because a cut or
/// joined body would otherwise pass.
fn begins_like_zstd(rest: &[u8]) -> bool {
    rest.starts_with(&ZSTD_MAGIC)
        || matches!(rest, [first, 0x2a, 0x4d, 0x18, ..] if first & 0xf0 == 0x50)
}

fn damaged(encoding: Encoding) -> DecodeError {
    let name = encoding.name();
    DecodeError::Invalid(format!(
        "the header Content-Encoding is `{name}`, but the body is not a complete {name} stream (cut short, damaged or not compressed); compress the body again, or leave the header out"
    ))
}

fn trailing(encoding: Encoding) -> DecodeError {
    let name = encoding.name();
    DecodeError::Invalid(format!(
        "the body has bytes after the end of the {name} stream; send only the stream"
    ))
}

//! The write-ahead log of a SQLite file, looked through frame by frame.
//!
//! SQLite ends its reading of a log at the first frame whose checksum is wrong, without a word: right after a power cut,
//! when what follows was never flushed; wrong if the frame was damaged later, because acknowledged commits may follow.
//! The two can be told apart: a transaction is written only after the one before it was flushed, so a bad frame with two
//! commits behind it was good once. Format: <https://sqlite.org/fileformat2.html#walformat>.
//!
//! The start of the daemon calls [`look`] before SQLite sees the file; [`super::image`] reads pages by what was found.
//!
//! **Invariant**: nothing is written here but in [`mend`], and that only bits with which a checksum is right again.

mod header;

use std::collections::{HashMap, HashSet};
use std::fs::{File, OpenOptions};
use std::io::{self, BufReader, Read, Seek, SeekFrom};
use std::os::unix::fs::FileExt;
use std::path::Path;

use header::{FRAME_HEADER_BYTES, HEADER_BYTES, Header, Sum, number, read_whole};

/// Pages of which single bits are looked for; more damage than that is no single bit.
const MENDED_MAX: usize = 64;

/// What was found in a log.
#[derive(Debug, Default)]
pub(super) struct Looked {
    /// Where the newest committed version of each page begins in the log.
    pub(super) pages: HashMap<u32, u64>,
    /// Pages whose newest version cannot be read.
    pub(super) lost: HashSet<u32>,
    /// A frame cannot be read that was the newest version of nobody knows which page: what is read of that is older.
    pub(super) is_stale: bool,
    /// Pages of the file after the last commit.
    pub(super) size: Option<u32>,
    /// Frames that cannot be read although what came after them was flushed.
    pub(super) bad_frames: u64,
    /// The log ends in a transaction that is not whole, in a way that no killed process leaves: after a power cut, or
    /// damaged.
    pub(super) is_torn: bool,
    /// Bytes to turn over with these bits, and all is well.
    pub(super) mends: Vec<(u64, u8)>,
}

fn first_salts(file: &File) -> io::Result<[u8; 8]> {
    let mut salts = [0; 8];
    read_whole(file, &mut salts, HEADER_BYTES as u64 + 8)?;
    Ok(salts)
}

/// Looks through the log at `path`, of a file with pages of `page_bytes`. None if there is none, or nothing in it.
///
/// # Errors
/// The log cannot be read.
pub(super) fn look(path: &Path, page_bytes: usize) -> io::Result<Option<Looked>> {
    let mut file = match File::open(path) {
        Ok(file) => file,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(error),
    };
    let mut header = [0; HEADER_BYTES];
    if !read_whole(&file, &mut header, 0)? {
        return Ok(None);
    }
    let mut looked = Looked::default();
    let header = match Header::read(&header) {
        Some(header) => header,
        None => match Header::mended(&header, first_salts(&file)?) {
            Some((header, mend)) => {
                looked.mends.push(mend);
                header
            }
            None => match Header::guessed(&file, page_bytes)? {
                Some(header) => header,
                None => return Ok(None),
            },
        },
    };
    file.seek(SeekFrom::Start(HEADER_BYTES as u64))?;
    let mut frames = Frames {
        header,
        sum: header.sum,
        doubtful: false,
        looked,
        open: Vec::new(),
        bad: None,
        zeroed: false,
        commits_after_bad: 0,
        committed: None,
    };
    let mut reader = BufReader::with_capacity(1 << 20, file);
    let mut frame = vec![0; FRAME_HEADER_BYTES + header.page_bytes];
    let mut following = frame.clone();
    let mut read = |frame: &mut Vec<u8>| match reader.read_exact(frame) {
        Ok(()) => Ok(true),
        Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => {
            frame.clear();
            Ok(false)
        }
        Err(error) => Err(error),
    };
    let mut at = HEADER_BYTES as u64;
    let mut there = read(&mut frame)?;
    while there {
        there = read(&mut following)?;
        frames.next(&mut frame, &following, at);
        at += frame.len() as u64;
        std::mem::swap(&mut frame, &mut following);
    }
    Ok(Some(frames.end()))
}

/// A change that the open transaction makes to what is known.
#[derive(Clone, Copy)]
enum Seen {
    Page(u32, u64),
    Lost(Option<u32>),
}

struct Frames {
    header: Header,
    /// The checksum after the frame before, if that can be known.
    sum: Option<Sum>,
    /// It is what a bad frame says of itself.
    doubtful: bool,
    looked: Looked,
    /// What came since the last commit.
    open: Vec<Seen>,
    /// The first frame that cannot be read was met, with this much known before it.
    bad: Option<Before>,
    /// A frame is nothing but zeros: a process that was killed leaves none.
    zeroed: bool,
    /// Ends of transactions since then that can be read.
    commits_after_bad: u32,
    /// A frame after the last of those.
    committed: Option<u64>,
}

/// What SQLite will see, if it ends at a bad frame.
struct Before {
    pages: HashMap<u32, u64>,
    size: Option<u32>,
    mends: usize,
}

impl Frames {
    fn next(&mut self, frame: &mut [u8], following: &[u8], at: u64) {
        let header = self.header;
        let is_ours = frame[8..16] == header.salts;
        let stored = (number(frame, 16), number(frame, 20));
        let found = self.sum.map(|before| header.frame_sum(frame, before));
        let follows = is_ours && found == Some(stored);
        // Behind a frame whose end is unknown there is nothing to compare with.
        let bridges = is_ours && found != Some(stored) && (self.sum.is_none() || self.doubtful);
        if !follows && !bridges {
            let wrong = match self.sum {
                Some(before) if self.looked.mends.len() < MENDED_MAX => {
                    header.wrong_bit(frame, before, following)
                }
                _ => None,
            };
            let Some((place, mask)) = wrong else {
                return self.miss(frame, is_ours, stored);
            };
            frame[place] ^= mask;
            self.looked.mends.push((at + place as u64, mask));
        }
        self.take(frame, at);
    }

    fn take(&mut self, frame: &[u8], at: u64) {
        self.sum = Some((number(frame, 16), number(frame, 20)));
        self.doubtful = false;
        if self.commits_after_bad > 0 {
            self.committed = Some(at);
        }
        self.open
            .push(Seen::Page(number(frame, 0), at + FRAME_HEADER_BYTES as u64));
        self.close(number(frame, 4));
    }

    fn miss(&mut self, frame: &[u8], is_ours: bool, stored: Sum) {
        if self.bad.is_none() {
            self.bad = Some(Before {
                pages: self.looked.pages.clone(),
                size: self.looked.size,
                mends: self.looked.mends.len(),
            });
        }
        self.zeroed |= frame[..FRAME_HEADER_BYTES] == [0; FRAME_HEADER_BYTES];
        self.sum = is_ours.then_some(stored);
        self.doubtful = is_ours;
        self.open
            .push(Seen::Lost(is_ours.then(|| number(frame, 0))));
        if is_ours {
            self.close(number(frame, 4));
        }
    }

    /// A frame that ends a transaction says how large the file is then.
    fn close(&mut self, size: u32) {
        if size == 0 {
            return;
        }
        self.looked.size = Some(size);
        if self.bad.is_some() {
            self.commits_after_bad += 1;
        }
        for seen in self.open.drain(..) {
            match seen {
                Seen::Page(page, at) => {
                    self.looked.pages.insert(page, at);
                    self.looked.lost.remove(&page);
                }
                Seen::Lost(page) => {
                    self.looked.bad_frames += 1;
                    self.looked.is_stale |= page.is_none();
                    if let Some(page) = page {
                        self.looked.pages.remove(&page);
                        self.looked.lost.insert(page);
                    }
                }
            }
        }
    }

    fn end(self) -> Looked {
        let mut looked = self.looked;
        if let Some(before) = self.bad
            && self.committed.is_none()
        {
            // What SQLite makes of it is right, or cannot be told from that.
            looked.is_torn = self.commits_after_bad > 0 || self.zeroed;
            looked.pages = before.pages;
            looked.size = before.size;
            looked.mends.truncate(before.mends);
            looked.lost.clear();
            looked.bad_frames = 0;
            looked.is_stale = false;
        }
        looked
    }
}

/// Turns the bits over that [`look`] found wrong, and flushes.
///
/// # Errors
/// The log cannot be written.
pub(super) fn mend(path: &Path, mends: &[(u64, u8)]) -> io::Result<()> {
    let file = OpenOptions::new().read(true).write(true).open(path)?;
    for (at, mask) in mends {
        let mut byte = [0];
        file.read_exact_at(&mut byte, *at)?;
        byte[0] ^= mask;
        file.write_all_at(&byte, *at)?;
    }
    file.sync_all()
}

//! The b-trees of a SQLite file, read page by page. Format: <https://sqlite.org/fileformat2.html#b_tree_pages>.
//!
//! A tree is walked from its root; where a page cannot be read the walk goes on beside it. Pages below it are met by
//! nobody then: [`Walk::stray`] finds them by what they look like.
//!
//! **Invariant**: it ends, whatever the pages say: no page is used twice.

use rusqlite::types::Value;

use super::image::Image;

/// Where the file's header ends in the first page.
const HEADER_BYTES: usize = 100;

/// What a tree holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    /// Rows by their rowids.
    Table,
    /// Rows by themselves: an index, or a table `WITHOUT ROWID`.
    Index,
}

impl Kind {
    /// The first byte of its pages.
    fn types(self) -> (u8, u8) {
        match self {
            Self::Table => (0x0d, 0x05),
            Self::Index => (0x0a, 0x02),
        }
    }
}

/// A row as it stands in the file.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Row {
    /// 0 in trees without.
    pub(super) rowid: i64,
    /// What its record holds.
    pub(super) values: Vec<Value>,
}

/// What could not be read of a tree.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
pub(super) struct Damage {
    /// Whole pages.
    pub(super) pages: u64,
    /// Rows of pages that can be read otherwise.
    pub(super) rows: u64,
}

impl Damage {
    pub(super) fn is_none(self) -> bool {
        self == Self::default()
    }
}

/// A walk over a file. It remembers which pages it has met.
pub(super) struct Walk<'a> {
    image: &'a Image,
    seen: Vec<bool>,
    /// In the order in which they were met.
    met: Vec<u32>,
    usable: usize,
}

/// A page of a tree, taken apart.
struct Node {
    is_leaf: bool,
    cells: Vec<Cell>,
    /// The last child of a page that is no leaf.
    last: u32,
    bad_cells: u64,
}

/// A cell: a child, a row, or both.
struct Cell {
    child: u32,
    rowid: i64,
    /// Where in the page the row begins.
    begin: usize,
    /// Bytes of the row.
    length: usize,
    /// How many of them are in the page.
    local: usize,
}

impl<'a> Walk<'a> {
    pub(super) fn new(image: &'a Image) -> Self {
        let reserved = image.page(1).map_or(0, |first| usize::from(first[20]));
        Self {
            image,
            seen: vec![false; image.pages as usize + 1],
            met: Vec::new(),
            // No file of the daemon reserves anything: what says otherwise is damaged.
            usable: image.page_bytes - if reserved == 32 { reserved } else { 0 },
        }
    }

    /// Gives every row of a tree to `each`, nearly in order.
    pub(super) fn tree<E>(
        &mut self,
        root: u32,
        kind: Kind,
        mut each: impl FnMut(Row) -> Result<(), E>,
    ) -> Result<Damage, E> {
        let mut damage = Damage::default();
        let mut waiting = vec![(root, i64::MIN..=i64::MAX)];
        while let Some((number, rowids)) = waiting.pop() {
            if self.has_met(number) {
                damage.pages += 1;
                continue;
            }
            let page = self.image.page(number);
            let node = page.as_ref().and_then(|page| self.node(page, number, kind));
            let belongs = |node: &Node| {
                let mut cells = node.cells.iter();
                kind == Kind::Index || cells.all(|cell| rowids.contains(&cell.rowid))
            };
            // A damaged parent may name a page of another tree: that one must find it unmet.
            let (Some(page), Some(node)) = (page, node.filter(belongs)) else {
                damage.pages += 1;
                continue;
            };
            self.meet(number);
            damage.rows += node.bad_cells;
            if !node.is_leaf {
                let mut low = *rowids.start();
                let mut children = Vec::with_capacity(node.cells.len() + 1);
                for cell in &node.cells {
                    children.push((cell.child, low..=cell.rowid));
                    low = cell.rowid.saturating_add(1);
                }
                children.push((node.last, low..=*rowids.end()));
                if kind == Kind::Index {
                    children
                        .iter_mut()
                        .for_each(|child| child.1 = i64::MIN..=i64::MAX);
                }
                waiting.extend(children.into_iter().rev());
            }
            if node.is_leaf || kind == Kind::Index {
                for cell in &node.cells {
                    match self.row(&page, cell) {
                        Some(row) => each(row)?,
                        None => damage.rows += 1,
                    }
                }
            }
        }
        Ok(damage)
    }

    /// Gives the rows of leaves that no tree has met to `each`.
    pub(super) fn stray<E>(
        &mut self,
        kind: Kind,
        mut each: impl FnMut(Row) -> Result<(), E>,
    ) -> Result<(), E> {
        let (leaf, inner) = kind.types();
        for number in 2..=self.image.pages {
            if self.has_met(number) {
                continue;
            }
            let Some(page) = self.image.page(number) else {
                continue;
            };
            let is_one = page[0] == leaf || (kind == Kind::Index && page[0] == inner);
            if !is_one {
                continue;
            }
            if let Some(node) = self.strict(&page, number, kind, page[0] == leaf) {
                self.meet(number);
                for cell in &node.cells {
                    if let Some(row) = self.row(&page, cell) {
                        each(row)?;
                    }
                }
            }
        }
        Ok(())
    }

    /// Meets the pages that are in no tree because they are free. False if not all of them can be known.
    pub(super) fn free(&mut self) -> bool {
        let Some(first) = self.image.page(1) else {
            return false;
        };
        if !first.starts_with(b"SQLite format 3\0") {
            return false;
        }
        let (mut trunk, count) = (number(&first, 32), number(&first, 36));
        let mut met = 0;
        while trunk != 0 {
            if !self.meet(trunk) {
                return false;
            }
            let Some(page) = self.image.page(trunk) else {
                return false;
            };
            let leaves = number(&page, 4) as usize;
            if leaves > self.usable / 4 - 2 {
                return false;
            }
            for leaf in 0..leaves {
                if !self.meet(number(&page, 8 + 4 * leaf)) {
                    return false;
                }
            }
            met += 1 + leaves;
            trunk = number(&page, 0);
        }
        met == count as usize
    }

    /// Whether this page is part of something, or no page at all.
    fn has_met(&self, number: u32) -> bool {
        self.seen.get(number as usize).is_none_or(|seen| *seen) || number == 0
    }

    /// True the first time.
    fn meet(&mut self, number: u32) -> bool {
        if self.has_met(number) {
            return false;
        }
        self.seen[number as usize] = true;
        self.met.push(number);
        true
    }

    /// How many pages were met.
    pub(super) fn met(&self) -> usize {
        self.met.len()
    }

    /// Pages that were met after so many are somebody else's.
    pub(super) fn forget(&mut self, met: usize) {
        for number in self.met.drain(met..) {
            self.seen[number as usize] = false;
        }
    }

    /// The page as part of such a tree. A page that looks wrong is tried as what it may have been.
    fn node(&self, page: &[u8], number: u32, kind: Kind) -> Option<Node> {
        let (leaf, inner) = kind.types();
        let found = page[start(number)];
        let near = |wanted: u8| (found ^ wanted).count_ones() <= 1;
        let stated = match found {
            _ if found == leaf => Some(true),
            _ if found == inner => Some(false),
            _ => None,
        };
        let as_stated = stated.and_then(|is_leaf| self.strict(page, number, kind, is_leaf));
        as_stated
            .or_else(|| self.strict(page, number, kind, true).filter(|_| near(leaf)))
            .or_else(|| {
                self.strict(page, number, kind, false)
                    .filter(|_| near(inner))
            })
            .or_else(|| self.lenient(page, number, kind, stated?))
    }

    /// If nothing is wrong with it.
    fn strict(&self, page: &[u8], number: u32, kind: Kind, is_leaf: bool) -> Option<Node> {
        let node = self.lenient(page, number, kind, is_leaf)?;
        let child_is_good = |child: u32| child > 1 && child <= self.image.pages;
        let children = node.cells.iter().map(|cell| cell.child);
        let good = node.bad_cells == 0
            && (is_leaf || (children.chain([node.last]).all(child_is_good)))
            && (!is_leaf
                || kind == Kind::Index
                || node.cells.is_sorted_by(|a, b| a.rowid < b.rowid));
        good.then_some(node)
    }

    /// What can be read of it.
    fn lenient(&self, page: &[u8], number: u32, kind: Kind, is_leaf: bool) -> Option<Node> {
        let start = start(number);
        let count = usize::from(short(page, start + 3));
        let list = start + if is_leaf { 8 } else { 12 };
        let list_end = list + 2 * count;
        // An empty root is fine; any other page of nothing was overwritten.
        if list_end > self.usable || (page[start..start + 8] == [0; 8]) {
            return None;
        }
        let mut node = Node {
            is_leaf,
            cells: Vec::with_capacity(count),
            last: if is_leaf {
                0
            } else {
                self::number(page, start + 8)
            },
            bad_cells: 0,
        };
        for place in 0..count {
            let at = usize::from(short(page, list + 2 * place));
            match self.cell(page, at, list_end, kind, is_leaf) {
                Some(cell) => node.cells.push(cell),
                None => node.bad_cells += 1,
            }
        }
        if is_leaf && kind == Kind::Table {
            let before = node.cells.len();
            keep_ascending(&mut node.cells);
            node.bad_cells += (before - node.cells.len()) as u64;
        }
        Some(node)
    }

    fn cell(
        &self,
        page: &[u8],
        at: usize,
        list_end: usize,
        kind: Kind,
        is_leaf: bool,
    ) -> Option<Cell> {
        if at < list_end || at + 4 > self.usable {
            return None;
        }
        let mut cell = Cell {
            child: 0,
            rowid: 0,
            begin: at,
            length: 0,
            local: 0,
        };
        if !is_leaf {
            cell.child = number(page, at);
            cell.begin += 4;
        }
        if is_leaf || kind == Kind::Index {
            let length = varint(page, &mut cell.begin)?;
            cell.length = usize::try_from(length).ok()?;
            let all = self.image.pages as usize * self.usable;
            if cell.length > all {
                return None;
            }
        }
        if kind == Kind::Table {
            cell.rowid = varint(page, &mut cell.begin)?.cast_signed();
        }
        if is_leaf || kind == Kind::Index {
            cell.local = self.local(cell.length, kind);
            let end = cell.begin + cell.local + if cell.local < cell.length { 4 } else { 0 };
            if end > self.usable {
                return None;
            }
        }
        Some(cell)
    }

    /// How much of a row is in its page.
    fn local(&self, length: usize, kind: Kind) -> usize {
        let most = match kind {
            Kind::Table => self.usable - 35,
            Kind::Index => (self.usable - 12) * 64 / 255 - 23,
        };
        if length <= most {
            return length;
        }
        let least = (self.usable - 12) * 32 / 255 - 23;
        let wanted = least + (length - least) % (self.usable - 4);
        if wanted <= most { wanted } else { least }
    }

    fn row(&mut self, page: &[u8], cell: &Cell) -> Option<Row> {
        let end = cell.begin + cell.local;
        let mut bytes = page.get(cell.begin..end)?.to_vec();
        let mut next = match cell.local < cell.length {
            true => number(page, end),
            false => 0,
        };
        while bytes.len() < cell.length {
            if !self.meet(next) {
                return None;
            }
            let more = self.image.page(next)?;
            // No text goes on with so many zeros.
            if more.iter().all(|byte| *byte == 0) {
                return None;
            }
            let wanted = (cell.length - bytes.len()).min(self.usable - 4);
            bytes.extend_from_slice(&more[4..4 + wanted]);
            next = number(&more, 0);
        }
        Some(Row {
            rowid: cell.rowid,
            values: record(&bytes)?,
        })
    }
}

/// Where a page's own header begins.
fn start(number: u32) -> usize {
    if number == 1 { HEADER_BYTES } else { 0 }
}

/// Takes out those whose rowid is wrong: it does not rise from its neighbors'. If that may be either of two, both go: a
/// row by another's rowid is worse than one less.
fn keep_ascending(cells: &mut Vec<Cell>) {
    let ids: Vec<i64> = cells.iter().map(|cell| cell.rowid).collect();
    let mut wrong = vec![false; ids.len()];
    for at in 1..ids.len() {
        if ids[at - 1] < ids[at] {
            continue;
        }
        let rises = |low: Option<usize>, high: usize| match (low, ids.get(high)) {
            (Some(low), Some(high)) => ids[low] < *high,
            _ => true,
        };
        let without_first = rises(at.checked_sub(2), at);
        let without_second = rises(Some(at - 1), at + 1);
        wrong[at - 1] |= without_first || !without_second;
        wrong[at] |= without_second || !without_first;
    }
    let mut wrong = wrong.into_iter();
    cells.retain(|_| !wrong.next().unwrap_or_default());
}

fn short(bytes: &[u8], at: usize) -> u16 {
    u16::from_be_bytes([bytes[at], bytes[at + 1]])
}

fn number(bytes: &[u8], at: usize) -> u32 {
    u32::from_be_bytes([bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]])
}

/// A number of one to nine bytes.
fn varint(bytes: &[u8], at: &mut usize) -> Option<u64> {
    let mut value = 0;
    for place in 0..9 {
        let byte = *bytes.get(*at)?;
        *at += 1;
        if place == 8 {
            return Some(value << 8 | u64::from(byte));
        }
        value = value << 7 | u64::from(byte & 0x7f);
        if byte < 0x80 {
            break;
        }
    }
    Some(value)
}

/// The values of a record; None if it is none.
fn record(bytes: &[u8]) -> Option<Vec<Value>> {
    let mut at = 0;
    let header_end = usize::try_from(varint(bytes, &mut at)?).ok()?;
    if header_end > bytes.len() {
        return None;
    }
    let mut values = Vec::new();
    let mut begin = header_end;
    while at < header_end {
        let kind = varint(bytes, &mut at)?;
        let length = match kind {
            0 | 8 | 9 => 0,
            1..=4 => kind as usize,
            5 => 6,
            6 | 7 => 8,
            10 | 11 => return None,
            _ => usize::try_from((kind - 12) / 2).ok()?,
        };
        let end = begin.checked_add(length)?;
        let body = bytes.get(begin..end)?;
        values.push(match kind {
            0 => Value::Null,
            8 => Value::Integer(0),
            9 => Value::Integer(1),
            1..=6 => {
                let negative = body.first().is_some_and(|byte| *byte >= 0x80);
                let zero = if negative { -1_i64 } else { 0 };
                Value::Integer(
                    body.iter()
                        .fold(zero, |all, byte| all << 8 | i64::from(*byte)),
                )
            }
            7 => Value::Real(f64::from_be_bytes(body.try_into().ok()?)),
            _ if kind % 2 == 0 => Value::Blob(body.to_vec()),
            _ => Value::Text(String::from_utf8(body.to_vec()).ok()?),
        });
        begin = end;
    }
    (at == header_end && begin == bytes.len()).then_some(values)
}

//! One page of a b-tree, taken apart. Format: <https://sqlite.org/fileformat2.html#b_tree_pages>.
//!
//! **Invariant**: whatever the bytes of a page say, nothing outside it is read.

use super::record::varint;

/// Where the file's header ends in the first page.
const HEADER_BYTES: usize = 100;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    /// Rows by their rowids.
    Table,
    /// Rows by themselves: an index, or a table `WITHOUT ROWID`.
    Index,
}

impl Kind {
    /// The first byte of its pages.
    pub(super) fn types(self) -> (u8, u8) {
        match self {
            Self::Table => (0x0d, 0x05),
            Self::Index => (0x0a, 0x02),
        }
    }
}

/// What holds for all pages of a file.
pub(super) struct Layout {
    pub(super) pages: u32,
    /// Bytes of one that are used.
    pub(super) usable: usize,
}

/// A page of a tree, taken apart.
pub(super) struct Node {
    pub(super) is_leaf: bool,
    pub(super) cells: Vec<Cell>,
    /// The last child of a page that is no leaf.
    pub(super) last: u32,
    pub(super) bad_cells: u64,
}

/// A cell: a child, a row, or both.
pub(super) struct Cell {
    pub(super) child: u32,
    pub(super) rowid: i64,
    /// Where in the page the row begins.
    pub(super) begin: usize,
    pub(super) length: usize,
    /// How many of them are in the page.
    pub(super) local: usize,
}

impl Layout {
    /// The page as part of such a tree. A page that looks wrong is tried as what it may have been.
    pub(super) fn node(&self, page: &[u8], number: u32, kind: Kind) -> Option<Node> {
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
    pub(super) fn strict(
        &self,
        page: &[u8],
        number: u32,
        kind: Kind,
        is_leaf: bool,
    ) -> Option<Node> {
        let node = self.lenient(page, number, kind, is_leaf)?;
        let child_is_good = |child: u32| child > 1 && child <= self.pages;
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
            let all = self.pages as usize * self.usable;
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

pub(super) fn number(bytes: &[u8], at: usize) -> u32 {
    u32::from_be_bytes([bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]])
}

//! The b-trees of a SQLite file, read page by page. Format: <https://sqlite.org/fileformat2.html#b_tree_pages>.
//!
//! A tree is walked from its root; where a page cannot be read the walk goes on beside it. Pages below it are met by
//! nobody then: [`Walk::stray`] finds them by what they look like.
//!
//! **Invariant**: it ends, whatever the pages say: no page is used twice.

use rusqlite::types::Value;

use super::image::Image;
pub(super) use super::page::Kind;
use super::page::{Cell, Layout, Node, number};
use super::record::record;

/// A row as it stands in the file.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Row {
    /// 0 in trees without.
    pub(super) rowid: i64,
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
    layout: Layout,
}

impl<'a> Walk<'a> {
    pub(super) fn new(image: &'a Image) -> Self {
        let reserved = image.page(1).map_or(0, |first| usize::from(first[20]));
        Self {
            image,
            seen: vec![false; image.pages as usize + 1],
            met: Vec::new(),
            layout: Layout {
                pages: image.pages,
                // No file of the daemon reserves anything: what says otherwise is damaged.
                usable: image.page_bytes - if reserved == 32 { reserved } else { 0 },
            },
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
            let node = page
                .as_ref()
                .and_then(|page| self.layout.node(page, number, kind));
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
            if let Some(node) = self.layout.strict(&page, number, kind, page[0] == leaf) {
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

    /// Meets the pages that are in no tree because they are free. False if not all of them can be known. Otherwise rows
    /// that were deleted would be found as strays.
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
            if leaves > self.layout.usable / 4 - 2 {
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
            let wanted = (cell.length - bytes.len()).min(self.layout.usable - 4);
            bytes.extend_from_slice(&more[4..4 + wanted]);
            next = number(&more, 0);
        }
        Some(Row {
            rowid: cell.rowid,
            values: record(&bytes)?,
        })
    }
}

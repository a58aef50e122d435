//! A table of text with aligned columns.
//!
//! Called by the report.
//!
//! **Invariant:** each row has as many cells as the heading; missing ones are empty.

/// Rows under a heading.
#[derive(Debug)]
pub(crate) struct Table {
    rows: Vec<Vec<String>>,
}

impl Table {
    /// An empty one with these column names.
    pub(crate) fn new(heading: &[&str]) -> Self {
        let heading = heading.iter().map(|&name| name.to_owned()).collect();
        Self {
            rows: vec![heading],
        }
    }

    /// Adds a row.
    pub(crate) fn row(&mut self, cells: impl IntoIterator<Item = String>) {
        let mut row: Vec<String> = cells.into_iter().collect();
        row.resize(self.rows[0].len(), String::new());
        self.rows.push(row);
    }

    /// Prints it: numbers to the right, text to the left.
    pub(crate) fn print(&self) {
        let columns = self.rows[0].len();
        let widths: Vec<usize> = (0..columns)
            .map(|column| {
                let cells = self.rows.iter().map(|row| row[column].chars().count());
                cells.max().unwrap_or_default()
            })
            .collect();
        let numeric: Vec<bool> = (0..columns)
            .map(|column| {
                self.rows[1..].iter().all(|row| {
                    let cell = row[column].trim_end_matches(" %");
                    cell.is_empty() || cell.parse::<f64>().is_ok()
                })
            })
            .collect();
        for row in &self.rows {
            let cells: Vec<String> = row
                .iter()
                .zip(widths.iter().zip(&numeric))
                .map(|(cell, (&width, &numeric))| {
                    if numeric {
                        format!("{cell:>width$}")
                    } else {
                        format!("{cell:<width$}")
                    }
                })
                .collect();
            println!("{}", cells.join("  ").trim_end());
        }
    }
}

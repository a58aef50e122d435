//! One HTML page with every curve: its picture, its table, and whether it bends.
//!
//! Called by the bench's main file.
//!
//! **Invariant:** the page loads nothing: it can be read anywhere, and long after the run.

use std::fmt::Write as _;

use super::{Results, plot};
use crate::Result;

const STYLE: &str = "\
body { font: 16px/1.5 system-ui, sans-serif; max-width: 62rem; margin: 2rem auto; padding: 0 1rem; \
color: #1b1b1b; background: #fff }\
h2 { margin: 2.5rem 0 0 } p { margin: .25rem 0 .5rem }\
svg { max-width: 100%; height: auto }\
table { border-collapse: collapse; font-variant-numeric: tabular-nums }\
th, td { padding: .15rem .9rem; text-align: right; border-bottom: 1px solid #ddd }\
.bends { color: #a61e1e; font-weight: 600 }";

/// The page.
pub(super) fn page(results: &Results) -> Result<String> {
    let mut page = format!(
        "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n\
         <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n\
         <title>How cost grows</title>\n<style>{STYLE}</style>\n</head>\n<body>\n<h1>How cost grows</h1>\n\
         <p>{} cores, {} s of load for each point. CPU is the server's (of the log and of idempotency keys: of callers \
         and journal) for each unit, until the sinks have everything; the load generator shares the cores. A curve \
         bends upwards where a unit at its end costs over 1.5 times one in its middle.</p>\n",
        results.cores, results.seconds
    );
    for note in &results.notes {
        writeln!(page, "<p class=\"bends\">{}</p>", escaped(note))?;
    }
    for curve in &results.curves {
        let class = match curve.bends() {
            true => " class=\"bends\"",
            false => "",
        };
        writeln!(
            page,
            "<h2 id=\"{}\">{}</h2>\n<p{class}>{}</p>\n{}\n<table>",
            curve.name,
            escaped(curve.title),
            escaped(&curve.verdict()),
            plot::svg(curve)?
        )?;
        let (heading, rows) = curve.rows();
        let row = |cells: &[String], tag: &str| {
            let cells = cells
                .iter()
                .map(|cell| format!("<{tag}>{}</{tag}>", escaped(cell)));
            format!("<tr>{}</tr>", cells.collect::<String>())
        };
        writeln!(page, "<thead>{}</thead>\n<tbody>", row(&heading, "th"))?;
        for cells in &rows {
            writeln!(page, "{}", row(cells, "td"))?;
        }
        writeln!(page, "</tbody>\n</table>")?;
    }
    page.push_str("</body>\n</html>\n");
    Ok(page)
}

fn escaped(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;")
}

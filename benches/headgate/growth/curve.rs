//! A curve: what a unit costs at each of its points, and whether it bends.
//!
//! Called by the bench's main file, which fills it, and by the page.
//!
//! **Invariant:** ratios are to the first point of the same curve, and its verdict stands on costs, never on times.

use serde::Serialize;

use crate::table::Table;
use crate::times::Times;

/// A unit at the end that costs more than so many times one in the middle bends the curve.
const BEND: f64 = 1.5;

/// One point.
#[derive(Clone, Copy, Debug, Serialize)]
pub(crate) struct Point {
    /// How many there are.
    pub(crate) x: u64,
    /// CPU time of a unit, µs.
    pub(crate) cpu_micros: f64,
    /// How long one took: request to 202 (renderers: request to the renderer; a page: itself).
    pub(crate) ms: Times,
    /// In a second.
    pub(crate) per_second: f64,
    /// How long the daemon took to start, where it was started for the point.
    pub(crate) start_ms: Option<f64>,
    /// CPU time of a unit to that at the first point.
    pub(crate) ratio: f64,
}

/// A curve.
#[derive(Debug, Serialize)]
pub(crate) struct Curve {
    /// For the command line and files.
    pub(crate) name: &'static str,
    /// What grows.
    pub(crate) title: &'static str,
    /// What costs are of.
    pub(crate) unit: &'static str,
    /// From few to many.
    pub(crate) points: Vec<Point>,
    /// Cost at the end to that in the middle.
    end_to_middle: Option<f64>,
    /// Whether that is a bend.
    bends: bool,
}

impl Curve {
    /// Without points.
    pub(crate) fn new(name: &'static str, title: &'static str, unit: &'static str) -> Self {
        Self {
            name,
            title,
            unit,
            points: Vec::new(),
            end_to_middle: None,
            bends: false,
        }
    }

    /// Adds a point behind the others.
    pub(crate) fn push(&mut self, point: Point) {
        let first = self
            .points
            .first()
            .map_or(point.cpu_micros, |first| first.cpu_micros);
        self.points.push(Point {
            ratio: point.cpu_micros / first,
            ..point
        });
        if self.points.len() >= 3 {
            let middle = self.points[(self.points.len() - 1) / 2].cpu_micros;
            let ratio = point.cpu_micros / middle;
            self.end_to_middle = Some(ratio);
            self.bends = ratio > BEND;
        }
    }

    /// Whether it bends upwards.
    pub(crate) fn bends(&self) -> bool {
        self.bends
    }

    /// The same for people.
    pub(crate) fn verdict(&self) -> String {
        let unit = self.unit;
        match self.end_to_middle {
            None => "too few points to tell whether it bends".to_owned(),
            Some(ratio) if self.bends => format!(
                "BENDS upwards: a {unit} at the end costs {ratio:.2} times one in the middle"
            ),
            Some(ratio) => format!(
                "does not bend: a {unit} at the end costs {ratio:.2} times one in the middle"
            ),
        }
    }

    /// The heading and the rows of its table.
    pub(crate) fn rows(&self) -> (Vec<String>, Vec<Vec<String>>) {
        let heading = [
            self.title,
            &format!("CPU us/{}", self.unit),
            "ratio",
            "p50 ms",
            "p99 ms",
            "in a second",
            "start ms",
        ];
        let rows = self.points.iter().map(|point| {
            let start_ms = point.start_ms.map(|ms| format!("{ms:.0}"));
            vec![
                point.x.to_string(),
                format!("{:.1}", point.cpu_micros),
                format!("{:.2}", point.ratio),
                format!("{:.2}", point.ms.p50),
                format!("{:.2}", point.ms.p99),
                format!("{:.0}", point.per_second),
                start_ms.unwrap_or_default(),
            ]
        });
        (heading.map(str::to_owned).to_vec(), rows.collect())
    }

    /// Prints it.
    pub(crate) fn print(&self) {
        let (heading, rows) = self.rows();
        let heading: Vec<&str> = heading.iter().map(String::as_str).collect();
        let mut table = Table::new(&heading);
        rows.into_iter().for_each(|row| table.row(row));
        println!();
        table.print();
    }
}

//! A curve as a picture: cost on the left, times on the right, both over a logarithmic axis.
//!
//! Called by the page; the only file that knows the plotting library.
//!
//! **Invariant:** a picture is one `svg` element that loads nothing, and its vertical axes begin at 0.

use plotters::coord::Shift;
use plotters::prelude::{
    ChartBuilder, Color, DrawingArea, IntoDrawingArea, IntoLogRange, LineSeries, RGBColor,
    SVGBackend, WHITE,
};

use super::curve::{Curve, Point};
use crate::Result;

const SIZE: (u32, u32) = (960, 320);
const COST: RGBColor = RGBColor(0x0b, 0x5f, 0xa5);
const MEDIAN: RGBColor = RGBColor(0x2b, 0x8a, 0x3e);
const TAIL: RGBColor = RGBColor(0xc9, 0x2a, 0x2a);
const FONT: (&str, i32) = ("sans-serif", 14);

/// A line: its colour, and what of a point it shows.
type Line = (RGBColor, fn(&Point) -> f64);

/// The picture.
pub(super) fn svg(curve: &Curve) -> Result<String> {
    let mut picture = String::new();
    {
        let root = SVGBackend::with_string(&mut picture, SIZE).into_drawing_area();
        root.fill(&WHITE)?;
        let (left, right) = root.split_horizontally(SIZE.0 / 2);
        let cost = format!("CPU us / {}", curve.unit);
        draw(&left, curve, &cost, &[(COST, |point| point.cpu_micros)])?;
        let times: [Line; 2] = [(MEDIAN, |point| point.ms.p50), (TAIL, |point| point.ms.p99)];
        draw(&right, curve, "ms: p50 green, p99 red", &times)?;
        root.present()?;
    }
    Ok(picture)
}

fn draw(
    area: &DrawingArea<SVGBackend<'_>, Shift>,
    curve: &Curve,
    what: &str,
    lines: &[Line],
) -> Result<()> {
    // A logarithmic axis has no 0.
    let place = |point: &Point| (point.x as f64).max(1.0);
    let first = curve.points.first().map_or(1.0, place);
    let last = curve.points.last().map_or(10.0, place).max(first * 10.0);
    let values = lines
        .iter()
        .flat_map(|(_, value)| curve.points.iter().map(value));
    let top = values.fold(0.0_f64, f64::max) * 1.15;
    let mut chart = ChartBuilder::on(area)
        .margin(12)
        .x_label_area_size(44)
        .y_label_area_size(72)
        .build_cartesian_2d((first..last).log_scale(), 0.0..top.max(1e-3))?;
    chart
        .configure_mesh()
        .light_line_style(WHITE)
        .x_desc(curve.title)
        .y_desc(what)
        .label_style(FONT)
        .x_label_formatter(&|x| short(*x))
        .draw()?;
    for (colour, value) in lines {
        let points = curve
            .points
            .iter()
            .map(|point| (place(point), value(point)));
        chart.draw_series(LineSeries::new(points, colour.stroke_width(2)).point_size(4))?;
    }
    Ok(())
}

/// 10, 1k, 1M.
fn short(number: f64) -> String {
    match number {
        _ if number >= 1e6 => format!("{:.0}M", number / 1e6),
        _ if number >= 1e3 => format!("{:.0}k", number / 1e3),
        _ => format!("{number:.0}"),
    }
}

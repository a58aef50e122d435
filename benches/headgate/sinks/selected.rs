//! What `where` and `fields` of a sink cost: beside a sink without them, and beside the same done by handle.
//!
//! A plugin that knows which items and fields it wants asks for them by handle, `select` and `project`. The daemon looks at
//! the conditions as well, and names fields anew. They take turns, a window of batches each.
//!
//! How to read it: µs are of one batch and drift with the machine; the aims are ratios of neighbouring windows.
//!
//! Called by the bench of sinks.
//!
//! **Invariant:** both ways come to the same items with the same fields.

use std::time::Instant;

use item::batch::{Batch, Form, Span};
use settings::{Sink, SinkFields, SinkWhere};

use super::batches::Batches;
use super::{BATCHES_MAX, WINDOW_ITEMS, WINDOWS, median, micros};
use crate::Result;
use crate::aim::Aim;
use crate::table::Table;

/// Sizes of a batch, in items.
const SIZES: [u32; 2] = [100, 5_000];
/// About half of the items.
const WHERE: &str = "price>=500";
const FIELDS: [&str; 3] = ["id", "price", "stock.count"];
/// Bytes that a batch may take beside its own.
const BYTES_MAX: usize = 64 << 20;

/// Runs it. `settled_us` is what a batch of 100 items takes as a whole.
pub(super) fn bench(settled_us: f64) -> Result<Vec<Aim>> {
    println!("\nwhat a sink receives: conditions and fields, us\n");
    let plain = Sink::default();
    let both = Sink {
        r#where: Some(SinkWhere::try_from(WHERE.to_owned())?),
        fields: Some(SinkFields::try_from(FIELDS.join(","))?),
        ..Sink::default()
    };
    let mut table = Table::new(&["items", "without", "by handle", "where, fields", "ratio"]);
    let mut aims = Vec::new();
    for size in SIZES {
        let mut batches = Batches::new(size);
        let count = (WINDOW_ITEMS / size).clamp(1, BATCHES_MAX);
        let (mut without, mut by_handle, mut selected) = (Vec::new(), Vec::new(), Vec::new());
        for window in 0..WINDOWS {
            let made = batches.take(count);
            let wanted: Vec<Vec<u32>> = made.iter().map(wanted).collect();
            same(&made[0], &wanted[0], &both)?;
            // Whoever comes second finds warmer caches: they take turns.
            for side in 0..3 {
                let begun = Instant::now();
                let times = match (side + window) % 3 {
                    0 => {
                        for batch in &made {
                            delivery::narrowed(&plain, batch)?;
                        }
                        &mut without
                    }
                    1 => {
                        for (batch, wanted) in made.iter().zip(&wanted) {
                            handle(batch, wanted)?;
                        }
                        &mut by_handle
                    }
                    _ => {
                        for batch in &made {
                            delivery::narrowed(&both, batch)?;
                        }
                        &mut selected
                    }
                };
                times.push(micros(begun.elapsed(), count));
            }
        }
        let ratios: Vec<f64> = (by_handle.iter().zip(&selected))
            .map(|(handle, selected)| selected / handle)
            .collect();
        let (without, ratio) = (median(&without), median(&ratios));
        table.row([
            size.to_string(),
            format!("{without:.3}"),
            format!("{:.1}", median(&by_handle)),
            format!("{:.1}", median(&selected)),
            format!("{ratio:.2}"),
        ]);
        if size == 100 {
            let share = without / settled_us * 100.0;
            aims.push(Aim::at_most(
                "share of a batch, without where and fields",
                share,
                1.0,
                " %",
            ));
        }
        let name = format!("where and fields beside the same by handle, {size} items");
        aims.push(Aim::at_most(name, ratio, 1.6, ""));
    }
    table.print();
    Ok(aims)
}

/// The items that match.
fn wanted(batch: &Batch) -> Vec<u32> {
    let prices = batch.numbers("price", Span::ALL);
    let indexes = (0..).zip(prices).filter(|(_, price)| *price >= 500.0);
    indexes.map(|(index, _)| index).collect()
}

fn handle(batch: &Batch, wanted: &[u32]) -> Result<Batch> {
    let names = FIELDS.map(str::to_owned);
    Ok(batch
        .select(wanted, BYTES_MAX)?
        .project(&names, BYTES_MAX)?)
}

fn same(batch: &Batch, wanted: &[u32], sink: &Sink) -> Result<()> {
    let lines = |batch: &Batch| batch.json(Span::ALL, Form::FieldLines);
    match lines(&handle(batch, wanted)?) == lines(&delivery::narrowed(sink, batch)?) {
        true => Ok(()),
        false => Err("the two ways differ".into()),
    }
}

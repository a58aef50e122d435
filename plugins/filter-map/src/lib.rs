//! Drops, trims, renames and moves items by rules, and writes what is left into the data pool.
//!
//! **Invariant**: each item is dealt with by one rule, or by `otherwise`; of its values only those that rules ask for
//! enter this component.

mod rules;

use std::collections::BTreeSet;

use headgate_sdk::{
    ALL, Batch, Opened, Rejection, Removals, Sink, WriteError, metrics, pool, renderers,
};
use rules::{Columns, Otherwise, Rule, Settings};

static SETTINGS: Opened<Settings> = Opened::new();

struct FilterMap;

impl Sink for FilterMap {
    const CONFIG_SCHEMA: &'static str = include_str!("config.schema.json");

    fn open(config: &str) -> Result<(), String> {
        let settings = serde_json::from_str(config).map_err(|error| error.to_string())?;
        SETTINGS.set(settings);
        Ok(())
    }

    fn write(batch: Batch) -> Result<(), WriteError> {
        let settings = SETTINGS.get()?;
        let columns = Columns::new(&batch, &settings.rules);
        let mut by_rule = vec![Vec::new(); settings.rules.len()];
        let mut others = Vec::new();
        for index in 0..batch.len() {
            match columns.first_match(&settings.rules, index as usize) {
                Some(rule) => by_rule[rule].push(index),
                None => others.push(index),
            }
        }
        let mut dropped = 0;
        let mut rejected = Vec::new();
        for (rule, items) in settings.rules.iter().zip(&by_rule) {
            if rule.drop {
                dropped += items.len();
            } else if !items.is_empty() {
                rejected.extend(take(rule, &batch, items));
            }
        }
        match settings.otherwise {
            Otherwise::Keep if !others.is_empty() => stage(&batch.select(&others)),
            Otherwise::Keep => {}
            Otherwise::Drop => dropped += others.len(),
        }
        metrics::count("dropped", dropped as u64);
        if rejected.is_empty() {
            Ok(())
        } else {
            Err(WriteError::RejectItems(rejected))
        }
    }
}

/// Does with these items what the rule says; the ones with which it cannot be done.
fn take(rule: &Rule, batch: &Batch, items: &[u32]) -> Vec<Rejection> {
    let mut rejected = Vec::new();
    let together = mapped(rule, batch.select(items)).or_else(|_| {
        // Some would have two fields of one name.
        let mut good = Vec::with_capacity(items.len());
        for index in items {
            match mapped(rule, batch.select(&[*index])) {
                Ok(_) => good.push(*index),
                Err(reason) => rejected.push(Rejection {
                    index: *index,
                    reason,
                }),
            }
        }
        mapped(rule, batch.select(&good))
    });
    match together {
        Ok(mapped) if mapped.len() == 0 => {}
        Ok(mapped) => stage(&mapped),
        Err(reason) => {
            rejected = items
                .iter()
                .map(|index| Rejection {
                    index: *index,
                    reason: reason.clone(),
                })
                .collect();
        }
    }
    rejected
}

fn mapped(rule: &Rule, mut batch: Batch) -> Result<Batch, String> {
    if let Some(keep) = &rule.keep {
        batch = batch.project(keep);
    }
    if !rule.remove.is_empty() {
        batch = batch.without(&rule.remove);
    }
    if !rule.rename.is_empty() {
        let names: Vec<_> = rule.rename.clone().into_iter().collect();
        batch = batch.rename(&names)?;
    }
    if let Some(stream) = &rule.stream {
        batch = batch.in_stream(stream)?;
    }
    Ok(batch)
}

fn stage(batch: &Batch) {
    pool::upsert(batch);
    renderers::publish(batch);
}

/// An item that is removed has no fields: which rule it met is not known. So it goes from wherever a rule may have put
/// it, and from its own stream.
impl Removals for FilterMap {
    fn remove(batch: Batch) -> Result<(), WriteError> {
        let settings = SETTINGS.get()?;
        let streams = batch.streams(ALL);
        let targets: BTreeSet<&String> = settings.targets().collect();
        pool::delete(&batch);
        for target in targets {
            let moved: Vec<u32> = (0..)
                .zip(&streams)
                .filter(|(_, stream)| settings.moves(stream, target))
                .map(|(index, _)| index)
                .collect();
            if !moved.is_empty() {
                let moved = batch.select(&moved).in_stream(target);
                pool::delete(&moved.map_err(WriteError::Reject)?);
            }
        }
        Ok(())
    }
}

headgate_sdk::export!(FilterMap with removals);

//! Writes items to a table in PostgreSQL.
//!
//! **Invariant**: items are acknowledged only after a commit that holds them, and no statement depends on having run
//! only once.

mod plan;

use std::collections::HashMap;

use headgate_sdk::halves::{self, Answer};
use headgate_sdk::postgres::{self, Error, Refusal, Statement};
use headgate_sdk::{ALL, Action, Batch, Opened, Operations, Rejection, Sink, WriteError, metrics};
use plan::Plan;

/// Transactions of one call. A batch of 1,000 items takes 21 to find one bad item.
const TRANSACTIONS_MAX: usize = 1_000;

/// Classes and codes of SQLSTATE that speak of the data: exceptions, constraints, a view's check, sizes, and what a
/// trigger raises.
const DATA: [&str; 5] = ["22", "23", "44", "54", "P0001"];

const NO_SUCH_TABLE: &str = "42P01";

static PLAN: Opened<Plan> = Opened::new();

struct Table;

impl Sink for Table {
    const CONFIG_SCHEMA: &'static str = include_str!("config.schema.json");

    fn open(config: &str) -> Result<(), String> {
        let settings = serde_json::from_str(config).map_err(|error| error.to_string())?;
        PLAN.set(Plan::new(settings)?);
        Ok(())
    }

    fn write(batch: Batch) -> Result<(), WriteError> {
        let plan = PLAN.get()?;
        let actions = batch.actions(ALL);
        if !actions.contains(&Action::Removal) {
            return by_halves(&batch, |batch| write(plan, batch));
        }
        let (removals, updates) = match &plan.remove {
            Some(statement) => {
                let (removals, updates) = in_two_steps(&batch, &actions);
                let removed = of_some(&batch, &removals, |batch| remove(statement, batch))?;
                (removed, updates)
            }
            None => (Vec::new(), indexes(&actions, Action::Update)),
        };
        let mut rejected = of_some(&batch, &updates, |batch| write(plan, batch))?;
        rejected.extend(removals);
        match rejected.is_empty() {
            true => Ok(()),
            false => Err(WriteError::RejectItems(rejected)),
        }
    }
}

impl Operations for Table {}

/// The items of which this is asked.
fn indexes(actions: &[Action], wanted: Action) -> Vec<u32> {
    let of = (0..).zip(actions).filter(|(_, action)| **action == wanted);
    of.map(|(index, _)| index).collect()
}

/// The removals, and the updates that none of them follows: one after the other, they leave what all items in their order
/// leave.
fn in_two_steps(batch: &Batch, actions: &[Action]) -> (Vec<u32>, Vec<u32>) {
    let (streams, keys) = (batch.streams(ALL), batch.keys(ALL));
    let key = |index: u32| (&streams[index as usize], &keys[index as usize]);
    let removals = indexes(actions, Action::Removal);
    let last: HashMap<_, u32> = removals.iter().map(|index| (key(*index), *index)).collect();
    let mut updates = indexes(actions, Action::Update);
    updates.retain(|index| last.get(&key(*index)).is_none_or(|removal| removal < index));
    (removals, updates)
}

/// Runs for some items; those that are rejected.
fn of_some(
    batch: &Batch,
    indexes: &[u32],
    run: impl Fn(&Batch) -> Result<Answer, WriteError>,
) -> Result<Vec<Rejection>, WriteError> {
    if indexes.is_empty() {
        return Ok(Vec::new());
    }
    match by_halves(&batch.select(indexes), run) {
        Ok(()) => Ok(Vec::new()),
        Err(WriteError::RejectItems(mut rejected)) => {
            for one in &mut rejected {
                one.index = indexes[one.index as usize];
            }
            Ok(rejected)
        }
        Err(error) => Err(error),
    }
}

fn by_halves(
    batch: &Batch,
    run: impl Fn(&Batch) -> Result<Answer, WriteError>,
) -> Result<(), WriteError> {
    let result = halves::write(batch.len(), TRANSACTIONS_MAX, |range| {
        match range.len() == batch.len() as usize {
            true => run(batch),
            false => run(&batch.select(&range.collect::<Vec<_>>())),
        }
    });
    if let Err(WriteError::RejectItems(rejected)) = &result {
        metrics::count("rejected", rejected.len() as u64);
    }
    result
}

fn remove(statement: &Statement, batch: &Batch) -> Result<Answer, WriteError> {
    match postgres::execute(batch, std::slice::from_ref(statement)) {
        // Then there is nothing to remove.
        Err(Error::Refused(refusal)) if refusal.code == NO_SUCH_TABLE => Ok(Answer::Taken),
        outcome => answer(outcome),
    }
}

fn write(plan: &Plan, batch: &Batch) -> Result<Answer, WriteError> {
    if let Some(field) = absent_key(plan, batch) {
        return Ok(Answer::Refused(format!(
            "the field {field}, which is in the table's key, is absent or null"
        )));
    }
    let statement = std::slice::from_ref(&plan.write);
    let mut outcome = postgres::execute(batch, statement);
    if let (Err(Error::Refused(refusal)), Some(create)) = (&outcome, &plan.create)
        && refusal.code == NO_SUCH_TABLE
    {
        match postgres::execute(batch, std::slice::from_ref(create)) {
            // Somebody else may be creating it, too.
            Ok(_) | Err(Error::Refused(Refusal { .. })) => {}
            Err(Error::Unavailable(reason)) => return Err(WriteError::retry(reason)),
        }
        outcome = postgres::execute(batch, statement);
    }
    answer(outcome)
}

/// What the server's answer means for the items.
fn answer(outcome: Result<Vec<u64>, Error>) -> Result<Answer, WriteError> {
    match outcome {
        Ok(changed) => {
            metrics::count("rows", changed.iter().sum());
            Ok(Answer::Taken)
        }
        Err(Error::Refused(Refusal { code, message })) => {
            let reason = format!("{message} (SQLSTATE {code})");
            if DATA.iter().any(|data| code.starts_with(data)) {
                Ok(Answer::Refused(reason))
            } else {
                Err(WriteError::retry(reason))
            }
        }
        Err(Error::Unavailable(reason)) => Err(WriteError::retry(reason)),
    }
}

/// A field of the key that an item lacks. Null equals nothing: such an item could never be updated.
fn absent_key<'a>(plan: &'a Plan, batch: &Batch) -> Option<&'a String> {
    plan.key_fields
        .iter()
        .find(|field| batch.texts(field, ALL).iter().any(Option::is_none))
}

headgate_sdk::export!(Table with operations);

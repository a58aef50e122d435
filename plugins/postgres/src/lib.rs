//! Writes items to a table in PostgreSQL.
//!
//! **Invariant**: items are acknowledged only after a commit that holds them, and no statement depends on having run
//! only once.

mod plan;

use headgate_sdk::halves::{self, Answer};
use headgate_sdk::postgres::{self, Error, Refusal, Statement};
use headgate_sdk::{ALL, Batch, Opened, Removals, Retry, Sink, WriteError, metrics};
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
        by_halves(&batch, |batch| write(plan, batch))
    }
}

impl Removals for Table {
    fn remove(batch: Batch) -> Result<(), WriteError> {
        match &PLAN.get()?.remove {
            Some(statement) => by_halves(&batch, |batch| remove(statement, batch)),
            None => Ok(()),
        }
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
            Err(Error::Unavailable(reason)) => return Err(later(reason)),
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
                Err(later(reason))
            }
        }
        Err(Error::Unavailable(reason)) => Err(later(reason)),
    }
}

/// A field of the key that an item lacks. Null equals nothing: such an item could never be updated.
fn absent_key<'a>(plan: &'a Plan, batch: &Batch) -> Option<&'a String> {
    plan.key_fields
        .iter()
        .find(|field| batch.texts(field, ALL).iter().any(Option::is_none))
}

fn later(reason: String) -> WriteError {
    WriteError::Retry(Retry {
        after_ms: None,
        reason,
    })
}

headgate_sdk::export!(Table with removals);

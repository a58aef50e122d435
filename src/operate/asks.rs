//! What an operator asks of a sink on a node that does not run it: the node that runs the sinks does it, and answers.
//!
//! The question goes through the database, where the other node looks four times a second. What that node does is in
//! the audit log with the name, the address and the request of who asked.
//!
//! **Invariant**: a question is done at most once. An error says whether nothing was done, or that nobody knows.

use std::sync::Arc;
use std::time::{Duration, Instant};

use journal::log::Client;
use pool::Selection;
use postgres::{AskState, Asks, DatabaseError};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use uuid::Uuid;

use super::{By, ExpiredItems, LettersSent, OperateError, Operator};
use delivery::{GivenUp, RefillError, Refilled};
use ingest::AgainError;

/// Who asked is told after this time that nobody has taken it. Then it is withdrawn, so that nothing is done after
/// the error.
const TAKEN_WITHIN: Duration = Duration::from_secs(8);
/// And after this one that there is no answer.
const ANSWERED_WITHIN: Duration = Duration::from_mins(5);
/// Between looks at what has become of it.
const LOOKS_EVERY: Duration = Duration::from_millis(50);
/// Until it is asked again what a node that has just taken the sinks over could not do yet, because its lanes begin a
/// moment after its claim.
const AGAIN_AFTER: Duration = Duration::from_millis(250);

/// What is to be done.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(super) enum Task {
    Retry,
    GiveUp(Option<i64>),
    Refill,
    SendLetters(Selection, bool),
    DiscardLetters(Selection),
    /// The sinks, to the node with this ID.
    HandOver(String),
    /// Items of a stream, by their keys.
    Expire(Arc<str>, Vec<String>),
}

#[derive(Debug, Serialize, Deserialize)]
struct Question {
    sink: String,
    task: Task,
    who: String,
    /// None: a Unix socket.
    address: Option<std::net::IpAddr>,
    request: String,
}

/// Why it was not done. The kinds are sent, so that the operator gets the same error as on the node that runs the
/// sinks.
#[derive(Debug, Serialize, Deserialize)]
enum Refusal {
    /// The node had no lanes any more, or not yet.
    Elsewhere,
    NoSink,
    NoLetter,
    NoLetterOfRequest,
    NoRetry,
    NothingToFill,
    NoState(String),
    Filling,
    Behind,
    Crashed,
    Failed(String),
}

impl From<OperateError> for Refusal {
    fn from(error: OperateError) -> Self {
        match error {
            OperateError::Elsewhere(_) => Self::Elsewhere,
            OperateError::NoSink => Self::NoSink,
            OperateError::NoLetter => Self::NoLetter,
            OperateError::NoLetterOfRequest => Self::NoLetterOfRequest,
            OperateError::NoRetry => Self::NoRetry,
            OperateError::NothingToFill => Self::NothingToFill,
            OperateError::NoState(why) => Self::NoState(why),
            OperateError::Refill(RefillError::Filling) => Self::Filling,
            OperateError::Again(AgainError::Behind) => Self::Behind,
            OperateError::Crashed => Self::Crashed,
            error => Self::Failed(error.to_string()),
        }
    }
}

impl Refusal {
    fn on(self, node: String) -> OperateError {
        match self {
            Self::Elsewhere => OperateError::Elsewhere(Some(node)),
            Self::NoSink => OperateError::NoSink,
            Self::NoLetter => OperateError::NoLetter,
            Self::NoLetterOfRequest => OperateError::NoLetterOfRequest,
            Self::NoRetry => OperateError::NoRetry,
            Self::NothingToFill => OperateError::NothingToFill,
            Self::NoState(why) => OperateError::NoState(why),
            Self::Filling => RefillError::Filling.into(),
            Self::Behind => AgainError::Behind.into(),
            Self::Crashed => OperateError::Crashed,
            Self::Failed(why) => OperateError::OnNode(node, why),
        }
    }
}

/// What an operator has asked for on another node, and this one has taken.
#[derive(Debug)]
pub struct TakenAsk {
    operator: Operator,
    asks: Asks,
    id: Uuid,
    question: Vec<u8>,
}

impl TakenAsk {
    /// A question that cannot be read is answered, too, so that a node of another version does not wait for it.
    pub async fn answer(self) {
        let answer: Result<Value, Refusal> = match serde_json::from_slice(&self.question) {
            Ok(question) => self.operator.perform(question).await,
            Err(_) => Err(Refusal::Failed("its version does not know this".to_owned())),
        };
        let answer = json!(answer).to_string();
        if let Err(error) = self.asks.answer(self.id, answer.as_bytes()).await {
            tracing::warn!(%error, "what was asked for on another node is done, and that cannot be answered");
        }
    }
}

impl Operator {
    /// Has the node that runs the sinks do this.
    pub(super) async fn ask<T: DeserializeOwned>(
        &self,
        sink: &str,
        task: Task,
        by: &By,
    ) -> Result<T, OperateError> {
        let Some(asks) = &self.asks else {
            return Err(self.no_lane(sink));
        };
        let question = json!(Question {
            sink: sink.to_owned(),
            task,
            who: by.who.to_string(),
            address: match by.client {
                Client::Address(address) => Some(address),
                Client::Unix | Client::Many => None,
            },
            request: by.request_id.to_string(),
        });
        let question = question.to_string();
        let until = Instant::now() + TAKEN_WITHIN;
        let (node, answer) = loop {
            let (node, answer) = self.ask_once(asks, &question, until).await?;
            match answer {
                Err(Refusal::Elsewhere) if Instant::now() < until => {
                    tokio::time::sleep(AGAIN_AFTER).await;
                }
                answer => break (node, answer),
            }
        };
        let done = answer.map_err(|refusal| refusal.on(node.clone()))?;
        // Another version may answer otherwise.
        serde_json::from_value(done).map_err(|_| OperateError::Unanswered(node))
    }

    /// Asks, and waits for the answer; with the node that gave it.
    async fn ask_once(
        &self,
        asks: &Asks,
        question: &str,
        until: Instant,
    ) -> Result<(String, Result<Value, Refusal>), OperateError> {
        let id = Uuid::now_v7();
        asks.ask(id, question.as_bytes()).await?;
        let end = Instant::now() + ANSWERED_WITHIN;
        let mut taker = None;
        loop {
            tokio::time::sleep(LOOKS_EVERY).await;
            // Nobody knows what becomes of a question that was taken and is not to be seen any more.
            let state = match (asks.state(id).await, &taker) {
                (Err(_), Some(_)) if Instant::now() < end => continue,
                (Err(error), None) => return Err(error.into()),
                (state, _) => state.unwrap_or(AskState::Gone),
            };
            match (state, taker.take()) {
                (AskState::Waits, _) => {
                    if Instant::now() >= until && asks.withdraw(id).await? {
                        return Err(self.elsewhere());
                    }
                }
                (AskState::Taken(node), _) if Instant::now() < end && self.is_live(&node) => {
                    taker = Some(node);
                }
                (AskState::Taken(node), _) | (AskState::Gone, Some(node)) => {
                    return Err(OperateError::Unanswered(node));
                }
                (AskState::Gone, None) => return Err(self.elsewhere()),
                (AskState::Answered(answer), node) => {
                    let _ = asks.delete(id).await;
                    let node = node.unwrap_or_else(|| self.sinks_owner().unwrap_or_default());
                    let answer = serde_json::from_slice(&answer);
                    return match answer {
                        Ok(answer) => Ok((node, answer)),
                        Err(_) => Err(OperateError::Unanswered(node)),
                    };
                }
            }
        }
    }

    /// Takes what an operator has asked for on another node, if this one runs the sinks. The daemon of a cluster calls
    /// it four times a second.
    ///
    /// # Errors
    /// The database's.
    pub async fn take_ask(&self) -> Result<Option<TakenAsk>, DatabaseError> {
        let asks = self.asks.as_ref().filter(|_| self.runs_sinks());
        let Some(asks) = asks else { return Ok(None) };
        let taken = asks.take(&self.about.node, TAKEN_WITHIN).await?;
        Ok(taken.map(|(id, question)| TakenAsk {
            operator: self.clone(),
            asks: asks.clone(),
            id,
            question,
        }))
    }

    /// Whether the sink runs here is checked again, because it may have moved since the question was taken. Otherwise
    /// the call would be sent to another node.
    async fn perform(&self, question: Question) -> Result<Value, Refusal> {
        let Question {
            sink,
            task,
            who,
            address,
            request,
        } = question;
        if self.is_elsewhere(&sink) {
            return Err(self.no_lane(&sink).into());
        }
        let by = By {
            who: Arc::from(who),
            client: address.map_or(Client::Unix, Client::Address),
            request_id: Uuid::parse_str(&request).unwrap_or_default(),
        };
        Ok(match task {
            Task::Retry => json!(self.retry(&sink, by).await?),
            Task::GiveUp(id) => {
                let GivenUp { retries, items } = self.give_up(&sink, id, by).await?;
                json!((retries, items))
            }
            Task::Refill => {
                let Refilled { number, items } = self.refill_sink(&sink, by).await?;
                json!((number, items))
            }
            Task::SendLetters(letters, overwrite) => {
                let sent = self.send_letters_again(&sink, letters, overwrite, by);
                let LettersSent {
                    sent,
                    skipped,
                    left,
                } = sent.await?;
                json!((sent, skipped, left))
            }
            Task::HandOver(node) => {
                if let (Some(cluster), Ok(node)) = (&self.cluster, Uuid::parse_str(&node)) {
                    cluster.hand_over.give_to(node).await;
                }
                Value::Null
            }
            Task::Expire(stream, keys) => {
                let expired = self.expire_items(&stream, &keys, by).await;
                let ExpiredItems { items, are_gone } =
                    expired.map_err(|error| Refusal::Failed(error.to_string()))?;
                json!((items, are_gone))
            }
            Task::DiscardLetters(letters) => {
                json!(self.discard_letters(&sink, letters, by).await?)
            }
        })
    }

    pub(super) fn elsewhere(&self) -> OperateError {
        OperateError::Elsewhere(self.sinks_owner())
    }

    /// Whether a node of this name lives. Nobody waits for the answer of one that does not.
    fn is_live(&self, name: &str) -> bool {
        let Some(cluster) = &self.cluster else {
            return false;
        };
        let nodes = cluster.read().nodes;
        nodes.iter().any(|node| node.is_live && node.name == name)
    }
}

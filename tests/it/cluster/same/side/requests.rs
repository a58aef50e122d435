//! The requests of a history: sent until they are answered otherwise than 503.
//!
//! **Invariant**: a request that is known has the ID of the first one, on any node.

use serde_json::Value;

use super::super::history::{Act, KEYS, Op, STREAMS, delivered};
use super::{SIGNED, Side};
use crate::cluster::repeats::signed_as;
use crate::process::{Answer, BY_ID, JSON};
use crate::wait::eventually;

/// What signed deliveries are signed with.
pub(in crate::cluster::same) const SECRET: &str = "a-secret-of-histories-0123456789";

/// A request as it is sent.
struct Sending {
    method: &'static str,
    path: String,
    secret: String,
    headers: String,
    body: String,
}

impl Side {
    /// Sends what `of` asks for, under the idempotency key of that.
    pub(super) fn request(&mut self, node: usize, number: usize, of: &Op, is_other: bool) -> Value {
        let Some(Sending {
            method,
            path,
            secret,
            headers,
            body,
        }) = self.sending(of, is_other)
        else {
            return Value::Null;
        };
        // Of an item that comes and goes in one batch, the pool may not know later that it was removed: whether an older
        // dead letter is sent again would depend on the batches.
        if of.act.removes() {
            self.wait_for_sinks();
        }
        let answer = self.asked(node, method, &path, &secret, &headers, &body);
        if answer.status == 202 {
            let id = answer.request_id();
            let is_known = self.accepted.values().any(|(known, _)| *known == id);
            let first = self.accepted.get(&of.number);
            if let Some((first, _)) = first.filter(|(_, with)| *with == secret) {
                assert_eq!(*first, id, "{number}: a repeat is no request, on any node");
            }
            if !is_known {
                self.accepted.insert(number, (id, secret));
            }
        }
        let mut said: Value = serde_json::from_str(&answer.body).unwrap_or_default();
        said["status"] = answer.status.into();
        said["replayed"] = answer.header("idempotent-replayed").into();
        said
    }

    /// Calls the service until it is no 503.
    pub(super) fn asked(
        &self,
        node: usize,
        method: &str,
        path: &str,
        secret: &str,
        headers: &str,
        body: &str,
    ) -> Answer {
        eventually("a node answers", || {
            let answer = self.nodes[node].ask(method, path, secret, headers, body);
            (answer.status != 503).then_some(answer)
        })
    }

    /// What an operation sends; none: it sends nothing.
    fn sending(&self, of: &Op, is_other: bool) -> Option<Sending> {
        let once = format!("Idempotency-Key: {}{}\r\n", self.prefix, of.number);
        let sending = match &of.act {
            Act::Send { stream, .. } => Sending {
                method: "POST",
                path: "/api/ingest".to_owned(),
                secret: self.keys[*stream].1.clone(),
                headers: format!("{JSON}{BY_ID}{once}"),
                body: of.act.body(of.number, &self.prefix, is_other)?,
            },
            Act::Remove { stream, key } => Sending {
                method: "DELETE",
                path: format!(
                    "/api/streams/{}/items/{}{}",
                    STREAMS[*stream], self.prefix, KEYS[*key]
                ),
                secret: self.keys[*stream].1.clone(),
                headers: once,
                body: String::new(),
            },
            Act::Deliver { stream, id, body } => {
                let body = delivered(*stream, body + usize::from(is_other), &self.prefix);
                Sending {
                    method: "POST",
                    path: format!("/api/webhook/{}/{SIGNED}", STREAMS[*stream]),
                    secret: String::new(),
                    headers: signed_as(SECRET, &format!("{}d{id}", self.prefix), &body),
                    body,
                }
            }
            _ => return None,
        };
        Some(sending)
    }
}

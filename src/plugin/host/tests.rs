//! Calls of a hostile guest, any number in any order, made to the host without one.

use std::ops::ControlFlow;

use proptest::collection::vec;
use proptest::prelude::*;
use uuid::Uuid;

use super::bindings::headgate::sink::{batches, pool, renderers, state};
use super::*;
use crate::GuestLog;
use ::pool::Effect;
use base::clock::Unix;
use base::order::Seq;
use item::ItemsWriter;
use item::batch::{Entry, Slice};
use observe::metrics::Metrics;
use settings::{Listed, Secret, Sink};

/// Small, so that a few calls reach it.
const MEMORY_BYTES: usize = 32 << 10;

/// A call with its arguments; batches are chosen among those that the guest holds.
#[derive(Debug, Clone)]
enum Call {
    Select(usize, Vec<u32>),
    Project(usize, Vec<String>),
    Without(usize, Vec<String>),
    Rename(usize, Vec<(String, String)>),
    Move(usize, String),
    Drop(usize),
    Read(usize, Span, String),
    Upsert(usize),
    Delete(usize),
    Publish(usize),
    Carry(usize, Span),
    Taken(u32),
    Refuse(Span, String),
    Set(String, Vec<u8>),
    Unset(String),
    Get(String),
    Say(String, u64, f64),
}

fn name() -> impl Strategy<Value = String> {
    let known = ["id", "n", "a.b", "", "orders", "v-2", "raw"].map(str::to_owned);
    prop_oneof![4 => proptest::sample::select(known.to_vec()), 1 => ".{0,200}"]
}

fn number() -> impl Strategy<Value = u32> {
    prop_oneof![9 => 0..6_u32, 1 => any::<u32>()]
}

fn span() -> impl Strategy<Value = Span> {
    (number(), number()).prop_map(|(start, count)| Span { start, count })
}

fn call() -> impl Strategy<Value = Call> {
    let at = 0..usize::MAX;
    prop_oneof![
        3 => (at.clone(), vec(0..5_u32, 0..40)).prop_map(|(at, all)| Call::Select(at, all)),
        1 => (at.clone(), vec(number(), 0..4)).prop_map(|(at, all)| Call::Select(at, all)),
        2 => (at.clone(), vec(name(), 0..4)).prop_map(|(at, all)| Call::Project(at, all)),
        2 => (at.clone(), vec(name(), 0..4)).prop_map(|(at, all)| Call::Without(at, all)),
        2 => (at.clone(), vec((name(), name()), 0..3)).prop_map(|(at, all)| Call::Rename(at, all)),
        3 => (at.clone(), name()).prop_map(|(at, name)| Call::Move(at, name)),
        1 => at.clone().prop_map(Call::Drop),
        3 => (at.clone(), span(), name()).prop_map(|(at, span, name)| Call::Read(at, span, name)),
        3 => at.clone().prop_map(Call::Upsert),
        2 => at.clone().prop_map(Call::Delete),
        2 => at.clone().prop_map(Call::Publish),
        1 => (at, span()).prop_map(|(at, span)| Call::Carry(at, span)),
        1 => number().prop_map(Call::Taken),
        1 => (span(), ".{0,40}").prop_map(|(span, why)| Call::Refuse(span, why)),
        1 => (name(), vec(any::<u8>(), 0..300)).prop_map(|(key, value)| Call::Set(key, value)),
        1 => name().prop_map(Call::Unset),
        1 => name().prop_map(Call::Get),
        1 => (name(), any::<u64>(), any::<f64>()).prop_map(|(text, by, to)| Call::Say(text, by, to)),
    ]
}

/// Two items for each stream, with the fields that names are about.
fn lent() -> Batch {
    let slices = ["orders", "v-1", "raw"].into_iter().zip(1..);
    let slices = slices.map(|(stream, seq)| {
        let mut items = ItemsWriter::new(1 << 10, 0);
        for key in ["a", "b"] {
            let fields = format!(r#"{{"id":"{key}","n":{seq},"a.b":[1]}}"#);
            items.push(key, &fields).expect("there is room");
        }
        Slice::whole(Arc::new(Entry {
            seq: Seq::new(seq),
            request_id: Uuid::from_u128(u128::from(seq)),
            stream: stream.into(),
            received_at: Unix::from_ms(1_000),
            arrived: None,
            items: items.into_items(),
        }))
    });
    Batch::new(slices.collect(), 1)
}

/// A guest, as far as the host knows one.
struct Guest {
    host: Host,
    /// The batches that it holds.
    handles: Vec<u32>,
}

impl Guest {
    fn of(sink: &Sink, metrics: &Arc<Metrics>) -> Self {
        let context = SinkContext::new(sink, None, metrics, &GuestLog::new(&sink.name));
        let grants = Grants {
            writes: Arc::new(sink.writes()),
            ..Grants::default()
        };
        let mut host = Host::new("any".into(), &context, &grants, MEMORY_BYTES);
        let batch = lent();
        host.begin(Some(&batch));
        let handle = host.lend(batch).expect("it is the first");
        Self {
            host,
            handles: vec![handle.rep()],
        }
    }

    fn batch(&self, at: usize) -> Resource<Batch> {
        Resource::new_borrow(self.handles[at % self.handles.len()])
    }

    fn keep(&mut self, made: Resource<Batch>) {
        self.handles.push(made.rep());
    }

    /// An error is a trap: the instance is never called again.
    fn make(&mut self, call: Call) -> wasmtime::Result<ControlFlow<()>> {
        use batches::HostBatch as _;
        match call {
            Call::Select(at, indexes) => {
                let made = self.host.select(self.batch(at), indexes)?;
                self.keep(made);
            }
            Call::Project(at, names) => {
                let made = self.host.project(self.batch(at), names)?;
                self.keep(made);
            }
            Call::Without(at, names) => {
                let made = self.host.without(self.batch(at), names)?;
                self.keep(made);
            }
            Call::Rename(at, names) => match self.host.rename(self.batch(at), names)? {
                Ok(made) => self.keep(made),
                Err(why) => assert!(!why.is_empty()),
            },
            Call::Move(at, name) => match self.host.in_stream(self.batch(at), name)? {
                Ok(made) => self.keep(made),
                Err(why) => assert!(!why.is_empty()),
            },
            Call::Drop(at) => {
                let handle = self.handles.swap_remove(at % self.handles.len());
                batches::HostBatch::drop(&mut self.host, Resource::new_own(handle))?;
                assert!(self.host.len(Resource::new_borrow(handle)).is_err());
                if self.handles.is_empty() {
                    return Ok(ControlFlow::Break(()));
                }
            }
            Call::Read(at, span, name) => self.read(at, span, name)?,
            Call::Upsert(at) => {
                let batch = self.batch(at);
                pool::Host::upsert(&mut self.host, batch)?;
            }
            Call::Delete(at) => {
                let batch = self.batch(at);
                pool::Host::delete(&mut self.host, batch)?;
            }
            Call::Publish(at) => {
                let batch = self.batch(at);
                renderers::Host::publish(&mut self.host, batch)?;
            }
            Call::Carry(at, span) => {
                let batch = self.batch(at);
                delivery::Host::carries(&mut self.host, batch, span)?;
            }
            Call::Taken(count) => delivery::Host::taken(&mut self.host, count)?,
            Call::Refuse(span, why) => delivery::Host::refused(&mut self.host, span, why)?,
            Call::Set(key, value) => {
                state::Host::set(&mut self.host, key.clone(), value.clone())?;
                assert_eq!(state::Host::get(&mut self.host, key)?, Some(value));
            }
            Call::Unset(key) => {
                state::Host::delete(&mut self.host, key.clone())?;
                assert_eq!(state::Host::get(&mut self.host, key)?, None);
            }
            Call::Get(name) => {
                state::Host::get(&mut self.host, name.clone())?;
                let secret = secrets::Host::get(&mut self.host, name.clone())?;
                assert_eq!(secret.is_some(), name == "id", "{name}");
            }
            Call::Say(text, by, to) => {
                logging::Host::log(&mut self.host, logging::Level::Info, text.clone())?;
                metrics::Host::count(&mut self.host, text.clone(), by)?;
                metrics::Host::gauge(&mut self.host, text, to)?;
            }
        }
        Ok(ControlFlow::Continue(()))
    }

    /// Every column and form of a range has as many entries as the range has items.
    fn read(&mut self, at: usize, span: Span, name: String) -> wasmtime::Result<()> {
        use batches::HostBatch as _;
        let len = self.host.len(self.batch(at))?;
        let count = len.saturating_sub(span.start).min(span.count) as usize;
        let host = &mut self.host;
        let handle = self.handles[at % self.handles.len()];
        let batch = || Resource::new_borrow(handle);
        assert_eq!(host.keys(batch(), span)?.len(), count);
        assert_eq!(host.streams(batch(), span)?.len(), count);
        assert_eq!(host.times(batch(), span)?.len(), count);
        assert_eq!(host.texts(batch(), name.clone(), span)?.len(), count);
        assert_eq!(host.numbers(batch(), name.clone(), span)?.len(), count);
        let lines = host.json(batch(), span, batches::Form::ItemLines)?;
        assert_eq!(lines.lines().count(), count);
        let known = host.field_names(batch())?.contains(&name);
        let value = host.field(batch(), span.start, name)?;
        assert!(known || value.is_none());
        Ok(())
    }

    /// What holds while the instance lives.
    fn check(&self) {
        let host = &self.host;
        assert_eq!(host.lent(), self.handles.len());
        assert!(host.held_bytes <= MEMORY_BYTES);
        let effects = host.staged.effects.iter().map(|effect| match effect {
            Effect::Upsert(batch) | Effect::Delete(batch) | Effect::Apply(batch) => batch,
        });
        let staged: Vec<&Batch> = effects.chain(&host.staged.publishes).collect();
        for batch in &staged {
            if !host.writes.given() || batch.is_moved() {
                let mut streams = batch.slices().iter().map(|slice| &slice.entry.stream);
                assert!(streams.all(|stream| host.writes.lists(stream) != Listed::No));
            }
        }
        let items: usize = staged.iter().map(|batch| batch.len() as usize).sum();
        assert_eq!(host.staged_items, items);
        let keys = host
            .staged
            .state
            .iter()
            .filter(|(_, value)| value.is_some());
        let mut keys = keys.map(|(key, _)| key.len());
        assert!(keys.all(|bytes| (1..=512).contains(&bytes)));
    }
}

#[test]
fn no_calls_get_more_than_was_granted() {
    let metrics = Arc::new(Metrics::new());
    let listed = |names: &[&str]| Some(names.iter().map(|name| (*name).to_owned()).collect());
    let sinks = [
        ("pool", None),
        ("any.wasm", None),
        ("any.wasm", listed(&["orders", "v-*"])),
    ];
    let sinks = sinks.map(|(plugin, writes)| Sink {
        name: "s".to_owned(),
        plugin: plugin.to_owned(),
        writes,
        secrets: [("id".to_owned(), Secret::new("a secret"))].into(),
        ..Sink::default()
    });
    proptest!(|(sink in 0..3_usize, calls in vec(call(), 0..60))| {
        let mut guest = Guest::of(&sinks[sink], &metrics);
        for call in calls {
            match guest.make(call) {
                Ok(ControlFlow::Continue(())) => guest.check(),
                Ok(ControlFlow::Break(())) => break,
                Err(trap) => {
                    prop_assert!(!guest.host.describe(&trap).is_empty());
                    break;
                }
            }
        }
    });
}

//! The batches of a guest, and those that it derives from them.
//!
//! **Invariant**: derived batches count toward the limit of this call, which is checked before they are made.

use wasmtime::component::Resource;

use super::Host;
use super::bindings::headgate::sink::batches;
use base::clock::Unix;
use base::order::{ItemPosition, Seq};
use item::batch::{self, Action, Batch, DeriveError, MadeError};

impl batches::Host for Host {
    /// Items are made of a batch only, because they belong to its request.
    fn make(
        &mut self,
        stream: String,
        lines: String,
    ) -> wasmtime::Result<Result<Resource<Batch>, String>> {
        self.require_makes(&stream)?;
        let Some(given) = self.given.clone() else {
            return Ok(Err("items can be made in `write` only".to_owned()));
        };
        self.charge()?;
        let made = match given.make(&stream, &lines, self.room()) {
            Ok(made) => made,
            Err(MadeError::Full(_)) => return Err(self.too_much_held()),
            Err(error) => return Ok(Err(error.to_string())),
        };
        self.hold(made.own_bytes())?;
        Ok(Ok(self.lend(made)?))
    }
}

impl batches::HostBatch for Host {
    fn id(&mut self, batch: Resource<Batch>) -> wasmtime::Result<String> {
        Ok(self.table.get(&batch)?.id())
    }

    fn attempt(&mut self, batch: Resource<Batch>) -> wasmtime::Result<u32> {
        Ok(self.table.get(&batch)?.attempt())
    }

    fn len(&mut self, batch: Resource<Batch>) -> wasmtime::Result<u32> {
        Ok(self.table.get(&batch)?.len())
    }

    fn keys(
        &mut self,
        batch: Resource<Batch>,
        range: batches::Span,
    ) -> wasmtime::Result<Vec<String>> {
        Ok(self.table.get(&batch)?.keys(range.into()))
    }

    fn streams(
        &mut self,
        batch: Resource<Batch>,
        range: batches::Span,
    ) -> wasmtime::Result<Vec<String>> {
        Ok(self.table.get(&batch)?.streams(range.into()))
    }

    fn times(
        &mut self,
        batch: Resource<Batch>,
        range: batches::Span,
    ) -> wasmtime::Result<Vec<u64>> {
        let times = self.table.get(&batch)?.times(range.into()).into_iter();
        Ok(times.map(Unix::ms).collect())
    }

    fn actions(
        &mut self,
        batch: Resource<Batch>,
        range: batches::Span,
    ) -> wasmtime::Result<Vec<batches::Action>> {
        let actions = self.table.get(&batch)?.actions(range.into()).into_iter();
        let said = |action| match action {
            Action::Upsert => batches::Action::Update,
            Action::Remove => batches::Action::Removal,
        };
        Ok(actions.map(said).collect())
    }

    fn versions(
        &mut self,
        batch: Resource<Batch>,
        range: batches::Span,
    ) -> wasmtime::Result<Vec<Option<String>>> {
        Ok(self.table.get(&batch)?.versions(range.into()))
    }

    fn places(
        &mut self,
        batch: Resource<Batch>,
        range: batches::Span,
    ) -> wasmtime::Result<Vec<batches::Place>> {
        let places = self.table.get(&batch)?.places(range.into()).into_iter();
        let place = |(entry, position): (Seq, ItemPosition)| batches::Place {
            entry: entry.get(),
            position: position.get(),
        };
        Ok(places.map(place).collect())
    }

    fn field_names(&mut self, batch: Resource<Batch>) -> wasmtime::Result<Vec<String>> {
        Ok(self.table.get(&batch)?.field_names())
    }

    fn field(
        &mut self,
        batch: Resource<Batch>,
        index: u32,
        name: String,
    ) -> wasmtime::Result<Option<String>> {
        Ok(self.table.get(&batch)?.field(index, &name))
    }

    fn texts(
        &mut self,
        batch: Resource<Batch>,
        name: String,
        range: batches::Span,
    ) -> wasmtime::Result<Vec<Option<String>>> {
        Ok(self.table.get(&batch)?.texts(&name, range.into()))
    }

    fn numbers(
        &mut self,
        batch: Resource<Batch>,
        name: String,
        range: batches::Span,
    ) -> wasmtime::Result<Vec<f64>> {
        Ok(self.table.get(&batch)?.numbers(&name, range.into()))
    }

    fn json(
        &mut self,
        batch: Resource<Batch>,
        range: batches::Span,
        form: batches::Form,
    ) -> wasmtime::Result<String> {
        Ok(self.table.get(&batch)?.json(range.into(), form.into()))
    }

    fn select(
        &mut self,
        batch: Resource<Batch>,
        indexes: Vec<u32>,
    ) -> wasmtime::Result<Resource<Batch>> {
        let derived = self.table.get(&batch)?.select(&indexes, self.room());
        self.lend_derived(derived)
    }

    fn project(
        &mut self,
        batch: Resource<Batch>,
        names: Vec<String>,
    ) -> wasmtime::Result<Resource<Batch>> {
        let derived = self.table.get(&batch)?.project(&names, self.room());
        self.lend_derived(derived)
    }

    fn without(
        &mut self,
        batch: Resource<Batch>,
        names: Vec<String>,
    ) -> wasmtime::Result<Resource<Batch>> {
        let derived = self.table.get(&batch)?.without(&names, self.room());
        self.lend_derived(derived)
    }

    fn rename(
        &mut self,
        batch: Resource<Batch>,
        names: Vec<(String, String)>,
    ) -> wasmtime::Result<Result<Resource<Batch>, String>> {
        match self.table.get(&batch)?.rename(&names, self.room()) {
            Err(error @ DeriveError::Twice(_)) => Ok(Err(error.to_string())),
            derived => Ok(Ok(self.lend_derived(derived)?)),
        }
    }

    fn in_stream(
        &mut self,
        batch: Resource<Batch>,
        name: String,
    ) -> wasmtime::Result<Result<Resource<Batch>, String>> {
        match self.table.get(&batch)?.in_stream(&name, self.room()) {
            Err(error @ DeriveError::StreamName) => Ok(Err(error.to_string())),
            derived => Ok(Ok(self.lend_derived(derived)?)),
        }
    }

    fn drop(&mut self, batch: Resource<Batch>) -> wasmtime::Result<()> {
        self.table.delete(batch)?;
        self.lent = self.lent.saturating_sub(1);
        Ok(())
    }
}

impl Host {
    /// Makes a handle of a derived batch.
    fn lend_derived(
        &mut self,
        derived: Result<Batch, DeriveError>,
    ) -> wasmtime::Result<Resource<Batch>> {
        let batch = derived.map_err(|error| match error {
            DeriveError::TooLarge(room) if room == self.room() => self.too_much_held(),
            error => error.into(),
        })?;
        self.hold(batch.own_bytes())?;
        self.lend(batch)
    }
}

impl From<batches::Span> for batch::Span {
    fn from(span: batches::Span) -> Self {
        Self {
            start: span.start,
            count: span.count,
        }
    }
}

impl From<batches::Form> for batch::Form {
    fn from(form: batches::Form) -> Self {
        match form {
            batches::Form::FieldLines => Self::FieldLines,
            batches::Form::FieldArray => Self::FieldArray,
            batches::Form::ItemLines => Self::ItemLines,
            batches::Form::ItemArray => Self::ItemArray,
        }
    }
}

//! Templates and conditions that a guest parses and fills.
//!
//! **Invariant**: values are escaped here, for the place that the guest named when it parsed the template. Templates
//! that were parsed before the first batch are a part of every `Idempotency-Key`.

use wasmtime::Trap;
use wasmtime::component::Resource;

use super::Host;
use super::bindings::headgate::sink::batches::Span;
use super::bindings::headgate::sink::templates::{self, Place, Subject};
use base::clock;
use item::batch::{Batch, Slice};
use item::flatten::{FlattenLimits, flatten};
use item::{ItemRef, members, string_into};
use select::{Record, Scope, SyntaxError, Template, TemplatePlace, Where};

/// Maximum bytes of a flattened response for conditions.
const ANSWER_BYTES_MAX: usize = 4 << 20;
/// The name of `_key` as a field.
const KEY: &str = "\"_key\"";

/// A template, and its values.
#[derive(Debug)]
#[expect(unreachable_pub, reason = "the bindings re-export it")]
pub struct GuestTemplate {
    template: Template,
    subject: Subject,
}

impl GuestTemplate {
    fn read(
        setting: &str,
        text: &str,
        place: Place,
        subject: Subject,
    ) -> Result<Self, SyntaxError> {
        let scope = match place {
            Place::FileName => Scope::FILE_NAME,
            _ => scope_of(subject),
        };
        let of_text = |place| Template::parse(setting, text, place, scope);
        let template = match place {
            Place::Url => of_text(TemplatePlace::Url),
            Place::Header => of_text(TemplatePlace::Header),
            Place::Plain => of_text(TemplatePlace::Plain),
            Place::FileName => of_text(TemplatePlace::FileName),
            Place::Topic => of_text(TemplatePlace::Topic),
            Place::Form => of_text(TemplatePlace::Form),
            Place::Xml => of_text(TemplatePlace::Xml),
            Place::Json => Template::parse_json(setting, text, scope),
            Place::JsonText => Template::parse_json_text(setting, text, scope),
        }?;
        Ok(Self { template, subject })
    }

    fn fill(&self, batch: &Batch, span: item::batch::Span) -> Result<String, String> {
        let filled = match self.subject {
            Subject::Item | Subject::Removal => {
                let first = batch.range(span).next();
                let (slice, _, item) = first.ok_or("there is no such item")?;
                let received_at = clock::rfc3339(slice.entry.received_at);
                let request_id = slice.entry.request_id.to_string();
                self.template.fill(&Record {
                    key: item.key,
                    stream: &slice.entry.stream,
                    updated_at: &received_at,
                    received_at: &received_at,
                    request_id: &request_id,
                    fields: item.fields,
                    ..Record::default()
                })
            }
            Subject::Batch => {
                let (items, count) = together(batch.range(span).map(|(_, _, item)| item));
                self.template.fill(&Record {
                    stream: one_stream(batch.range(span).map(|(slice, ..)| slice)),
                    items: &items,
                    count,
                    ..Record::default()
                })
            }
        };
        filled.map_err(|why| why.to_string())
    }
}

/// The values of a template.
fn scope_of(subject: Subject) -> Scope {
    match subject {
        Subject::Item => Scope::TEMPLATE,
        Subject::Removal => Scope::REMOVAL,
        Subject::Batch => Scope::BATCH,
    }
}

/// Items as a JSON array, each with its key, and their number. A field that is called `_key` is left out, because the
/// object would have the name twice.
fn together<'a>(items: impl Iterator<Item = ItemRef<'a>>) -> (String, usize) {
    let (mut all, mut count) = (String::from("["), 0);
    for item in items {
        if count > 0 {
            all.push(',');
        }
        count += 1;
        all.push_str("{\"_key\":");
        string_into(item.key, &mut all);
        for (name, value) in members(item.fields).filter(|(name, _)| *name != KEY) {
            all.extend([",", name, ":", value]);
        }
        all.push('}');
    }
    all.push(']');
    (all, count)
}

/// The stream of all items, if it is the same. With several, none is right.
fn one_stream<'a>(mut slices: impl Iterator<Item = &'a Slice>) -> &'a str {
    let first = slices.next().map_or("", |slice| &slice.entry.stream);
    match slices.all(|slice| &*slice.entry.stream == first) {
        true => first,
        false => "",
    }
}

impl Host {
    /// The time of a host function counts as the guest's time, because a guest could have the host compute for it
    /// without an end.
    pub(super) fn charge(&mut self) -> wasmtime::Result<()> {
        match self.meter.charge() {
            true => Ok(()),
            false => Err(Trap::Interrupt.into()),
        }
    }
}

impl templates::Host for Host {}

impl templates::HostTemplate for Host {
    fn parse(
        &mut self,
        setting: String,
        text: String,
        place: Place,
        of: Subject,
    ) -> wasmtime::Result<Result<Resource<GuestTemplate>, String>> {
        self.charge()?;
        let read = match GuestTemplate::read(&setting, &text, place, of) {
            Ok(read) => read,
            Err(error) => return Ok(Err(error.to_string())),
        };
        // A URL or header without values is as it was before there were templates.
        let is_plain = matches!(place, Place::Url | Place::Header) && !read.template.has_values();
        if !is_plain {
            let text = format!("{setting}\0{place:?}\0{of:?}\0{}\0", read.template);
            self.calls.shape(&text);
        }
        Ok(Ok(self.table.push(read)?))
    }

    fn parse_line(
        &mut self,
        setting: String,
        text: String,
        end: String,
        of: Subject,
    ) -> wasmtime::Result<Result<Resource<GuestTemplate>, String>> {
        self.charge()?;
        let place = TemplatePlace::Line { end };
        match Template::parse(&setting, &text, place, scope_of(of)) {
            Ok(template) => Ok(Ok(self.table.push(GuestTemplate {
                template,
                subject: of,
            })?)),
            Err(error) => Ok(Err(error.to_string())),
        }
    }

    fn has_values(&mut self, template: Resource<GuestTemplate>) -> wasmtime::Result<bool> {
        Ok(self.table.get(&template)?.template.has_values())
    }

    fn is_escaped(&mut self, template: Resource<GuestTemplate>) -> wasmtime::Result<bool> {
        Ok(self.table.get(&template)?.template.is_escaped())
    }

    fn fill(
        &mut self,
        template: Resource<GuestTemplate>,
        batch: Resource<Batch>,
        range: Span,
    ) -> wasmtime::Result<Result<String, String>> {
        self.charge()?;
        let batch = self.table.get(&batch)?;
        Ok(self.table.get(&template)?.fill(batch, range.into()))
    }

    fn drop(&mut self, template: Resource<GuestTemplate>) -> wasmtime::Result<()> {
        self.table.delete(template)?;
        Ok(())
    }
}

impl templates::HostConditions for Host {
    fn parse(
        &mut self,
        setting: String,
        text: String,
    ) -> wasmtime::Result<Result<Resource<Where>, String>> {
        self.charge()?;
        Ok(match Where::parse(&text, Scope::ANSWER) {
            Ok(conditions) => Ok(self.table.push(conditions)?),
            Err(error) => Err(error.of(setting).to_string()),
        })
    }

    fn hold(&mut self, conditions: Resource<Where>, json: String) -> wasmtime::Result<bool> {
        self.charge()?;
        let conditions = self.table.get(&conditions)?;
        let limits = FlattenLimits {
            flattened_bytes_max: ANSWER_BYTES_MAX,
            item_bytes_max: ANSWER_BYTES_MAX,
        };
        if !json.trim_start().starts_with('{') {
            return Ok(false);
        }
        let answer = flatten(json.as_bytes(), None, limits);
        Ok(answer.is_ok_and(|answer| {
            let mut items = answer.iter_from(0);
            items.next().is_some_and(|item| {
                conditions.holds(&Record {
                    fields: item.fields,
                    ..Record::default()
                })
            })
        }))
    }

    fn drop(&mut self, conditions: Resource<Where>) -> wasmtime::Result<()> {
        self.table.delete(conditions)?;
        Ok(())
    }
}

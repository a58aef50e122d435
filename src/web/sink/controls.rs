//! The controls of a sink's form, and the texts next to them.
//!
//! **Invariant**: only grants that were typed or checked are given. A secret is never shown again.

use maud::{Markup, html};
use serde_json::{Map, Value};

use super::rows::{Asked, Control, Follows, row};
use super::schema_form::{CONFIG, SchemaForm, Wrong};
use super::section::{HOSTS, LATEST, PATTERNS, STREAMS_MAX, SectionForm, words};
use super::tried;
use crate::form::{Field, Typed};
use crate::form_data::FormData;
use crate::frame::NoPage;
use crate::text::{as_sentence, grouped, plain, text};
use catalog::CatalogError;
use delivery::Tried;
use operate::{OperateError, Operator, UsedPlugin, host_of, is_called};
use settings::{BodyFault, Shape};

/// Maximum characters of a line.
const LINE_CHARS_MAX: usize = 4_096;
/// Minimum rows for names with secrets; one row is always empty.
const SECRET_ROWS: usize = 3;

/// The form of a sink while a request is handled.
pub(super) struct SinkForm<'a> {
    pub(super) operator: &'a Operator,
    pub(super) plugin: &'a UsedPlugin,
    /// The schema of the plugin's settings, with its references resolved.
    pub(super) schema: &'a Value,
    pub(super) asked: Asked,
    /// The current section of the sink that is changed.
    pub(super) kept: Option<&'a Map<String, Value>>,
    pub(super) data: FormData,
    pub(super) wrong: Wrong,
    pub(super) tried: Option<Tried>,
    /// Guarantees that the sink does not have.
    pub(super) notes: Vec<String>,
}

/// The start, the mode and the filters of a section.
pub(super) fn draft(section: &Map<String, Value>) -> settings::Sink {
    let read = |name: &str| section.get(name).cloned().unwrap_or_default();
    settings::Sink {
        plugin: read("plugin").as_str().unwrap_or_default().to_owned(),
        streams: serde_json::from_value(read("streams")).unwrap_or_default(),
        mode: serde_json::from_value(read("mode")).unwrap_or_default(),
        start: serde_json::from_value(read("start")).unwrap_or_default(),
        r#where: serde_json::from_value(read("where")).unwrap_or_default(),
        leaves: serde_json::from_value(read("leaves")).unwrap_or_default(),
        ..settings::Sink::default()
    }
}

impl SinkForm<'_> {
    /// The section as a form.
    pub(super) fn section(&self) -> SectionForm<'_> {
        SectionForm {
            plugin: &self.plugin.plugin.name,
            schema: self.schema,
            asked: &self.asked,
            kept: self.kept,
        }
    }

    /// Reads the section. Errors are added to the form.
    pub(super) fn read(&mut self, typed: &mut Typed) -> Map<String, Value> {
        let mut wrong = Wrong::new();
        let body = self.section().read(&self.data, &mut wrong);
        for (path, message) in wrong {
            let sentence = match path.as_str() {
                path if Control::at(path).is_some() => message.clone(),
                path => format!("{}: {message}", label_of(path)),
            };
            typed.reject(field_of(&path), sentence);
            self.wrong.push((path, message));
        }
        body
    }

    /// Adds the reason why the sink was not created, changed or tried.
    pub(super) fn refuse(&mut self, error: OperateError, typed: &mut Typed) -> Result<(), NoPage> {
        match error {
            OperateError::Invalid(faults) => {
                for fault in &faults {
                    self.fault(fault, typed);
                }
            }
            OperateError::Catalog(
                error @ (CatalogError::Taken(_)
                | CatalogError::Declared(_)
                | CatalogError::Invalid { .. }),
            ) => typed.reject("name", as_sentence(&error.to_string())),
            OperateError::Unusable(why) => typed.reject(CONFIG, as_sentence(&why)),
            OperateError::NoState(why) => typed.reject("start", as_sentence(&why)),
            error => return Err(error.into()),
        }
        Ok(())
    }

    fn fault(&mut self, fault: &BodyFault, typed: &mut Typed) {
        let message = as_sentence(&fault.message);
        self.wrong.push((fault.path.clone(), message));
        typed.reject(field_of(&fault.path), as_sentence(&fault.to_string()));
    }

    /// The result of a trial, and notes.
    pub(super) fn outcome(&self) -> Markup {
        html! {
            @if let Some(tried) = &self.tried { (tried::shown(tried)) }
            @for note in &self.notes { p.quiet { (text(&as_sentence(note))) } }
        }
    }

    /// All controls except the name and the buttons.
    pub(super) fn controls(&self, typed: &Typed) -> Markup {
        let name = &self.plugin.plugin.name;
        html! {
            input type="hidden" name="plugin" value=(name);
            (self.streams(typed))
            (self.start(typed))
            @for one in Control::selections() { (typed.input(one.field(), LINE_CHARS_MAX, false)) }
            fieldset.field #config tabindex="-1" {
                legend { "Settings of " (text(name)) }
                (SchemaForm::new(CONFIG, self.schema, &self.data, &self.wrong).controls())
            }
            (self.grants(typed))
            (self.more())
        }
    }

    /// The start of the sink, and what it follows.
    fn start(&self, typed: &Typed) -> Markup {
        let start = row("start");
        let mut words = start.choices.to_vec();
        if self.asked.writes_pool {
            words.retain(|(word, _)| *word != "state");
        }
        match self.asked.follows {
            Follows::Latest => {
                return html! { input type="hidden" name="start" value=(LATEST); p { "It follows the newest state of the data pool." } };
            }
            Follows::Either => {
                words.push((LATEST, "with all items, and follows the newest only"));
            }
            Follows::Journal => {}
        }
        let field = Field {
            name: start.name,
            label: start.label,
            hint: match self.kept {
                None => "",
                Some(_) => "It counts when the sink is filled again.",
            },
        };
        typed.select(field, &words)
    }

    /// The common settings of all sinks.
    fn more(&self) -> Markup {
        let groups = self.asked.groups();
        let is_open = self.wrong.iter().any(|(path, _)| field_of(path) == "more");
        html! {
            details.field #more open[is_open] {
                summary { "More settings" }
                @for group in &groups {
                    fieldset.field {
                        legend { (group.legend) }
                        (SchemaForm::new(group.place, &group.schema, &self.data, &self.wrong).controls())
                    }
                }
            }
        }
    }

    /// The streams, with the number of their items.
    fn streams(&self, typed: &Typed) -> Markup {
        let (chosen, row) = (typed.all("streams"), row("streams"));
        let others = Field {
            name: PATTERNS,
            label: "More streams",
            hint: row.hint,
        };
        let sizes = self.operator.pool.sizes();
        let streams = self.operator.catalog.readable_streams();
        html! {
            fieldset.field #streams tabindex="-1" {
                legend { (row.label) }
                @for stream in streams.iter().take(STREAMS_MAX) {
                    label.box {
                        input type="checkbox" name="streams" value=(stream.name) checked[chosen.iter().any(|name| **name == *stream.name)];
                        " " bdi { (plain(&stream.name)) } " " span.quiet { (grouped(sizes.of(&stream.name).items)) " items" }
                    }
                }
            }
            (typed.input(others, LINE_CHARS_MAX, false))
        }
    }

    /// The grants of the sink, as controls and as sentences.
    fn grants(&self, typed: &Typed) -> Markup {
        let offered = self.offered(typed);
        html! {
            fieldset.field #grants tabindex="-1" {
                legend { "What it may do" }
                @for sentence in self.sentences(typed) { p.hint { "It " (text(&sentence)) "." } }
                @for (host, ticked) in &offered {
                    label.box { input type="checkbox" name="grant" value=(host) checked[*ticked]; " It may call " bdi { (text(host)) } }
                }
                @for one in Control::grants(&self.asked) { (self.grant(one, typed)) }
            }
        }
    }

    /// The control of a grant.
    fn grant(&self, one: &Control, typed: &Typed) -> Markup {
        match one.row.shape {
            Shape::Secrets(_) => self.secret_rows(one),
            Shape::Secret if self.section().set(&one.pointer()) => typed.secret_field(Field {
                hint: "One is set. Type another one to replace it. It is never shown.",
                ..one.field()
            }),
            Shape::Secret => typed.secret_field(one.field()),
            _ => typed.input(one.field(), LINE_CHARS_MAX, false),
        }
    }

    /// Names with secrets, which are never shown.
    fn secret_rows(&self, one: &Control) -> Markup {
        let (field, values, place) = (one.names(), one.values(), one.pointer());
        let label = one.row.label;
        let names: Vec<&str> = self.data.all(&field).collect();
        let set: Vec<bool> = (names.iter())
            .map(|name| {
                let name = name.trim().replace('~', "~0").replace('/', "~1");
                !name.is_empty() && self.section().set(&format!("{place}/{name}"))
            })
            .collect();
        let rows = SECRET_ROWS.max(names.iter().filter(|name| !name.is_empty()).count() + 1);
        html! {
            div.field #(one.path) {
                @for row in 0..rows {
                    p.row {
                        label { (label) ", name " input name=(field) type="text" value=(names.get(row).unwrap_or(&"")) maxlength="128" autocomplete="off" spellcheck="false"; }
                        label { "value " input name=(values) type="password" maxlength=(LINE_CHARS_MAX) autocomplete="off" placeholder=[set.get(row).filter(|set| **set).map(|_| "set")]; }
                    }
                }
                @if set.contains(&true) { p.hint { "A value that is set stays unless another one is typed. Without its name, it goes." } }
            }
        }
    }

    /// Hosts in typed URLs that are not yet granted by name, and whether each is checked.
    fn offered(&self, typed: &Typed) -> Vec<(String, bool)> {
        let granted = words(&typed.text(HOSTS));
        let ticked = typed.all("grant");
        let properties = self.schema["properties"].as_object().into_iter().flatten();
        let urls = properties.filter(|(_, property)| is_called(property));
        let typed = urls.filter_map(|(name, _)| self.data.get(&format!("{CONFIG}.{name}")));
        let hosts = typed
            .filter_map(host_of)
            .filter(|host| !granted.contains(host));
        hosts
            .map(|host| {
                let is_ticked = ticked.contains(&host);
                (host, is_ticked)
            })
            .collect()
    }

    /// The grants that were typed, as sentences, if they are valid.
    fn sentences(&self, typed: &Typed) -> Vec<String> {
        let mut sentences = Vec::new();
        let grants = words(&typed.text(HOSTS))
            .into_iter()
            .chain(typed.all("grant"));
        sentences.extend(grants.map(|host| format!("may call {host}")));
        let networks = words(&typed.text("http.networks")).into_iter();
        sentences.extend(networks.map(|network| format!("may call addresses in {network}")));
        let names = self
            .data
            .all("secrets.name")
            .filter(|name| !name.trim().is_empty());
        sentences.extend(names.map(|name| format!("may read the secret {name}")));
        sentences
    }
}

/// The control, or the part of the form, for a path in the section.
fn field_of(path: &str) -> &'static str {
    match path.split(['.', '[']).next().unwrap_or_default() {
        CONFIG => CONFIG,
        "mode" => "start",
        "name" => "name",
        _ => Control::at(path).map_or("more", |one| one.path),
    }
}

fn label_of(path: &str) -> &str {
    path.strip_prefix("config.").unwrap_or(path)
}

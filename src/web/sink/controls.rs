//! The controls of a sink's form, and the texts next to them.
//!
//! **Invariant**: only grants that were typed or checked are given. A secret is never shown again.

use maud::{Markup, html};
use serde_json::{Map, Value};

use super::rows::{Asked, Follows};
use super::schema_form::{CONFIG, SchemaForm, Wrong};
use super::section::{LATEST, STREAMS_MAX, SectionForm, words};
use super::tried;
use crate::form::{Field, Typed};
use crate::form_data::FormData;
use crate::frame::NoPage;
use crate::text::{as_sentence, grouped, plain, text};
use catalog::CatalogError;
use delivery::Tried;
use operate::{OperateError, Operator, UsedPlugin, host_of, is_called};
use settings::BodyFault;

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
            asked: self.asked,
            kept: self.kept,
        }
    }

    /// Reads the section. Errors are added to the form.
    pub(super) fn read(&mut self, typed: &mut Typed) -> Map<String, Value> {
        let mut wrong = Wrong::new();
        let body = self.section().read(&self.data, &mut wrong);
        for (path, message) in wrong {
            let sentence = match path.as_str() {
                "streams" | "header_name" | "secret_name" => message.clone(),
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
            (typed.input(WHERE, LINE_CHARS_MAX, false))
            (typed.input(FIELDS, LINE_CHARS_MAX, false))
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
        let mut words = vec![
            ("now", "with the next request"),
            ("journal", "with the oldest request that is still kept"),
        ];
        if !self.asked.writes_pool {
            words.push(("state", "with all items of the data pool"));
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
        let field = match self.kept {
            None => START,
            Some(_) => Field {
                hint: "It counts when the sink is filled again.",
                ..START
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
        let chosen = typed.all("streams");
        let sizes = self.operator.pool.sizes();
        let streams = self.operator.catalog.readable_streams();
        html! {
            fieldset.field #streams tabindex="-1" {
                legend { "Streams" }
                @for stream in streams.iter().take(STREAMS_MAX) {
                    label.box {
                        input type="checkbox" name="streams" value=(stream.name) checked[chosen.iter().any(|name| **name == *stream.name)];
                        " " bdi { (plain(&stream.name)) } " " span.quiet { (grouped(sizes.of(&stream.name).items)) " items" }
                    }
                }
            }
            (typed.input(PATTERNS, LINE_CHARS_MAX, false))
        }
    }

    /// The grants of the sink, as controls and as sentences.
    fn grants(&self, typed: &Typed) -> Markup {
        let offered = self.offered(typed);
        let database = match self.section().set("/postgres/url") {
            true => Field {
                hint: "One is set. Type another one to replace it. It is never shown.",
                ..DATABASE
            },
            false => DATABASE,
        };
        html! {
            fieldset.field #grants tabindex="-1" {
                legend { "What it may do" }
                @for sentence in self.sentences(typed) { p.hint { "It " (text(&sentence)) "." } }
                @for (host, ticked) in &offered {
                    label.box { input type="checkbox" name="grant" value=(host) checked[*ticked]; " It may call " bdi { (text(host)) } }
                }
                @if self.asked.http {
                    (typed.input(HOSTS, LINE_CHARS_MAX, false))
                    (typed.input(NETWORKS, LINE_CHARS_MAX, false))
                    (self.secret_rows("header", "Header of every request", "/http/headers"))
                }
                @if self.asked.pool { (typed.input(WRITES, LINE_CHARS_MAX, false)) }
                @if self.asked.postgres { (typed.secret_field(database)) }
                @if self.asked.wire {
                    (typed.input(WIRE, LINE_CHARS_MAX, false))
                    (typed.input(WIRE_NETWORKS, LINE_CHARS_MAX, false))
                }
                @if self.asked.folder { (typed.input(FOLDER, LINE_CHARS_MAX, false)) }
                @if self.asked.secrets { (self.secret_rows("secret", "Secret that it can read", "/secrets")) }
            }
        }
    }

    /// Names with secrets, which are never shown.
    fn secret_rows(&self, what: &str, label: &str, place: &str) -> Markup {
        let field = format!("{what}_name");
        let names: Vec<&str> = self.data.all(&field).collect();
        let set: Vec<bool> = (names.iter())
            .map(|name| {
                let name = name.trim().replace('~', "~0").replace('/', "~1");
                !name.is_empty() && self.section().set(&format!("{place}/{name}"))
            })
            .collect();
        let rows = SECRET_ROWS.max(names.iter().filter(|name| !name.is_empty()).count() + 1);
        html! {
            div.field #{ (what) "_name" } {
                @for row in 0..rows {
                    p.row {
                        label { (label) ", name " input name={ (what) "_name" } type="text" value=(names.get(row).unwrap_or(&"")) maxlength="128" autocomplete="off" spellcheck="false"; }
                        label { "value " input name={ (what) "_value" } type="password" maxlength=(LINE_CHARS_MAX) autocomplete="off" placeholder=[set.get(row).filter(|set| **set).map(|_| "set")]; }
                    }
                }
                @if set.contains(&true) { p.hint { "A value that is set stays unless another one is typed. Without its name, it goes." } }
            }
        }
    }

    /// Hosts in typed URLs that are not yet granted by name, and whether each is checked.
    fn offered(&self, typed: &Typed) -> Vec<(String, bool)> {
        let granted = words(&typed.text("hosts"));
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
        let grants = words(&typed.text("hosts"))
            .into_iter()
            .chain(typed.all("grant"));
        sentences.extend(grants.map(|host| format!("may call {host}")));
        let networks = words(&typed.text("networks")).into_iter();
        sentences.extend(networks.map(|network| format!("may call addresses in {network}")));
        let names = self
            .data
            .all("secret_name")
            .filter(|name| !name.trim().is_empty());
        sentences.extend(names.map(|name| format!("may read the secret {name}")));
        sentences
    }
}

/// The control, or the part of the form, for a path in the section.
fn field_of(path: &str) -> &'static str {
    match path.split(['.', '[']).next().unwrap_or_default() {
        CONFIG => CONFIG,
        "http" if path.starts_with("http.networks") => "networks",
        "http" if path.starts_with("http.headers") => "header_name",
        "http" if path == "http" || path.starts_with("http.hosts") => "hosts",
        "postgres" if path == "postgres" || path == "postgres.url" => "postgres_url",
        "folder" => "folder",
        "wire" if path.starts_with("wire.networks") => "wire_networks",
        "wire" => "wire",
        "secrets" | "secret_name" => "secret_name",
        "header_name" => "header_name",
        "streams" => "streams",
        "start" | "mode" => "start",
        "where" => "where",
        "fields" => "fields",
        "writes" => "writes",
        "name" => "name",
        _ => "more",
    }
}

fn label_of(path: &str) -> &str {
    path.strip_prefix("config.").unwrap_or(path)
}

const PATTERNS: Field<'_> = Field {
    name: "patterns",
    label: "More streams",
    hint: "Names, with commas between them; a * at the end of a name matches any rest.",
};
const START: Field<'_> = Field {
    name: "start",
    label: "It begins",
    hint: "",
};
const WHERE: Field<'_> = Field {
    name: "where",
    label: "Items that it receives",
    hint: "Conditions that must all hold: status:paid,total>=100. Empty: all.",
};
const FIELDS: Field<'_> = Field {
    name: "fields",
    label: "Fields that it receives",
    hint: "In this order: id,Customer:customer.name,total. Empty: all.",
};
const HOSTS: Field<'_> = Field {
    name: "hosts",
    label: "Hosts that it can call",
    hint: "With commas between them: api.example.com, *.example.org:8443, http://10.0.0.5:9000.",
};
const NETWORKS: Field<'_> = Field {
    name: "networks",
    label: "Private networks that it can call",
    hint: "10.0.0.0/8. By default, private addresses are not allowed.",
};
const WRITES: Field<'_> = Field {
    name: "writes",
    label: "Streams that it can write in the data pool",
    hint: "Names, with commas between them. Empty: those that the plugin is made for.",
};
const WIRE: Field<'_> = Field {
    name: "wire",
    label: "Places that it can connect to",
    hint: "With commas between them: tcp://10.0.0.5:5250, tls://broker.example.com:8883.",
};
const WIRE_NETWORKS: Field<'_> = Field {
    name: "wire_networks",
    ..NETWORKS
};
const FOLDER: Field<'_> = Field {
    name: "folder",
    label: "Folder that it can write files in",
    hint: "Below files of the data directory: out. An absolute path must lie below a folder of plugins.folders.",
};
const DATABASE: Field<'_> = Field {
    name: "postgres_url",
    label: "Database that it can write to",
    hint: "postgresql://user:password@host/database. It is never shown.",
};

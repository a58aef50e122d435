//! `/new/sink`: a card for each plugin, then a form made from the plugin's schema; trying what was typed, and saving it.
//!
//! It works without a script: **Try** sends the form, and the page comes back with what would be sent.
//!
//! **Invariant**: nothing is granted that was not typed or ticked. A secret that was typed does not come back.

use maud::{Markup, html};
use salvo_core::{Depot, Request, handler};
use serde_json::{Map, Value, json};

use super::schema_form::{self, SchemaForm, Wrong};
use super::tried;
use crate::form::{Field, Typed};
use crate::form_data::FormData;
use crate::frame::{FormAnswer, FormPage, NoPage, Place};
use crate::guard::by;
use crate::paths;
use crate::text::{as_sentence, grouped, plain, segment, text, text_of};
use catalog::CatalogError;
use delivery::Tried;
use operate::{OperateError, Operator, TrialRequest, UsedPlugin, host_of, is_called};
use settings::BodyFault;

/// Characters of a reason, and of a line.
const REASON_CHARS_MAX: usize = 600;
const LINE_CHARS_MAX: usize = 4_096;
/// Rows for names with secrets.
const SECRET_ROWS: usize = 3;
/// Streams with a box of their own.
const STREAMS_MAX: usize = 500;

/// `/new/sink`, with a plugin `/new/sink?plugin=NAME`
pub(super) struct NewSink(pub(super) Operator);

#[handler]
impl NewSink {
    async fn handle(&self, req: &mut Request, depot: &mut Depot) -> Result<FormAnswer, NoPage> {
        let operator = &self.0;
        let sent = Typed::sent(depot);
        let name = match &sent {
            Some(typed) => typed.text("plugin"),
            None => req.query::<String>("plugin").unwrap_or_default(),
        };
        let plugins = operator.plugins().await;
        let chosen = plugins.iter().find(|used| used.plugin.name == name);
        let Some(plugin) = chosen.filter(|used| used.error().is_none()) else {
            let typed = Typed::new(depot, "", &[]);
            return Ok(typed.show(choice(&plugins)));
        };
        let data = FormData::of(depot).cloned().unwrap_or_default();
        let mut form = SinkForm {
            operator,
            plugin,
            schema: plugin.schema(),
            data,
            wrong: Wrong::new(),
            tried: None,
            notes: Vec::new(),
        };
        let Some(mut typed) = sent else {
            let typed = Typed::new(depot, "name", &[]);
            return Ok(typed.show(form.page(&typed)));
        };
        let body = form.body(&mut typed);
        if typed.is_wrong() {
            return Ok(typed.show(form.page(&typed)));
        }
        let done = match typed.raw("do") {
            "try" => {
                let request = TrialRequest::default();
                form.notes = operator.sink_notes(&draft(&body));
                let tried = operator.try_section(body, request, by(req)).await;
                tried.map(|tried| form.tried = Some(tried))
            }
            _ => match operator.create_sink(body, by(req)).await {
                Ok(sink) => {
                    let flash = format!("The sink {} is made.", plain(sink.name()));
                    return Ok(FormAnswer::Done(paths::sink(sink.name()), flash));
                }
                Err(error) => Err(error),
            },
        };
        if let Err(error) = done {
            form.refuse(error, &mut typed)?;
        }
        Ok(typed.show(form.page(&typed)))
    }
}

/// A card for each plugin.
fn choice(plugins: &[UsedPlugin]) -> FormPage {
    FormPage {
        title: "Add a sink".to_owned(),
        place: Place::Sinks,
        content: html! {
            p { "A sink hands items of streams to a plugin. Choose the plugin." }
            ul.tools {
                @for used in plugins {
                    li {
                        @match used.error() {
                            None => {
                                a href={ "/new/sink?plugin=" (segment(&used.plugin.name)) } { (text(&used.plugin.name)) }
                                p.quiet {
                                    (used.kind()) " " (text(used.version())) ". Asks for: " (text(&used.asks_for()))
                                    @if !used.used_by.is_empty() { ". Used by " (text(&used.used_by.join(", "))) }
                                }
                            },
                            Some(error) => { (text(&used.plugin.name)) p.quiet { "It cannot be used: " (text_of(error, REASON_CHARS_MAX)) } },
                        }
                    }
                }
            }
            p.quiet { "A component that you put into the plugins directory appears here within a few seconds." }
        },
    }
}

struct SinkForm<'a> {
    operator: &'a Operator,
    plugin: &'a UsedPlugin,
    schema: Value,
    data: FormData,
    wrong: Wrong,
    tried: Option<Tried>,
    /// What the sink is not promised.
    notes: Vec<String>,
}

/// What a section says of where a sink begins, and with which streams.
fn draft(section: &Map<String, Value>) -> settings::Sink {
    let read = |name: &str| section.get(name).cloned().unwrap_or_default();
    settings::Sink {
        plugin: read("plugin").as_str().unwrap_or_default().to_owned(),
        streams: serde_json::from_value(read("streams")).unwrap_or_default(),
        start: serde_json::from_value(read("start")).unwrap_or_default(),
        ..settings::Sink::default()
    }
}

impl SinkForm<'_> {
    /// The section that was typed.
    fn body(&mut self, typed: &mut Typed) -> Map<String, Value> {
        let mut body = Map::new();
        body.insert("name".to_owned(), typed.text("name").into());
        body.insert("plugin".to_owned(), self.plugin.plugin.name.as_str().into());
        let mut streams: Vec<String> = typed.all("streams");
        streams.extend(words(&typed.text("patterns")));
        if streams.is_empty() {
            typed.reject("streams", "Choose a stream, or write a pattern.");
        }
        body.insert("streams".to_owned(), json!(streams));
        for name in ["start", "where", "fields"] {
            if let Some(text) = typed.optional(name) {
                let name = if text == LATEST { "mode" } else { name };
                body.insert(name.to_owned(), text.into());
            }
        }
        if let Some(writes) = typed.optional("writes") {
            body.insert("writes".to_owned(), json!(words(&writes)));
        }
        let config = schema_form::typed(&self.schema, &self.data, &mut self.wrong);
        body.insert("config".to_owned(), config.into());
        if self.asks_for("http") {
            body.insert("http".to_owned(), self.http(typed));
        }
        if let Some(url) = typed.optional("postgres_url") {
            body.insert("postgres".to_owned(), json!({ "url": url }));
        }
        let secrets = self.pairs("secret");
        if !secrets.is_empty() {
            body.insert("secrets".to_owned(), secrets.into());
        }
        if typed.raw("do") == "paused" {
            body.insert("enabled".to_owned(), false.into());
        }
        for (path, message) in &self.wrong {
            typed.reject("config", format!("{}: {message}", label_of(path)));
        }
        body
    }

    fn http(&self, typed: &Typed) -> Value {
        let mut hosts = words(&typed.text("hosts"));
        hosts.extend(typed.all("grant"));
        hosts.dedup();
        let mut http = json!({ "hosts": hosts, "networks": words(&typed.text("networks")) });
        let headers = self.pairs("header");
        if !headers.is_empty() {
            http["headers"] = headers.into();
        }
        http
    }

    /// Names with secrets that stand beside each other.
    fn pairs(&self, what: &str) -> Map<String, Value> {
        let (names, values) = (format!("{what}_name"), format!("{what}_value"));
        let pairs = self.data.all(&names).zip(self.data.all(&values));
        let given = pairs.filter(|(name, value)| !name.trim().is_empty() && !value.is_empty());
        given
            .map(|(name, value)| (name.trim().to_owned(), value.into()))
            .collect()
    }

    fn asks_for(&self, what: &str) -> bool {
        let facts = self.plugin.plugin.facts.as_ref();
        facts.is_some_and(|facts| {
            facts
                .as_ref()
                .is_ok_and(|facts| facts.asks_for.contains(&what))
        })
    }

    /// Says why it is not made, or not tried.
    fn refuse(&mut self, error: OperateError, typed: &mut Typed) -> Result<(), NoPage> {
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
            OperateError::Unusable(why) => typed.reject("config", as_sentence(&why)),
            error => return Err(error.into()),
        }
        Ok(())
    }

    fn fault(&mut self, fault: &BodyFault, typed: &mut Typed) {
        let sentence = as_sentence(&fault.to_string());
        let field = match fault.field {
            "config" => {
                self.wrong
                    .push((fault.path.clone(), as_sentence(&fault.message)));
                "config"
            }
            "http" => "hosts",
            "postgres" => "postgres_url",
            "secrets" => "secret_name",
            "streams" => "streams",
            "where" => "where",
            "fields" => "fields",
            "writes" => "writes",
            _ => "name",
        };
        typed.reject(field, sentence);
    }

    fn page(&self, typed: &Typed) -> FormPage {
        let name = &self.plugin.plugin.name;
        let fields = html! {
            input type="hidden" name="plugin" value=(name);
            (typed.input(NAME, 64, true))
            (self.streams(typed))
            (typed.select(START, &[("now", "with the next request"), ("journal", "with the oldest request that is still kept"), ("state", "with all items of the data pool"), (LATEST, "with all items, and follows the newest only")]))
            (typed.input(WHERE, LINE_CHARS_MAX, false))
            (typed.input(FIELDS, LINE_CHARS_MAX, false))
            fieldset.field #config tabindex="-1" {
                legend { "Settings of " (text(name)) }
                (SchemaForm::new(&self.schema, &self.data, &self.wrong).controls())
            }
            (self.grants(typed))
            p.row {
                button name="do" value="save" { "Save" }
                button.plain name="do" value="try" { "Try" }
                button.plain name="do" value="paused" { "Save paused" }
                a.button.plain href="/sinks" { "Cancel" }
            }
        };
        FormPage {
            title: format!("Add a sink with {}", plain(name)),
            place: Place::Sinks,
            content: html! {
                @if let Some(tried) = &self.tried { (tried::shown(tried)) }
                @for note in &self.notes { p.quiet { (text(&as_sentence(note))) } }
                (typed.panel(Some("/new/sink"), &fields))
                p.quiet { "Secrets are stored in catalog.db as they are, so backups contain them. They are never shown: after " strong { "Try" } ", type them again." }
            },
        }
    }

    /// The streams, with how many items each has.
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

    /// What it may do, in controls, and in sentences.
    fn grants(&self, typed: &Typed) -> Markup {
        let offered = self.offered(typed);
        html! {
            fieldset.field #grants tabindex="-1" {
                legend { "What it may do" }
                @for sentence in self.sentences(typed) { p.hint { "It " (text(&sentence)) "." } }
                @for (host, ticked) in &offered {
                    label.box { input type="checkbox" name="grant" value=(host) checked[*ticked]; " It may call " bdi { (text(host)) } }
                }
                @if self.asks_for("http") {
                    (typed.input(HOSTS, LINE_CHARS_MAX, false))
                    (typed.input(NETWORKS, LINE_CHARS_MAX, false))
                    (self.secret_rows("header", "Header of every request"))
                }
                @if self.asks_for("pool") { (typed.input(WRITES, LINE_CHARS_MAX, false)) }
                @if self.asks_for("postgres") { (typed.secret_field(DATABASE)) }
                @if self.asks_for("secrets") { (self.secret_rows("secret", "Secret that it can read")) }
            }
        }
    }

    fn secret_rows(&self, what: &str, label: &str) -> Markup {
        let name = format!("{what}_name");
        let names: Vec<&str> = self.data.all(&name).collect();
        html! {
            div.field #{ (what) "_name" } {
                @for row in 0..SECRET_ROWS {
                    p.row {
                        label { (label) ", name " input name={ (what) "_name" } type="text" value=(names.get(row).unwrap_or(&"")) maxlength="128" autocomplete="off" spellcheck="false"; }
                        label { "value " input name={ (what) "_value" } type="password" maxlength=(LINE_CHARS_MAX) autocomplete="off"; }
                    }
                }
            }
        }
    }

    /// Hosts of URLs that were typed, beside those that are granted by name; whether each was ticked.
    fn offered(&self, typed: &Typed) -> Vec<(String, bool)> {
        let granted = words(&typed.text("hosts"));
        let ticked = typed.all("grant");
        let properties = self.schema["properties"].as_object().into_iter().flatten();
        let urls = properties.filter(|(_, property)| is_called(property));
        let typed = urls.filter_map(|(name, _)| self.data.get(&format!("config.{name}")));
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

    /// The grants of what was typed, as far as it can be used.
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

/// Texts between commas or spaces.
fn words(text: &str) -> Vec<String> {
    let parts = text.split([',', ' ', '\n', '\r', '\t']);
    parts
        .filter(|part| !part.is_empty())
        .map(str::to_owned)
        .collect()
}

fn label_of(path: &str) -> &str {
    path.strip_prefix("config.").unwrap_or(path)
}

const NAME: Field<'_> = Field {
    name: "name",
    label: "Name",
    hint: "Letters, digits, dots, dashes and underscores. It cannot be changed later.",
};
const PATTERNS: Field<'_> = Field {
    name: "patterns",
    label: "More streams",
    hint: "Names, with commas between them; a * at the end of a name matches any rest.",
};
/// Among the words for where a sink begins: it follows the data pool.
const LATEST: &str = "latest";
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
const DATABASE: Field<'_> = Field {
    name: "postgres_url",
    label: "Database that it can write to",
    hint: "postgresql://user:password@host/database. It is never shown.",
};

//! The settings, and what is made of them when the sink is opened.
//!
//! **Invariant**: what was read here can be sent: a mistake in a template is found by `open`, with its setting and its place.

use std::collections::BTreeMap;

use headgate_sdk::secrets;
use headgate_sdk::templates::{Conditions, Place, Subject, Template};
use headgate_sdk::{Form, Span};
use serde::Deserialize;
use serde_json::value::RawValue;

const CONTENT_TYPE: &str = "content-type";
/// Headers that say how a request is to be read: no value may choose that.
const FIXED: [&str; 6] = [
    CONTENT_TYPE,
    "content-length",
    "host",
    "transfer-encoding",
    "connection",
    "idempotency-key",
];

/// `config` of the sink's section.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub struct Settings {
    url: Option<String>,
    url_from: Option<String>,
    method: Option<String>,
    form: Option<String>,
    body: Option<Box<RawValue>>,
    per: Option<String>,
    headers: BTreeMap<String, String>,
    removed: Option<OfRemovals>,
    ok_if: Option<String>,
    pub retry_statuses: Option<Vec<u16>>,
    max_items: Option<u32>,
    pub timeout_ms: Option<u64>,
    removals: Option<bool>,
}

/// `config.removed`.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct OfRemovals {
    url: Option<String>,
    method: Option<String>,
    body: Option<Box<RawValue>>,
}

/// What a request has as its body.
pub enum Body {
    None,
    /// The items as JSON.
    Items(Form, &'static str),
    Template(Template, String),
}

/// Requests of one kind.
pub struct Shape {
    pub method: String,
    pub url: Template,
    pub body: Body,
}

/// The sink as it was opened.
pub struct Forward {
    pub updates: Shape,
    pub removals: Option<Shape>,
    pub headers: Vec<(String, Template)>,
    pub ok_if: Option<Conditions>,
    /// Items of one request.
    pub items_max: u32,
    pub settings: Settings,
}

impl Forward {
    /// Reads the settings.
    pub fn open(config: &str) -> Result<Self, String> {
        let settings: Settings = serde_json::from_str(config).map_err(|error| error.to_string())?;
        let (url_setting, url) = settings.url()?;
        let method = settings.method.clone().unwrap_or_else(|| "POST".to_owned());
        let is_get = method == "GET";
        if settings.form.is_some() && settings.body.is_some() {
            return Err("config.form: there is a `body` too; remove one of them".to_owned());
        }
        if is_get && (settings.form.is_some() || settings.body.is_some()) {
            return Err(
                "config.method: a GET has no body; remove `form` and `body`, or choose POST"
                    .to_owned(),
            );
        }
        // What each item fills in takes a request for each item.
        let subject = |is_batch: bool| {
            if is_batch {
                Subject::Batch
            } else {
                Subject::Item
            }
        };
        let is_batch = match settings.per.as_deref() {
            Some(per) => per == "batch",
            None => {
                let mut texts = settings.headers.values().chain([&url]);
                settings.body.is_none() && !is_get && !texts.any(|text| has_placeholder(text))
            }
        };
        let of = subject(is_batch);
        let body = match &settings.body {
            Some(body) => settings.body("config.body", body, of)?,
            None if is_get => Body::None,
            None => settings.items(),
        };
        if settings.removals == Some(true) && !matches!(body, Body::Items(..)) {
            return Err("config.removals: `form` says what a removal is; with `body` and GET it is `removed`".to_owned());
        }
        let updates = Shape {
            url: Template::parse(url_setting, &url, Place::Url, of)?,
            method,
            body,
        };
        Ok(Self {
            removals: settings.of_removals((url_setting, &url), &updates.method)?,
            headers: settings.headers(of)?,
            ok_if: settings
                .ok_if
                .as_deref()
                .map(|text| Conditions::parse("config.ok_if", text))
                .transpose()?,
            items_max: if is_batch {
                settings.max_items.unwrap_or(1_000)
            } else {
                1
            },
            updates,
            settings,
        })
    }

    /// Whether removals go out as items do.
    pub fn says_removals(&self) -> bool {
        let says_which = matches!(
            self.updates.body,
            Body::Items(Form::ItemArray | Form::ItemLines, _)
        );
        // Fields alone do not say what was removed.
        says_which && self.settings.removals != Some(false)
    }
}

impl Settings {
    /// The setting that the URL is in, and the URL.
    fn url(&self) -> Result<(&'static str, String), String> {
        match (&self.url, &self.url_from) {
            (Some(url), None) => Ok(("config.url", url.clone())),
            (None, Some(name)) => match secrets::get(name) {
                Some(url) => Ok(("config.url_from", url)),
                None => Err(format!(
                    "config.url_from: the sink's `secrets` have no `{name}`; add it there"
                )),
            },
            (Some(_), Some(_)) => {
                Err("config.url_from: there is a `url` too; remove one of them".to_owned())
            }
            (None, None) => {
                Err("config.url: where the items go is missing; set `url` or `url_from`".to_owned())
            }
        }
    }

    fn items(&self) -> Body {
        let (form, content_type) = match self.form.as_deref() {
            Some("field-lines") => (Form::FieldLines, "application/x-ndjson"),
            Some("field-array") => (Form::FieldArray, "application/json"),
            Some("item-lines") => (Form::ItemLines, "application/x-ndjson"),
            _ => (Form::ItemArray, "application/json"),
        };
        Body::Items(form, content_type)
    }

    fn content_type(&self) -> Option<&str> {
        let mut headers = self.headers.iter();
        let found = headers.find(|(name, _)| name.eq_ignore_ascii_case(CONTENT_TYPE));
        found.map(|(_, value)| value.as_str())
    }

    /// The body of a request: JSON, or a text whose content type says how values are escaped.
    fn body(&self, setting: &str, body: &RawValue, of: Subject) -> Result<Body, String> {
        let Ok(text) = serde_json::from_str::<String>(body.get()) else {
            let template = Template::parse(setting, body.get(), Place::Json, of)?;
            return Ok(Body::Template(template, "application/json".to_owned()));
        };
        let text = text.as_str();
        let content_type = self.content_type().unwrap_or("text/plain; charset=utf-8");
        let essence = content_type
            .split(';')
            .next()
            .unwrap_or_default()
            .trim()
            .to_ascii_lowercase();
        let (place, is_known) = match &*essence {
            one if one.ends_with("/json") || one.ends_with("+json") => (Place::JsonText, true),
            one if one.contains("xml") || one.contains("html") => (Place::Xml, true),
            "application/x-www-form-urlencoded" => (Place::Form, true),
            "text/plain" => (Place::Plain, true),
            _ => (Place::Plain, false),
        };
        let template = Template::parse(setting, text, place, of)?;
        if !is_known && !template.is_escaped() {
            return Err(format!(
                "{setting}: values are escaped in bodies of text/plain, JSON, XML, HTML and application/x-www-form-urlencoded; in {essence}, end each placeholder with an escape or `raw`"
            ));
        }
        Ok(Body::Template(template, content_type.to_owned()))
    }

    fn headers(&self, of: Subject) -> Result<Vec<(String, Template)>, String> {
        let read = self.headers.iter().map(|(name, text)| {
            let setting = format!("config.headers.{name}");
            let template = Template::parse(&setting, text, Place::Header, of)?;
            if template.has_values() && FIXED.iter().any(|fixed| name.eq_ignore_ascii_case(fixed)) {
                return Err(format!(
                    "{setting}: a template may not stand in this header"
                ));
            }
            Ok((name.clone(), template))
        });
        read.collect()
    }

    /// Requests for removals, if they have one of their own.
    fn of_removals(
        &self,
        (url_setting, url): (&str, &str),
        method: &str,
    ) -> Result<Option<Shape>, String> {
        let Some(removed) = &self.removed else {
            return Ok(None);
        };
        let method = removed.method.as_deref().unwrap_or(method);
        let body = match &removed.body {
            Some(_) if method == "GET" => {
                return Err(
                    "config.removed.body: a GET has no body; remove it, or choose another method"
                        .to_owned(),
                );
            }
            Some(body) => self.body("config.removed.body", body, Subject::Removal)?,
            None => Body::None,
        };
        let (setting, url) = match &removed.url {
            Some(url) => ("config.removed.url", url.as_str()),
            None => (url_setting, url),
        };
        let url = Template::parse(setting, url, Place::Url, Subject::Removal)
            .map_err(|error| format!("{error} (for removals; set `removed.url`)"))?;
        Ok(Some(Shape {
            method: method.to_owned(),
            url,
            body,
        }))
    }
}

/// Whether a brace opens in a text: no backslash stands before it.
fn has_placeholder(text: &str) -> bool {
    let mut characters = text.chars();
    while let Some(one) = characters.next() {
        match one {
            '\\' => drop(characters.next()),
            '{' => return true,
            _ => {}
        }
    }
    false
}

impl Shape {
    /// The body for some items of a batch, with its content type.
    pub fn body(
        &self,
        batch: &headgate_sdk::Batch,
        span: Span,
    ) -> Result<Option<(String, &str)>, String> {
        Ok(match &self.body {
            Body::None => None,
            Body::Items(form, content_type) => Some((batch.json(span, *form), *content_type)),
            Body::Template(template, content_type) => {
                let filled = template.fill(batch, span);
                let filled = filled.map_err(|why| format!("its body cannot be made: {why}"))?;
                Some((filled, content_type.as_str()))
            }
        })
    }
}

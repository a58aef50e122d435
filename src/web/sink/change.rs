//! `/sinks/{name}/change`: the form of a sink that was created at run time, generated from its section.
//!
//! **Invariant**: only changes are sent. A setting without a control and an empty secret keep their values. The page
//! does not exist for a sink that is defined in the configuration.

use maud::html;
use salvo_core::{Depot, Request, handler};
use serde_json::{Map, Value};

use super::controls::{SinkForm, draft};
use super::new::cards;
use super::rows::{Asked, Follows};
use super::schema_form::{Wrong, resolved};
use super::section::{SectionForm, difference};
use crate::form::Typed;
use crate::form_data::FormData;
use crate::frame::{FormAnswer, FormPage, NoPage, Place};
use crate::guard::by;
use crate::paths::{self, param};
use crate::text::plain;
use catalog::ResourceKind;
use operate::{OperateError, Operator, TrialRequest, UsedPlugin};
use settings::SinkMode;

/// `/sinks/{name}/change`; `?plugin=NAME` selects another plugin
pub(super) struct ChangeSink(pub(super) Operator);

#[handler]
impl ChangeSink {
    async fn handle(&self, req: &mut Request, depot: &mut Depot) -> Result<FormAnswer, NoPage> {
        let operator = &self.0;
        let name = param(req, "name");
        let sink = operator.catalog.sink(&name).ok_or(OperateError::NoSink)?;
        NoPage::if_declared(sink.created_at, ResourceKind::Sink)?;
        let kept = sink.shown_section();
        let follows = match sink.settings.mode {
            SinkMode::Journal => Follows::Journal,
            SinkMode::Latest => Follows::Latest,
        };
        let sent = Typed::sent(depot);
        let own = kept.get("plugin").and_then(Value::as_str);
        let own = own.unwrap_or_default().to_owned();
        let wanted = match &sent {
            Some(typed) => typed.optional("plugin"),
            None => req.query::<String>("plugin"),
        };
        let plugins = operator.plugins().await;
        let named = |name: &str| plugins.iter().find(|used| used.plugin.name == name);
        let chosen = named(wanted.as_deref().unwrap_or(&own));
        let Some(plugin) = chosen.filter(|used| used.error().is_none()) else {
            let typed = Typed::new(depot, "", &[]);
            return Ok(typed.show(choice(&name, &plugins)));
        };
        let schema = resolved(&plugin.schema());
        let streams = operator.catalog.readable_streams();
        let streams: Vec<&str> = streams.iter().map(|stream| &*stream.name).collect();
        let mut form = SinkForm {
            operator,
            plugin,
            schema: &schema,
            asked: Asked::of(plugin, follows),
            kept: Some(&kept),
            data: FormData::of(depot).cloned().unwrap_or_default(),
            wrong: Wrong::new(),
            tried: None,
            notes: Vec::new(),
        };
        let Some(mut typed) = sent else {
            form.data = form.section().filled(&streams);
            let typed = Typed::filled(depot, "where", form.data.clone());
            return Ok(typed.show(page(&name, &form, &typed)));
        };
        let after = form.read(&mut typed);
        if typed.is_wrong() {
            return Ok(typed.show(page(&name, &form, &typed)));
        }
        let before = read_of(&own, named(&own), &kept, follows, &streams);
        if let Some(flash) = act(&name, before, after, &mut form, &mut typed, req).await? {
            return Ok(FormAnswer::Done(paths::sink(&name), flash));
        }
        Ok(typed.show(page(&name, &form, &typed)))
    }
}

/// Tries or makes the change; returns the message about a change that was made. Errors are added to the form.
async fn act(
    name: &str,
    before: Map<String, Value>,
    after: Map<String, Value>,
    form: &mut SinkForm<'_>,
    typed: &mut Typed,
    req: &Request,
) -> Result<Option<String>, NoPage> {
    let draft = draft(&after);
    let patch = match difference(&before.into(), &after.into()) {
        Some(Value::Object(patch)) => patch,
        _ => Map::new(),
    };
    let operator = form.operator;
    let done = match typed.raw("do") {
        "try" => {
            form.notes = operator.sink_notes(&draft);
            let request = TrialRequest::default();
            let tried = operator.try_named(name, patch, request, by(req)).await;
            tried.map(|tried| form.tried = Some(tried))
        }
        _ if patch.is_empty() => return Ok(Some("Nothing was changed.".to_owned())),
        _ => match operator.change_sink(name, patch, by(req)).await {
            Ok(_) => return Ok(Some(format!("The sink {} is changed.", plain(name)))),
            Err(error) => Err(error),
        },
    };
    if let Err(error) = done {
        form.refuse(error, typed)?;
    }
    Ok(None)
}

/// The section that the form would send for an unchanged sink. Its plugin may be missing.
fn read_of(
    name: &str,
    plugin: Option<&UsedPlugin>,
    kept: &Map<String, Value>,
    follows: Follows,
    streams: &[&str],
) -> Map<String, Value> {
    let schema = plugin.map_or(Value::Null, |plugin| resolved(&plugin.schema()));
    let asked = plugin.map_or_else(|| Asked::all(follows), |plugin| Asked::of(plugin, follows));
    let form = SectionForm {
        plugin: name,
        schema: &schema,
        asked: &asked,
        kept: Some(kept),
    };
    form.read(&form.filled(streams), &mut Wrong::new())
}

/// The choice of a plugin, if the current one is unusable.
fn choice(name: &str, plugins: &[UsedPlugin]) -> FormPage {
    FormPage {
        title: format!("Change {}", plain(name)),
        place: Place::Sinks,
        content: html! {
            p { "The plugin of the sink cannot be used. Choose another one." }
            (cards(plugins, &change(name)))
        },
    }
}

fn change(name: &str) -> String {
    format!("{}/change", paths::sink(name))
}

fn page(name: &str, form: &SinkForm<'_>, typed: &Typed) -> FormPage {
    let fields = html! {
        p.quiet { "Its name stays, and so does what it follows. It uses the new settings after the batch that it is at. A sink that began with all items is filled again if it receives something else." }
        (form.controls(typed))
        p.row {
            button name="do" value="save" { "Save" }
            button.plain name="do" value="try" { "Try" }
            a.button.plain href=(paths::sink(name)) { "Cancel" }
        }
    };
    FormPage {
        title: format!("Change {}", plain(name)),
        place: Place::Sinks,
        content: html! {
            (form.outcome())
            (typed.panel(Some(&change(name)), &fields))
        },
    }
}

//! `headgate item override …` and `headgate stream hold …`: overrides and holds of operators.
//!
//! **Invariant**: values are sent as they were typed: as JSON if they are valid JSON, otherwise as texts.

use reqwest::Method;
use reqwest::header::{CONTENT_TYPE, HeaderMap, HeaderValue};
use serde_json::value::RawValue;
use serde_json::{Value, json};

use super::client::AdminArgs;
use super::error::CliError;
use super::output::{print, shown};
use base::text::percent_encoded;
use wire::ActData;

/// Which item, and what of it.
#[derive(Debug, clap::Args)]
pub(super) struct FieldsArgs {
    /// The stream
    stream: String,
    /// The item's key
    key: String,
    /// Fields with their values: JSON, or a text
    #[arg(required = true, value_name = "FIELD=VALUE")]
    fields: Vec<String>,
    #[command(flatten)]
    admin: AdminArgs,
}

/// Arguments of `headgate item override`.
#[derive(Debug, clap::Args)]
pub(super) struct OverrideArgs {
    #[command(flatten)]
    of: FieldsArgs,
    #[command(flatten)]
    until: UntilArgs,
    /// Create the item or fields if missing
    #[arg(long)]
    create: bool,
}

/// Arguments of `headgate item add`.
#[derive(Debug, clap::Args)]
pub(super) struct AddArgs {
    /// The stream
    stream: String,
    /// The item's key
    key: String,
    /// The field
    field: String,
    /// Number to add, such as 1 or -1
    #[arg(allow_negative_numbers = true)]
    by: String,
    #[command(flatten)]
    admin: AdminArgs,
}

/// Arguments of `headgate item release`.
#[derive(Debug, clap::Args)]
pub(super) struct ReleaseArgs {
    /// The stream
    stream: String,
    /// The item's key
    key: String,
    /// The fields. Default: all fields of the item
    fields: Vec<String>,
    #[command(flatten)]
    admin: AdminArgs,
}

/// When it ends.
#[derive(Debug, clap::Args)]
struct UntilArgs {
    /// When it ends automatically: seconds, or a time such as 2030-01-31T20:15:00+01:00
    #[arg(long, value_name = "SECONDS|TIME")]
    until: Option<String>,
}

impl UntilArgs {
    fn value(&self) -> Option<Value> {
        let until = self.until.as_ref()?;
        let seconds = until.parse::<u64>();
        Some(seconds.map_or_else(|_| json!(until), Value::from))
    }
}

/// What acts on a stream are told.
#[derive(Debug, clap::Args)]
pub(super) struct StreamActArgs {
    /// The stream
    stream: String,
    /// Only these items. Default: the whole stream
    #[arg(long = "key", value_name = "KEY")]
    keys: Vec<String>,
    #[command(flatten)]
    admin: AdminArgs,
}

/// Arguments of `headgate stream hold`.
#[derive(Debug, clap::Args)]
pub(super) struct HoldArgs {
    #[command(flatten)]
    of: StreamActArgs,
    #[command(flatten)]
    until: UntilArgs,
}

/// Arguments of `headgate stream undo`.
#[derive(Debug, clap::Args)]
pub(super) struct UndoArgs {
    /// The stream
    stream: String,
    /// Drop the newest act from the list without undoing it
    #[arg(long)]
    skip: bool,
    #[command(flatten)]
    admin: AdminArgs,
}

/// Arguments of `headgate stream release`.
#[derive(Debug, clap::Args)]
pub(super) struct ReleaseAllArgs {
    /// The stream
    stream: String,
    #[command(flatten)]
    admin: AdminArgs,
}

/// The JSON text of an object from `FIELD=VALUE` arguments.
fn object(fields: &[String]) -> Result<String, CliError> {
    let mut members = Vec::new();
    for field in fields {
        let (name, value) = field.split_once('=').ok_or_else(|| {
            CliError::wrong_use(format!(
                "{field:?} is not FIELD=VALUE, such as home.score=3"
            ))
        })?;
        let value = match serde_json::from_str::<&RawValue>(value) {
            Ok(json) => json.get().to_owned(),
            Err(_) => Value::from(value).to_string(),
        };
        members.push(format!("{}:{value}", Value::from(name)));
    }
    Ok(format!("{{{}}}", members.join(",")))
}

async fn call(
    admin: &AdminArgs,
    method: Method,
    stream: &str,
    end: &str,
    body: String,
) -> Result<ActData, CliError> {
    let path = format!("/api/admin/streams/{}/{end}", percent_encoded(stream));
    let mut headers = HeaderMap::new();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
    let client = admin.client()?;
    let answer = client.call(method, &path, headers, body.into()).await?;
    Ok(client.envelope(&answer)?.data)
}

pub(super) async fn set(args: &FieldsArgs) -> Result<(), CliError> {
    let end = format!("items/{}", percent_encoded(&args.key));
    let fields = object(&args.fields)?;
    let put = call(&args.admin, Method::PUT, &args.stream, &end, fields).await?;
    let hidden = put.overridden.unwrap_or_default().join(", ");
    let (key, stream) = (shown(&args.key), shown(&args.stream));
    print(&format!("item {key} of {stream} set\n"))?;
    match hidden.is_empty() {
        true => Ok(()),
        false => print(&format!(
            "overridden, so the new value is not shown: {}\n",
            shown(&hidden)
        )),
    }
}

pub(super) async fn override_fields(args: &OverrideArgs) -> Result<(), CliError> {
    let of = &args.of;
    let until = args.until.value().unwrap_or(Value::Null);
    let body = format!(
        "{{\"key\":{},\"fields\":{},\"until\":{until},\"create\":{}}}",
        Value::from(&*of.key),
        object(&of.fields)?,
        args.create
    );
    call(&of.admin, Method::POST, &of.stream, "override", body).await?;
    let (key, stream) = (shown(&of.key), shown(&of.stream));
    print(&format!("item {key} of {stream} overridden\n"))
}

pub(super) async fn add(args: &AddArgs) -> Result<(), CliError> {
    let body = format!(
        "{{\"key\":{},\"field\":{},\"by\":{}}}",
        Value::from(&*args.key),
        Value::from(&*args.field),
        args.by
    );
    let added = call(&args.admin, Method::POST, &args.stream, "add", body).await?;
    let value = added.value.as_ref().map_or("", |value| value.get());
    let (field, key) = (shown(&args.field), shown(&args.key));
    print(&format!("{field} of {key} is shown as {}\n", shown(value)))
}

pub(super) async fn release(args: &ReleaseArgs) -> Result<(), CliError> {
    let mut body = json!({ "key": args.key });
    if !args.fields.is_empty() {
        body["fields"] = json!(args.fields);
    }
    let body = body.to_string();
    print_released(&call(&args.admin, Method::POST, &args.stream, "release", body).await?)
}

pub(super) async fn release_all(args: &ReleaseAllArgs) -> Result<(), CliError> {
    let body = "{}".to_owned();
    print_released(&call(&args.admin, Method::POST, &args.stream, "release", body).await?)
}

fn print_released(acted: &ActData) -> Result<(), CliError> {
    print(&match acted.released.unwrap_or(0) {
        0 => "nothing was overridden\n".to_owned(),
        released => format!("{released} overridden fields released\n"),
    })
}

async fn on_stream(
    args: &StreamActArgs,
    verb: &str,
    until: Option<Value>,
) -> Result<ActData, CliError> {
    let mut body = json!({});
    if !args.keys.is_empty() {
        body["keys"] = json!(args.keys);
    }
    if let Some(until) = until {
        body["until"] = until;
    }
    let body = body.to_string();
    call(&args.admin, Method::POST, &args.stream, verb, body).await
}

/// Whether the act changed a hold.
fn has_changed(acted: &ActData) -> bool {
    acted.changed.as_ref().and_then(Value::as_u64) != Some(0)
}

pub(super) async fn hold(args: &HoldArgs) -> Result<(), CliError> {
    let held = on_stream(&args.of, "hold", args.until.value()).await?;
    print(match has_changed(&held) {
        false => "already held; nothing changed\n",
        true => "held: screens keep the current items, changes wait\n",
    })
}

pub(super) async fn take(args: &StreamActArgs) -> Result<(), CliError> {
    let taken = on_stream(args, "take", None).await?.taken.unwrap_or(0);
    print(&format!(
        "{taken} items show their waiting changes; the hold continues\n"
    ))
}

pub(super) async fn resume(args: &StreamActArgs) -> Result<(), CliError> {
    let acted = on_stream(args, "resume", None).await?;
    print(match has_changed(&acted) {
        false => "nothing was held\n",
        true => "the hold has ended\n",
    })?;
    let still = acted.still_held.unwrap_or_default().join(", ");
    match still.is_empty() {
        true => Ok(()),
        false => print(&format!("still held: {}\n", shown(&still))),
    }
}

pub(super) async fn undo(args: &UndoArgs) -> Result<(), CliError> {
    let body = json!({ "skip": args.skip }).to_string();
    let acted = call(&args.admin, Method::POST, &args.stream, "undo", body).await?;
    let verb = acted.undone.unwrap_or_default();
    if args.skip {
        let text = format!("the {verb} was removed from the list; nothing changed\n");
        return print(&text);
    }
    let changed = acted.changed.as_ref().and_then(Value::as_array);
    let changed = changed.map_or(0, Vec::len);
    print(&format!(
        "{verb} undone; {changed} items changed on screens\n"
    ))?;
    let covered = acted.covered_by.unwrap_or_default().join(", ");
    if !covered.is_empty() {
        print(&format!("written since by {}\n", shown(&covered)))?;
    }
    match acted.exact {
        Some(false) => print("some items changed since then and were not restored\n"),
        _ => Ok(()),
    }
}

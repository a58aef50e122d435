//! What a screen shows, from where, with which key: what `url` and `save` have in common.
//!
//! **Invariant**: a key that is made here is made once and printed as part of what was asked for, nowhere else.

use reqwest::Method;

use crate::cli::client::AdminArgs;
use crate::cli::error::CliError;
use crate::cli::output::note;
use crate::cli::resource::{Resource, given};
use base::text::percent_encoded;
use catalog::key;
use wire::MadeReadKey;

/// What a screen shows.
#[derive(clap::Args)]
pub(super) struct ShownArgs {
    /// Name of the stream
    pub(super) stream: String,
    /// How it is shown
    #[arg(long, value_parser = ["table", "scoreboard", "ticker", "cards", "number", "lower-third"])]
    template: Option<String>,
    /// Option of the page, such as sort=-home.score or theme=dark; can be repeated
    #[arg(long, value_name = "NAME=VALUE", value_parser = option)]
    option: Vec<(String, String)>,
    /// Create a read key with this name for the stream, over the admin API
    #[arg(long, value_name = "NAME")]
    key: Option<String>,
    /// Existing read key; prefer the environment variable
    #[arg(long, env = "HEADGATE_READ_KEY", hide_env_values = true)]
    read_key: Option<String>,
    /// URL of the service for screens: http://host:port
    #[arg(long, env = "HEADGATE_URL", default_value = "http://127.0.0.1:8080")]
    url: String,
    #[command(flatten)]
    admin: AdminArgs,
}

/// Without the key.
impl std::fmt::Debug for ShownArgs {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ShownArgs")
            .field("stream", &self.stream)
            .field("url", &self.url)
            .finish_non_exhaustive()
    }
}

/// The same, with a key that there is.
pub(super) struct Shown {
    /// Without a slash at its end.
    pub(super) url: String,
    /// `template=table&theme=dark`
    pub(super) query: String,
    pub(super) key: String,
}

impl ShownArgs {
    /// What was given as `--option name=…`, the last time.
    pub(super) fn given(&self, name: &str) -> Option<&str> {
        let given = self.option.iter().rev().find(|(given, _)| given == name);
        given.map(|(_, value)| value.as_str())
    }

    /// Where the service is, without a slash at its end.
    pub(super) fn base(&self) -> Result<String, CliError> {
        super::base(&self.url)
    }
}

fn option(text: &str) -> Result<(String, String), &'static str> {
    let (name, value) = text.split_once('=').unwrap_or((text, ""));
    match name.is_empty() {
        true => Err("expected NAME=VALUE"),
        false => Ok((name.to_owned(), value.to_owned())),
    }
}

/// Finds the key, or makes it, for pages of these origins beside the daemon's own.
pub(super) async fn shown_as(args: &ShownArgs, origins: &[&str]) -> Result<Shown, CliError> {
    let url = args.base()?;
    if ["//127.", "//localhost", "//[::1]"]
        .iter()
        .any(|own| url.contains(own))
    {
        note("only this machine can reach the URL; set a URL that screens can reach with --url");
    }
    let template = args.template.iter().map(|name| ("template", name.as_str()));
    let options = args.option.iter();
    let options = options.map(|(name, value)| (name.as_str(), value.as_str()));
    let query: Vec<String> = template
        .chain(options)
        .map(|(name, value)| format!("{}={}", percent_encoded(name), percent_encoded(value)))
        .collect();
    Ok(Shown {
        url,
        query: query.join("&"),
        key: read_key(args, origins).await?,
    })
}

async fn read_key(args: &ShownArgs, origins: &[&str]) -> Result<String, CliError> {
    if let Some(name) = &args.key {
        let keys = Resource::new(&args.admin, "read key", "/api/admin/read-keys")?;
        let body = given([
            ("name", Some(name.as_str().into())),
            ("streams", Some(vec![args.stream.as_str()].into())),
            ("origins", Some(origins.into())),
        ]);
        let made: MadeReadKey = keys.call(Method::POST, "", Some(body)).await?;
        return Ok(made.secret);
    }
    let given = args
        .read_key
        .as_deref()
        .map(str::trim)
        .filter(|key| !key.is_empty());
    let text = given.ok_or_else(|| {
        CliError::wrong_use(
            "a screen needs a read key: create one with --key NAME, or set HEADGATE_READ_KEY to an existing one",
        )
    })?;
    if text.starts_with("ik_") {
        return Err(CliError::wrong_use(
            "this is an ingest key; a screen needs a read key, which begins with rk_",
        ));
    }
    // Pages take it from the address as it is.
    if !text.starts_with("rk_") || percent_encoded(text) != text {
        let prefix = key::prefix(text);
        return Err(CliError::wrong_use(format!(
            "this is not a read key for a screen: {prefix}…; it begins with rk_ and has letters, digits, `_` and `-`"
        )));
    }
    Ok(text.to_owned())
}

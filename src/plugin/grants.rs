//! Acts of a plugin that a sink's `config` requires and its grants do not allow.
//!
//! Checked before a sink is created at run time.
//!
//! **Invariant**: nothing is granted here: a user must add the grants to the settings.

use hyper::Uri;
use serde_json::Value;

use super::egress::Target;
use super::schema::of_built_in;
use settings::Sink;

/// Marks of a URL that the plugin calls, in the schema of its settings.
const URLS: [&str; 2] = ["url", "template:url"];
/// The place of marks.
pub(super) const MARK: &str = "x-headgate";

/// URLs in the `config` of a built-in plugin whose hosts its sink cannot call: the place, and the missing grant.
/// Otherwise the sink would be created and fail with its first batch.
pub fn ungranted(sink: &Sink) -> Vec<(String, String)> {
    let schema: Value = of_built_in(&sink.plugin)
        .and_then(|schema| serde_json::from_str(schema).ok())
        .unwrap_or_default();
    let hosts = sink.http.iter().flat_map(settings::Http::hosts);
    let hosts: Vec<settings::Host> = hosts.collect();
    let properties = schema["properties"].as_object().into_iter().flatten();
    let urls = properties.filter(|(_, property)| is_called(property));
    let ungranted = urls.filter_map(|(name, _)| {
        let target = target(sink.config.get(name)?.as_str()?)?;
        let is_granted = hosts.iter().any(|host| target.is(host));
        let message =
            format!("calls a host that the sink may not call: add \"{target}\" to `http.hosts`");
        (!is_granted).then(|| (format!("config.{name}"), message))
    });
    ungranted.collect()
}

/// Whether a setting, by its schema, is a URL that the plugin calls.
pub fn is_called(property: &Value) -> bool {
    URLS.iter().any(|mark| property[MARK] == *mark)
}

/// The host of a URL, in the form of `http.hosts`.
pub fn host_of(url: &str) -> Option<String> {
    target(url).map(|target| target.to_string())
}

/// The values of a template follow its host. A URL whose host is a value cannot be checked, and is refused by the
/// template itself.
fn target(url: &str) -> Option<Target> {
    let begins = url.split('{').next()?;
    Target::of(&begins.parse::<Uri>().ok()?)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_host_without_a_grant_is_named_as_it_must_be_written() {
        let mut sink = Sink {
            plugin: "http-forward".to_owned(),
            config: json!({"url": "http://127.0.0.1:9/in?token=hush"}),
            ..Sink::default()
        };
        let told = ungranted(&sink);
        assert_eq!(told.len(), 1);
        assert_eq!(told[0].0, "config.url");
        assert!(told[0].1.contains("\"http://127.0.0.1:9\""), "{told:?}");
        assert!(!told[0].1.contains("hush"), "{told:?}");
        sink.http = Some(settings::Http {
            hosts: vec![host_of("http://127.0.0.1:9/x").expect("a host")],
            ..settings::Http::default()
        });
        assert_eq!(ungranted(&sink), []);
        sink.config = json!({});
        assert_eq!(
            ungranted(&sink),
            [],
            "that it is missing is the schema's to say"
        );
    }
}

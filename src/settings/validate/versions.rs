//! The fields with versions that connectors of one stream read.
//!
//! **Invariant**: only what is certain by the configuration is told: a stream or a preset counts where no connector says
//! another field.

use std::borrow::Cow;
use std::collections::HashMap;

use super::Validator;
use crate::problem::quoted;
use crate::{Connector, Key, Settings};

impl Validator<'_> {
    /// Versions of one stream are compared, whichever field each of its connectors reads them from.
    pub(super) fn versions(&mut self, settings: &Settings) {
        let of_streams = settings.streams.iter();
        let of_streams: HashMap<&str, &str> = of_streams
            .filter_map(|stream| Some((&*stream.name, stream.version.as_deref()?)))
            .collect();
        let mut first: HashMap<&str, (&str, Cow<'_, str>)> = HashMap::new();
        for (index, connector) in settings.connectors.iter().enumerate() {
            let mut warned: Vec<&str> = Vec::new();
            for key in &connector.keys {
                let stream = &*key.stream;
                let of_stream = of_streams.get(stream).copied();
                let field = connector
                    .version
                    .as_deref()
                    .or(of_stream)
                    .map(Cow::Borrowed);
                let Some(field) = field.or_else(|| of_preset(connector, key)) else {
                    continue;
                };
                let known = first.entry(stream);
                let (other, before) = known.or_insert((&connector.name, field.clone()));
                if *before == field || *other == connector.name || warned.contains(&stream) {
                    continue;
                }
                warned.push(stream);
                let message = format!(
                    "the field {} orders its updates of the stream {}, but {} orders those of the connector {}. Unless their values are comparable, use one field, or give each connector its own stream",
                    quoted(&field),
                    quoted(stream),
                    quoted(before),
                    quoted(other),
                );
                self.warning(&format!("connectors[{index}].version"), message);
            }
        }
    }
}

/// The field that the preset of a connector, or of the scheme of its key, names.
fn of_preset(connector: &Connector, key: &Key) -> Option<Cow<'static, str>> {
    let scheme = key.verify.as_ref().map(|verify| &*verify.options.scheme);
    let name = connector.preset.as_deref().or(scheme)?;
    let version = webhook::preset(name)?.version.as_ref()?;
    Some(Cow::Owned(version.flat().into_owned()))
}

//! Numbers that plugins keep of themselves.
//!
//! **Invariant**: a sink has at most [`NAMES_MAX`] names, and each is one that every reader of metrics can read.

use std::collections::{HashMap, HashSet};
use std::sync::atomic::AtomicU64;
use std::sync::{Arc, Mutex, PoisonError};

use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use thiserror::Error;

use super::row::metrics;

/// Names of one sink. Plugins choose them, and each is a series.
const NAMES_MAX: usize = 100;
const NAME_BYTES_MAX: usize = 64;

type Labels = [(&'static str, String); 2];

/// Plugins choose the names.
const LABELS: &[(&str, &[&str])] = &[("sink", &[]), ("name", &[])];

metrics! {
    /// Counters and gauges of all plugins, by sink and name.
    pub struct PluginMetrics of registry {
        /// Counters of a plugin; at most 100 names per sink.
        events as "plugin_events": Family<Labels, Counter>, "defined by the plugin", labels: LABELS;
        /// Gauges of a plugin.
        values as "plugin_value": Family<Labels, Gauge<f64, AtomicU64>>, "defined by the plugin", labels: LABELS;
    } beside {
        /// The names of each sink.
        names: Mutex<HashMap<Arc<str>, HashSet<String>>> = Mutex::default();
    }
}

/// Why a number was not taken.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
pub enum InvalidMetric {
    /// Not a name.
    #[error("the name of a metric has 1 to {NAME_BYTES_MAX} letters, digits and `_`")]
    Name,
    /// One too many.
    #[error("a sink has at most {NAMES_MAX} metrics")]
    TooMany,
}

impl PluginMetrics {
    /// Adds to a counter of a sink.
    ///
    /// # Errors
    /// See [`InvalidMetric`].
    pub fn count(&self, sink: &Arc<str>, name: &str, by: u64) -> Result<(), InvalidMetric> {
        let labels = self.labels(sink, name)?;
        self.events.get_or_create(&labels).inc_by(by);
        Ok(())
    }

    /// Sets a value of a sink.
    ///
    /// # Errors
    /// See [`InvalidMetric`].
    pub fn set(&self, sink: &Arc<str>, name: &str, value: f64) -> Result<(), InvalidMetric> {
        let labels = self.labels(sink, name)?;
        self.values.get_or_create(&labels).set(value);
        Ok(())
    }

    /// Forgets the numbers of a sink that is gone.
    pub fn forget(&self, sink: &str) {
        let names = self.lock().remove(sink).unwrap_or_default();
        for name in names {
            let labels = [("sink", sink.to_owned()), ("name", name)];
            self.events.remove(&labels);
            self.values.remove(&labels);
        }
    }

    fn labels(&self, sink: &Arc<str>, name: &str) -> Result<Labels, InvalidMetric> {
        let is_name = (1..=NAME_BYTES_MAX).contains(&name.len())
            && name
                .bytes()
                .all(|byte| byte.is_ascii_alphanumeric() || byte == b'_');
        if !is_name {
            return Err(InvalidMetric::Name);
        }
        let mut names = self.lock();
        let known = names.entry(Arc::clone(sink)).or_default();
        if !known.contains(name) {
            if known.len() >= NAMES_MAX {
                return Err(InvalidMetric::TooMany);
            }
            known.insert(name.to_owned());
        }
        Ok([("sink", sink.to_string()), ("name", name.to_owned())])
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, HashMap<Arc<str>, HashSet<String>>> {
        self.names.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::metrics::Metrics;

    #[test]
    fn names_are_bounded_and_forgotten_with_their_sink() {
        let metrics = Metrics::new();
        let sink: Arc<str> = "s".into();
        assert_eq!(metrics.plugins.count(&sink, "rows", 3), Ok(()));
        assert_eq!(metrics.plugins.count(&sink, "rows", 4), Ok(()));
        assert_eq!(metrics.plugins.set(&sink, "lag", 0.5), Ok(()));
        let text = metrics.render();
        let counter = "headgate_plugin_events_total{sink=\"s\",name=\"rows\"} 7";
        assert!(text.contains(counter), "{text}");
        let gauge = "headgate_plugin_value{sink=\"s\",name=\"lag\"} 0.5";
        assert!(text.contains(gauge), "{text}");
        for name in ["", "a b", "a\"", &"a".repeat(65)] {
            let refused = metrics.plugins.count(&sink, name, 1);
            assert_eq!(refused, Err(InvalidMetric::Name), "{name}");
        }
        for number in 2..NAMES_MAX {
            assert_eq!(
                metrics.plugins.count(&sink, &format!("n{number}"), 1),
                Ok(())
            );
        }
        let refused = metrics.plugins.set(&sink, "one_more", 1.0);
        assert_eq!(refused, Err(InvalidMetric::TooMany));
        metrics.plugins.forget("s");
        assert!(!metrics.render().contains("{sink="));
        assert_eq!(metrics.plugins.set(&sink, "one_more", 1.0), Ok(()));
    }
}

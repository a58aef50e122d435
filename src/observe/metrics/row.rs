//! A metric, described once: a row for each.
//!
//! The structs of metrics, the help text of `/metrics` and the table of the guide are made of these rows.
//!
//! **Invariant**: a metric without a row is not registered.

use prometheus_client::metrics::MetricType;
use prometheus_client::registry::{Metric, Registry};

#[derive(Clone, Copy)]
pub struct MetricRow {
    /// Its name, without `headgate_` and `_total`.
    pub name: &'static str,
    /// The sentence about it, which needs no other beside it. Read it with [`MetricRow::about`].
    pub doc: &'static str,
    pub kind: MetricType,
    /// What it counts.
    pub unit: &'static str,
    /// Its labels with their values, as far as they are not names that operators or plugins give.
    pub labels: &'static [(&'static str, &'static [&'static str])],
    /// What the guide says beyond the sentence.
    pub guide: &'static str,
}

impl MetricRow {
    /// A metric without labels.
    pub(super) const fn of(
        name: &'static str,
        doc: &'static str,
        kind: MetricType,
        unit: &'static str,
    ) -> Self {
        Self {
            name,
            doc,
            kind,
            unit,
            labels: &[],
            guide: "",
        }
    }

    /// The sentence about it.
    pub fn about(&self) -> &'static str {
        self.doc.trim_start()
    }

    pub(super) fn register(&self, registry: &mut Registry, metric: impl Metric) {
        // The registry adds the full stop.
        let help = self.about().trim_end_matches('.').replace('`', "");
        registry.register(self.name, help, metric);
    }
}

/// A struct of metrics. A row is the sentence, the field, the name if it is another, the type, the value that it begins with
/// if it is not that of the type, the unit, and the words that the guide needs, which are the fields of [`MetricRow`].
/// Fields that are no metrics follow `beside`; they can name the metrics and the registry.
macro_rules! metrics {
    ($(#[doc = $about:literal])+ $vis:vis struct $Group:ident of $registry:ident { $(
        $(#[doc = $doc:literal])+
        $shown:vis $field:ident $(as $name:literal)?: $kind:ty $(= $new:expr)?, $unit:literal $(, $word:ident: $said:expr)*;
    )* } $(beside { $(
        $(#[doc = $own_doc:literal])+
        $own_shown:vis $own:ident: $own_kind:ty = $own_new:expr;
    )* })?) => {
        $(#[doc = $about])+
        #[derive(Debug)]
        $vis struct $Group {
            $($(#[doc = $doc])+ $shown $field: $kind,)*
            $($($(#[doc = $own_doc])+ $own_shown $own: $own_kind,)*)?
        }

        impl $Group {
            /// The rows.
            pub(super) const ROWS: &'static [$crate::metrics::MetricRow] = &[$($crate::metrics::MetricRow {
                $($word: $said,)*
                ..$crate::metrics::MetricRow::of(
                    $crate::metrics::row::metrics!(@name $field $($name)?),
                    concat!($($doc),+),
                    <$kind as prometheus_client::metrics::TypedMetric>::TYPE,
                    $unit,
                )
            },)*];

            /// Registers the metrics.
            pub(super) fn register($registry: &mut prometheus_client::registry::Registry) -> Self {
                let mut rows = Self::ROWS.iter();
                $(
                    let $field: $kind = $crate::metrics::row::metrics!(@new $($new)?);
                    if let Some(row) = rows.next() {
                        row.register($registry, $field.clone());
                    }
                )*
                Self { $($($own: $own_new,)*)? $($field,)* }
            }
        }
    };
    (@new) => { Default::default() };
    (@new $new:expr) => { $new };
    (@name $field:ident) => { stringify!($field) };
    (@name $field:ident $name:literal) => { $name };
}

pub(super) use metrics;

//! The limits of a connector on its page, and how much of them its keys use.
//!
//! **Invariant**: the effective limit is shown: the connector's own, or that of `[limits]`.

use maud::{Markup, html};

use crate::paths;
use crate::text::{bytes, grouped, text};
use catalog::Connector;
use operate::Operator;

/// Name, value and origin of each limit.
fn rows(operator: &Operator, connector: &Connector) -> [(&'static str, String, &'static str); 5] {
    let all = operator.catalog.limits();
    let own = |is_own: bool| if is_own { "this connector" } else { "[limits]" };
    let count = |number: u64| match number {
        0 => "unlimited".to_owned(),
        number => grouped(number),
    };
    let size = |number: u64| match number {
        0 => "unlimited".to_owned(),
        number => bytes(number),
    };
    let rate = connector.requests_per_second;
    let burst = connector.burst;
    let (second, day) = (connector.bytes_per_second, connector.bytes_per_day);
    [
        (
            "Requests per second of each key",
            grouped(rate.unwrap_or(all.requests_per_second).into()),
            own(rate.is_some()),
        ),
        (
            "Burst of each key, in requests",
            grouped(burst.unwrap_or(all.burst).into()),
            own(burst.is_some()),
        ),
        (
            "Bytes per second of each key",
            size(second.unwrap_or(all.bytes_per_second)),
            own(second.is_some()),
        ),
        (
            "Bytes per day of each key",
            size(day.unwrap_or(all.bytes_per_day)),
            own(day.is_some()),
        ),
        (
            "Items of a request",
            count(connector.max_items_per_request.into()),
            "this connector",
        ),
    ]
}

/// The limits, and the use by the keys.
pub(super) fn table(operator: &Operator, connector: &Connector) -> Markup {
    html! {
        div.table { table {
            thead { tr { th { "Limit" } th.number { "Value" } th { "Set by" } } }
            tbody { @for (name, value, origin) in rows(operator, connector) { tr {
                td data-label="Limit" { (name) }
                td.number data-label="Value" { (value) }
                td data-label="Set by" { (origin) }
            } } }
        } }
        @if !connector.keys.is_empty() {
            div.table { table {
                thead { tr { th { "Key" } th.number { "Stored today" } } }
                tbody { @for key in &connector.keys { tr {
                    td data-label="Key" { (text(&key.name)) }
                    td.number data-label="Stored today" { (bytes(key.volume.stored_today())) }
                } } }
            } }
        }
        @if connector.created_at.is_some() {
            p.row { a.button.plain href={ (paths::connector(&connector.name)) "/change" } { "Change" } }
        }
    }
}

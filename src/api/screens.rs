//! Screens, by their read keys: how each is, and loading its page again.
//!
//! **Invariant**: it shows what the page of screens shows.

use salvo_core::{Request, Router};
use salvo_oapi::{RouterExt, endpoint};

use super::{by, param};
use base::clock;
use http::envelope::{self, Listing, Success};
use http::error::ApiError;
use operate::Operator;
use operate::screens::{ScreenState, ScreenStatus};
use wire::{ReloadedScreens, ScreenData};

/// The screens.
pub(super) fn routes(operator: &Operator) -> Router {
    let reload = Router::with_path("{name}/reload").post(ReloadScreen(operator.clone()));
    Router::with_path("screens")
        .oapi_tag("renderers")
        .get(ListScreens(operator.clone()))
        .push(reload)
}

fn screen_data(screen: ScreenStatus) -> ScreenData {
    let (key, record) = (screen.key, screen.record);
    let last_seen = match screen.state {
        ScreenState::Here => None,
        _ => record.seen_at().map(clock::rfc3339),
    };
    ScreenData {
        name: key.name.to_string(),
        state: screen.state.as_str().to_owned(),
        since: screen.since.map(clock::rfc3339),
        connections: screen.connected.len() as u64,
        node: screen.elsewhere,
        last_seen,
        client: record.client,
        agent: record.agent,
        screen: record.name,
        shows: record.shows,
        size: record.size,
        version: record.version,
        interval_seconds: record.interval.map(|one| one.as_secs().max(1)),
        reason: record
            .refused
            .filter(|_| screen.state == ScreenState::Refused),
        page: key.page.clone(),
        expect: key.expect,
        away_after_seconds: key.away_after_seconds,
    }
}

struct ListScreens(Operator);

/// The screens, by the names of their read keys.
///
/// A read key is listed if a screen has connected with `screen=`, a feed was requested with it, or it has `page` or
/// `expect`.
#[endpoint(operation_id = "list_screens")]
impl ListScreens {
    async fn handle(&self) -> Listing<ScreenData> {
        let screens = self.0.screens().into_iter().map(screen_data);
        envelope::list(screens.collect(), None)
    }
}

struct ReloadScreen(Operator);

/// Reload the page of a screen.
///
/// All connections of the read key that said `screen=` are sent `control`; the pages of `/render` and those with
/// `headgate.js` obey.
#[endpoint(
    operation_id = "reload_screen",
    parameters(("name" = String, Path, description = "Name of the read key.")),
    responses(
        (status_code = 200, body = Success<ReloadedScreens>, description = "The number of notified screens."),
        (status_code = 404, description = "No such screen."),
    ),
)]
impl ReloadScreen {
    async fn handle(&self, req: &mut Request) -> Result<Success<ReloadedScreens>, ApiError> {
        let reached = self.0.reload_screen(&param(req, "name"), by(req)).await?;
        Ok(envelope::ok(ReloadedScreens {
            notified: reached as u64,
            old_notified: reached as u64,
        }))
    }
}

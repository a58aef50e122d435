//! The status of the daemon.
//!
//! **Invariant**: what is wrong is named, not only coloured: `problems` is empty exactly when
//! everything works.

use salvo_core::Router;
use salvo_oapi::{RouterExt, endpoint};

use super::sinks::sinks;
use base::clock;
use http::acts::hold_data;
use http::envelope::{self, Listing, Success};
use operate::Operator;
use operate::limits::LimitUse;
use operate::problem::Problem;
use pool::acts::ActCounts;
use wire::{
    ActCountsData, FileData, LimitData, ProblemData, ProblemItemData, RequestCounts, StatusData,
};

/// The status.
pub(super) fn routes(operator: &Operator) -> Router {
    Router::new()
        .oapi_tag("status")
        .push(Router::with_path("status").get(GetStatus(operator.clone())))
        .push(Router::with_path("problems").get(ListProblems(operator.clone())))
}

fn limit_data(limit: LimitUse) -> LimitData {
    LimitData {
        name: limit.name.to_owned(),
        unit: limit.unit.to_owned(),
        used: limit.used,
        max: limit.max,
        holder: limit.holder,
    }
}

fn problem_data(problem: Problem) -> ProblemData {
    let (subject, name) = problem.subject.named();
    ProblemData {
        kind: problem.kind.as_str().to_owned(),
        subject: subject.to_owned(),
        name: name.map(str::to_owned),
        page: problem.page(),
        sentence: problem.sentence,
    }
}

fn file_data((name, bytes): &(&'static str, u64)) -> FileData {
    FileData {
        name: (*name).to_owned(),
        bytes: *bytes,
    }
}

fn act_counts_data(acts: &ActCounts) -> ActCountsData {
    ActCountsData {
        stream: acts.stream.to_string(),
        held: acts.held.clone().map(hold_data),
        held_keys: acts.held_keys,
        waiting: acts.waiting,
        overridden: acts.overridden,
        overridden_fields: acts.fields,
    }
}

struct GetStatus(Operator);

/// The status of the daemon.
#[endpoint(
    operation_id = "status",
    responses((status_code = 200, body = Success<StatusData>, description = "The state of the daemon.")),
)]
impl GetStatus {
    async fn handle(&self) -> Success<StatusData> {
        let operator = &self.0;
        let condition = operator.condition().await;
        let amounts = operator.amounts(&condition).await;
        let problems = operator.problems(&condition);
        let (about, metrics) = (&operator.about, &operator.metrics);
        envelope::ok(StatusData {
            version: env!("CARGO_PKG_VERSION").to_owned(),
            node: operator.node().map(str::to_owned),
            profile: about.profile.clone(),
            data_dir: about.data_dir.clone(),
            durability: about.durability.to_owned(),
            started_at: clock::rfc3339(about.started_at),
            uptime_seconds: about.started.elapsed().as_secs(),
            problems: problems.iter().map(|one| one.sentence.clone()).collect(),
            problem_details: problems.into_iter().map(problem_data).collect(),
            newest_seq: operator.journal.newest().borrow().get(),
            disk_free_bytes: metrics.disk_free_bytes.get(),
            requests: RequestCounts {
                accepted: metrics.accepted.get(),
                duplicate: metrics.duplicates.get(),
                test: metrics.tests.get(),
                rejected: metrics.invalid.get()
                    + metrics.stream_not_found.get()
                    + metrics.too_large.get()
                    + metrics.rate_limited.get()
                    + metrics.stream_full.get(),
                unauthorized: metrics.unauthorized.get(),
                unavailable: metrics.unavailable.get(),
            },
            log_bytes: amounts.log_bytes,
            payload_bytes: amounts.payload_bytes,
            quarantined_payloads: condition.quarantined,
            files: condition.files.iter().map(file_data).collect(),
            sinks: sinks(operator, &condition, &amounts),
            acts: condition.acts.iter().map(act_counts_data).collect(),
            limits: (operator.limits(&amounts).into_iter())
                .map(limit_data)
                .collect(),
        })
    }
}

struct ListProblems(Operator);

/// What does not work now.
///
/// By key, as the items of the stream `_problems` are; that stream also has what was resolved in the last 24 hours.
#[endpoint(operation_id = "list_problems")]
impl ListProblems {
    async fn handle(&self) -> Listing<ProblemItemData> {
        let problems = self.0.problem_items().await.into_iter();
        let problems = problems.map(|(key, item)| ProblemItemData {
            key,
            node: item.node,
            kind: item.kind,
            subject: item.subject,
            message: item.message,
            severity: item.severity,
            since: item.since,
            page: item.page,
        });
        envelope::list(problems.collect(), None)
    }
}

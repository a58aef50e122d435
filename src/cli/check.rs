//! `headgate check`: everything that is wrong with the configuration, the plugins and the certificates, at once; or with
//! the data.
//!
//! **Invariant**: starts nothing, and writes nothing but compiled plugins where the daemon keeps them.

use std::sync::Arc;

use super::error::{CliError, WRONG_USE};
use super::output::print;
use super::{ConfigArgs, invalid_sinks, load, plugins, repair, short, stream_names};
use crate::daemon::{ConnectionLimits, DaemonError, Upgrade, database_of, look_at_formats};
use base::clock::Unix;
use base::process::{Held, kernel_holds, open_files_to_take};
use http::tls;
use observe::metrics::Metrics;
use plugin::{FolderRoots, GuestLog, Plugin, PluginError, Plugins, SinkContext};
use postgres::{DatabaseError, Finding};
use settings::{Engine, Loaded, Problem, Settings, Sink, quoted, routing_gaps};

/// Arguments of `headgate check`.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Example:
  HEADGATE_PROFILE=production headgate check --config /etc/headgate.toml
  sudo headgate check --service                  # what headgate.service runs with
  headgate check --data --output json")]
pub struct CheckArgs {
    #[command(flatten)]
    config: ConfigArgs,
    /// Check the files of the data directory instead; a daemon can be running
    #[arg(long)]
    data: bool,
    /// Output format of the result for the data
    #[arg(long, value_enum, default_value = "text", requires = "data")]
    output: repair::Output,
}

/// Runs the verb.
///
/// # Errors
/// Exit code 2 with every problem listed.
pub fn run(args: &CheckArgs) -> Result<(), CliError> {
    let loaded = load(&args.config).map_err(|error| with_profile(&args.config, error))?;
    let settings = &loaded.settings;
    if args.data {
        return repair::check(&settings.storage.data_dir, args.output);
    }
    let (mut problems, ending) = certificates(settings);
    let names = stream_names::invalid_names(&loaded);
    problems.extend(names.iter().map(Problem::to_string));
    let tried = try_sinks(&loaded, &mut problems)?;
    let warnings = database(settings, &mut problems)?;
    if !problems.is_empty() {
        return Err(CliError {
            code: WRONG_USE,
            message: problems.join("\n"),
        });
    }
    for warning in &loaded.warnings {
        print(&format!("warning: {warning}\n"))?;
    }
    for warning in ending
        .into_iter()
        .chain(stream_names::made_before(&loaded)?)
        .chain(warnings)
    {
        print(&format!("warning: {warning}\n"))?;
    }
    if let Some(shortage) = ConnectionLimits::of(settings, open_files_to_take()).shortage() {
        print(&format!("note: {shortage}\n"))?;
    }
    for upgrade in upgrades(settings)? {
        print(&format!(
            "note: the next start upgrades {}\n",
            upgrade.sentence()
        ))?;
    }
    let held = kernel_holds();
    if settings.system.confine && held != Held::Whole {
        print(&format!(
            "note: Landlock of this kernel, which system.confine uses to restrict files: {held}\n"
        ))?;
    }
    print_unsaid(&tried)?;
    let sinks = tried.iter().map(|(sink, plugin)| {
        let certain = routing_gaps::writes_pool(sink);
        (*sink, certain.or(Some(plugin.writes_pool())))
    });
    for gap in routing_gaps::gaps(&routing_gaps::declared(settings), sinks) {
        print(&format!("warning: {gap}\n"))?;
    }
    print(&format!(
        "the configuration is valid: profile {} ({}), {} streams, {} connectors, {} sinks\n",
        loaded.profile,
        args.config.profile_from(),
        settings.streams.len(),
        settings.connectors.len(),
        settings.sinks.len()
    ))
}

/// Looks at the database of a cluster. Returns warnings; what keeps a node from starting is a problem.
fn database(settings: &Settings, problems: &mut Vec<String>) -> Result<Vec<String>, CliError> {
    if settings.storage.engine == Engine::File {
        return Ok(Vec::new());
    }
    let look = async || -> Result<Vec<Finding>, DaemonError> {
        Ok(database_of(settings)?.inspect().await?)
    };
    let mut found = Ok(Vec::new());
    short(Box::pin(async {
        found = look().await;
        Ok(())
    }))?;
    let (errors, warnings) = match found {
        Ok(found) => found.into_iter().partition(|finding| finding.is_error),
        Err(error) => {
            problems.push(match error {
                DaemonError::Database(DatabaseError::Newer { .. }) => error.to_string(),
                error => format!("{error}; correct cluster.urls, or start the database"),
            });
            (Vec::new(), Vec::new())
        }
    };
    let sentences = |found: Vec<Finding>| found.into_iter().map(|finding| finding.sentence);
    problems.extend(sentences(errors));
    Ok(sentences(warnings).collect())
}

/// What is wrong, and in which profile.
fn with_profile(args: &ConfigArgs, error: CliError) -> CliError {
    CliError {
        message: format!("{}\nthe profile is {}", error.message, args.profile_from()),
        ..error
    }
}

/// Which sinks can write the data pool without being allowed to.
fn print_unsaid(tried: &[(&Sink, Plugin)]) -> Result<(), CliError> {
    let unsaid =
        |(sink, plugin): &&(&Sink, Plugin)| plugin.asks_for_pool() && sink.writes().is_unsaid();
    for (sink, _) in tried.iter().filter(unsaid) {
        let streams: Vec<String> = sink.streams.iter().map(|name| quoted(name)).collect();
        print(&format!(
            "warning: the plugin of sink {} can write the data pool, but the sink is not allowed to: add writes = [{}] to its section, or writes = [] to keep it so\n",
            sink.name,
            streams.join(", ")
        ))?;
    }
    Ok(())
}

/// What a start would upgrade; what would keep it from doing so is a problem.
fn upgrades(settings: &Settings) -> Result<Vec<Upgrade>, CliError> {
    // The copies of a node are upgraded when all nodes can be.
    if settings.storage.engine == Engine::Postgres {
        return Ok(Vec::new());
    }
    look_at_formats(&settings.storage.data_dir).map_err(|error| CliError {
        code: WRONG_USE,
        message: error.to_string(),
    })
}

/// What is wrong with the certificates of the listeners; and those that end soon, with which a listener starts all the same.
fn certificates(settings: &Settings) -> (Vec<String>, Vec<String>) {
    let (mut problems, mut ending) = (Vec::new(), Vec::new());
    let listeners = [
        ("service", "server.tls", &settings.server.tls),
        ("admin", "admin.tls", &settings.admin.tls),
    ];
    for (listener, setting, tls) in listeners {
        match tls.as_ref().map(tls::look) {
            None => {}
            Some(Err(wrong)) => {
                problems.extend(wrong.iter().map(|wrong| format!("{setting}: {wrong}")));
            }
            Some(Ok(terms)) => {
                let now = Unix::now();
                let found = terms.iter().map(|term| term.problem(listener, now));
                ending.extend(found.flatten());
            }
        }
    }
    (problems, ending)
}

/// The sinks whose plugins start with their settings; what is wrong with the others is a problem each.
fn try_sinks<'a>(
    loaded: &'a Loaded,
    problems: &mut Vec<String>,
) -> Result<Vec<(&'a Sink, Plugin)>, CliError> {
    let settings = &loaded.settings;
    let data_dir = &settings.storage.data_dir;
    let plugins = plugins(data_dir, (&settings.plugins).into())?;
    let plugins = plugins.with_roots(FolderRoots::of(data_dir, settings));
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .map_err(|error| CliError::failed(format!("cannot start the runtime: {error}")))?;
    let mut tried = Vec::new();
    for (index, sink) in settings.sinks.iter().enumerate() {
        let invalid_sinks = invalid_sinks(loaded, index);
        if !invalid_sinks.is_empty() {
            problems.extend(invalid_sinks.iter().map(Problem::to_string));
            continue;
        }
        match runtime.block_on(try_out(&plugins, sink)) {
            Ok(plugin) => tried.push((sink, plugin)),
            Err(error) => {
                let message = format!("sink {}: {error}", sink.name);
                let problem = loaded.problem(&format!("sinks[{index}]"), message);
                problems.push(problem.to_string());
            }
        }
    }
    Ok(tried)
}

/// Loads the plugin, starts it, and gives it its settings.
async fn try_out(plugins: &Plugins, sink: &Sink) -> Result<Plugin, PluginError> {
    let metrics = Arc::new(Metrics::new());
    let context = SinkContext::new(sink, None, &metrics, &GuestLog::new(&sink.name));
    let plugin = plugins.load(sink)?;
    plugin.start(&context).await?;
    Ok(plugin)
}

//! `headgate preset test`: presets tried, each with a secret that is made for it.
//!
//! **Invariant**: signatures are checked by what a daemon checks them with, and samples go through its pipeline.

mod captured;
mod stored;

use std::path::{Path, PathBuf};

use super::super::error::CliError;
use super::super::output::{note, print, shown};
use uuid::Uuid;

use base::clock::Unix;
use client::configuration::{ConfigArgs, use_presets};
use client::preset::preset;
use stored::Storing;
use webhook::format::{Draft, FILE_LEN_MAX};
use webhook::{Preset, PresetOrigin, Trial, Tried, questions, vectors};

/// Arguments of `headgate preset test`.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  headgate preset test presets/kick.toml
  headgate preset test github stripe
  headgate preset test presets/kick.toml --delivery captured.http --secret-file kick.pem

Exit codes: 1 if a test fails, 2 if a file is not a preset. Without a vector (a captured delivery), a preset is only
checked against itself: a wrong template passes.")]
pub(super) struct TestArgs {
    /// Files, or names of presets; without any, all presets
    #[arg(value_name = "FILE")]
    presets: Vec<String>,
    /// File with a delivery that was captured: the lines of its headers, an empty line, its body
    #[arg(long, value_name = "FILE", requires = "secret_file")]
    delivery: Option<PathBuf>,
    /// File with the secret that the delivery was signed with; `-`: standard input
    #[arg(long, value_name = "FILE", requires = "delivery")]
    secret_file: Option<PathBuf>,
    /// An option of the preset that the delivery needs; can be repeated
    #[arg(long = "option", value_name = "NAME=VALUE", value_parser = option, requires = "delivery")]
    options: Vec<(String, String)>,
    /// Print the secret in the vector, too
    #[arg(long, requires = "delivery")]
    with_secret: bool,
    #[command(flatten)]
    config: ConfigArgs,
}

fn option(text: &str) -> Result<(String, String), String> {
    let (name, value) = text.split_once('=').ok_or("expected NAME=VALUE")?;
    Ok((name.to_owned(), value.to_owned()))
}

pub(super) async fn run(args: &TestArgs) -> Result<(), CliError> {
    use_presets(&args.config)?;
    let presets = named(&args.presets)?;
    if let (Some(delivery), Some(secret)) = (&args.delivery, &args.secret_file) {
        return match presets.as_slice() {
            [preset] => captured::run(preset, delivery, secret, args),
            _ => Err(CliError::wrong_use(
                "with --delivery, name one preset: the preset of the delivery",
            )),
        };
    }
    let storing = Storing::open(&presets).await?;
    let (mut failed, mut unproved) = (Vec::new(), 0);
    for preset in &presets {
        let name = shown(&preset.name);
        let mut wrong = 0;
        for one in tried(preset, &storing).await {
            let what = shown(&one.what);
            match &one.wrong {
                None => print(&format!("ok    {name} {what}\n"))?,
                Some(why) => print(&format!("FAIL  {name} {what}: {}\n", shown(why)))?,
            }
            wrong += usize::from(one.wrong.is_some());
        }
        if preset.proved() == "itself" {
            unproved += 1;
            print(&format!(
                "      {name} is only checked against itself: it has no vector of a captured delivery\n"
            ))?;
        }
        if wrong > 0 {
            failed.push(name);
        }
    }
    storing.close().await;
    match failed.as_slice() {
        [] => {
            let count = presets.len();
            let of = if count == 1 {
                "preset passes"
            } else {
                "presets pass"
            };
            note(&format!(
                "{count} {of}, {unproved} of them only against themselves"
            ));
            Ok(())
        }
        names => Err(CliError::failed(format!("failed: {}", names.join(", ")))),
    }
}

/// All that can be tried of a preset.
async fn tried(preset: &'static Preset, storing: &Storing) -> Vec<Tried> {
    let mut tried = Vec::new();
    let trials = match Trial::all(preset) {
        Ok(trials) => trials,
        Err(why) => return vec![Tried::of("secret", Some(why))],
    };
    for sample in &preset.samples {
        // Each is a delivery of its own.
        let id = Uuid::now_v7().to_string();
        let of = |one: Tried| Tried::of(format!("{}: {}", sample.event, one.what), one.wrong);
        let signed = trials
            .iter()
            .flat_map(|trial| trial.of_sample(sample, &id, Unix::now()));
        tried.extend(signed.map(of));
        if !preset.signed() || !trials.is_empty() {
            tried.push(of(storing.of_sample(preset, sample, &id).await));
        }
    }
    tried.extend(questions(preset));
    tried.extend(vectors(preset));
    if tried.is_empty() {
        tried.push(Tried::of(
            "has no sample, and only the tool can sign one",
            None,
        ));
    }
    tried
}

/// The presets of these names and files.
fn named(names: &[String]) -> Result<Vec<&'static Preset>, CliError> {
    if names.is_empty() {
        return Ok(webhook::presets());
    }
    let (mut drafts, mut found) = (Vec::new(), Vec::new());
    for name in names {
        let path = Path::new(name);
        match name.ends_with(".toml") || name.contains('/') {
            true => {
                let draft = read(path)?;
                found.push(draft.name().to_owned());
                drafts.push(draft);
            }
            false => found.push(name.clone()),
        }
    }
    let known = webhook::own().into_iter().cloned().collect();
    let own = webhook::resolve_own(known, &[drafts]).map_err(|(origin, error)| {
        CliError::wrong_use(format!("{}: {error}", shown(origin.shown())))
    })?;
    webhook::set_own(own);
    found.iter().map(|name| preset(name)).collect()
}

/// A preset of a file, named as the file is.
fn read(path: &Path) -> Result<Draft, CliError> {
    let wrong = |error: &dyn std::fmt::Display| {
        CliError::wrong_use(format!("{}: {error}", shown(&path.display().to_string())))
    };
    let size = std::fs::metadata(path)
        .map_err(|error| wrong(&error))?
        .len();
    if size > FILE_LEN_MAX as u64 {
        return Err(wrong(&format!("a preset has at most {FILE_LEN_MAX} bytes")));
    }
    let text = std::fs::read_to_string(path).map_err(|error| wrong(&error))?;
    let name = path.file_stem().unwrap_or_default().to_string_lossy();
    let origin = PresetOrigin::Own(path.display().to_string());
    Draft::parse(&name, origin, &text).map_err(|error| wrong(&error))
}

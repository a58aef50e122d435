//! `headgate licenses`: what the program is made of, under which licenses, with their texts.
//!
//! Called by the command line. `licenses.json.gz` is made of Cargo.lock by `examples/deploy/release/licenses`; a test
//! holds one to the other.
//!
//! **Invariant**: reads nothing but what is in the program, and contacts nobody.

use std::fmt::Write as _;
use std::io::Read as _;

use flate2::read::GzDecoder;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::error::CliError;
use super::output::{Table, json_pretty, print};

const CONTENTS: &[u8] = include_bytes!("licenses.json.gz");
const VERSION: &str = env!("CARGO_PKG_VERSION");
const LICENSE: &str = "Apache-2.0";

/// Arguments of `headgate licenses`.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  headgate licenses | less
  headgate licenses --output cyclonedx > headgate.cdx.json")]
pub struct LicensesArgs {
    /// Output format
    #[arg(long, value_enum, default_value_t = Output::Text)]
    output: Output,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
enum Output {
    /// A table, and the texts of the licenses.
    Text,
    /// A JSON array without the texts.
    Json,
    /// A bill of materials for programs that look for known vulnerabilities: CycloneDX 1.5.
    Cyclonedx,
}

#[derive(Debug, Deserialize)]
struct Contents {
    components: Vec<Component>,
    texts: Vec<String>,
}

/// What somebody else has written and this program contains.
#[derive(Debug, Serialize, Deserialize)]
struct Component {
    name: String,
    version: String,
    license: String,
    /// Of the crate's archive; `None`: it is no crate of its own.
    #[serde(skip_serializing_if = "Option::is_none")]
    sha256: Option<String>,
    /// Which of the texts are its own.
    #[serde(skip_serializing)]
    texts: Vec<usize>,
}

/// Runs the verb.
///
/// # Errors
/// Nothing can be printed.
pub fn run(args: &LicensesArgs) -> Result<(), CliError> {
    let contents = read()?;
    match args.output {
        Output::Text => print(&text(&contents)),
        Output::Json => print(&json_pretty(&contents.components)?),
        Output::Cyclonedx => print(&json_pretty(&bill(&contents))?),
    }
}

fn read() -> Result<Contents, CliError> {
    let mut whole = String::new();
    let read = GzDecoder::new(CONTENTS).read_to_string(&mut whole);
    let damaged = |error: &dyn std::error::Error| {
        CliError::failed(format!("this program is damaged: its licenses: {error}"))
    };
    read.map_err(|error| damaged(&error))?;
    serde_json::from_str(&whole).map_err(|error| damaged(&error))
}

fn text(contents: &Contents) -> String {
    let mut table = Table::new(&["NAME", "VERSION", "LICENSE"]);
    for component in &contents.components {
        table.row(&[&component.name, &component.version, &component.license]);
    }
    let mut text = format!(
        "Headgate {VERSION} is published under the license {LICENSE}. It contains:\n\n{table}"
    );
    for (index, license) in contents.texts.iter().enumerate() {
        let users = contents.components.iter();
        let users = users.filter(|component| component.texts.contains(&index));
        let names: Vec<&str> = users.map(|component| &*component.name).collect();
        let line = "=".repeat(80);
        let _ = write!(text, "\n{line}\n{}\n{line}\n\n{license}", names.join(", "));
    }
    text
}

/// The bill of materials. It has no date and no number of its own: it is the same for the same program.
fn bill(contents: &Contents) -> Value {
    let own = format!("pkg:cargo/headgate@{VERSION}");
    let components: Vec<Value> = contents.components.iter().map(listed).collect();
    let parts: Vec<&Value> = components.iter().map(|part| &part["bom-ref"]).collect();
    json!({
        "$schema": "http://cyclonedx.org/schema/bom-1.5.schema.json",
        "bomFormat": "CycloneDX",
        "specVersion": "1.5",
        "version": 1,
        "metadata": {
            "component": {
                "type": "application",
                "bom-ref": own,
                "name": "headgate",
                "version": VERSION,
                "licenses": [{"expression": LICENSE}],
                "purl": own,
                "properties": [{"name": "headgate:build", "value": super::BUILD}],
            },
        },
        "components": components,
        "dependencies": [{"ref": own, "dependsOn": parts}],
    })
}

fn listed(component: &Component) -> Value {
    let (name, version) = (&component.name, &component.version);
    let kind = match component.sha256 {
        Some(_) => "cargo",
        None => "generic",
    };
    let url = format!("pkg:{kind}/{name}@{version}");
    let mut listed = json!({
        "type": "library",
        "bom-ref": url,
        "name": name,
        "version": version,
        "licenses": [{"expression": component.license}],
        "purl": url,
    });
    if let Some(digest) = &component.sha256 {
        listed["hashes"] = json!([{"alg": "SHA-256", "content": digest}]);
    }
    listed
}

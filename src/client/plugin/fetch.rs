//! Components from files, web servers and registries.
//!
//! **Invariant**: manifests and components from a registry have the requested digest. Nothing is fetched without TLS,
//! and credentials are sent only to the named host.

use std::path::Path;
use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use reqwest::header::{ACCEPT, AUTHORIZATION, HeaderValue, WWW_AUTHENTICATE};
use reqwest::{Client, Response, StatusCode, Url, redirect};
use serde::Deserialize;
use sha2::{Digest as _, Sha256};

use crate::client::reason;
use crate::error::CliError;
use crate::output::shown;
use base::text::hex;

/// Maximum bytes of a component, whatever `plugins.file_max_bytes` is.
pub(super) const COMPONENT_BYTES_MAX: u64 = 1 << 30;
/// Maximum bytes of a manifest.
const MANIFEST_BYTES_MAX: u64 = 4 << 20;
const TIME_MAX: Duration = Duration::from_secs(60);
const REDIRECTS_MAX: usize = 5;
const MANIFESTS: &str = "application/vnd.oci.image.manifest.v1+json, application/vnd.docker.distribution.manifest.v2+json";

/// Who signs in to a registry.
#[derive(Debug, Clone, Default, clap::Args)]
pub(super) struct SignIn {
    /// User of the registry
    #[arg(long, env = "HEADGATE_REGISTRY_USER", value_name = "USER")]
    registry_user: Option<String>,
    /// Password of the registry
    #[arg(
        long,
        env = "HEADGATE_REGISTRY_PASSWORD",
        hide_env_values = true,
        value_name = "PASSWORD"
    )]
    registry_password: Option<String>,
}

impl SignIn {
    fn both(&self) -> Option<(&str, &str)> {
        self.registry_user
            .as_deref()
            .zip(self.registry_password.as_deref())
    }
}

/// A component, with its name and its source.
#[derive(Debug)]
pub(super) struct Fetched {
    pub(super) name: String,
    pub(super) source: String,
    pub(super) component: Bytes,
}

impl Fetched {
    /// The digest of the component, 64 hex digits.
    pub(super) fn sha256(&self) -> String {
        hex(&Sha256::digest(&self.component))
    }

    /// Rejects a component with another digest.
    pub(super) fn must_be(&self, sha256: Option<&str>) -> Result<(), CliError> {
        match sha256 {
            Some(wanted) if !wanted.eq_ignore_ascii_case(&self.sha256()) => {
                Err(CliError::failed(format!(
                    "{} has the SHA-256 {}, not {}: nothing was added",
                    shown(&self.source),
                    self.sha256(),
                    shown(wanted)
                )))
            }
            _ => Ok(()),
        }
    }
}

/// Fetches a component.
///
/// # Errors
/// It does not exist, is too large or too slow, or has another digest.
pub(super) async fn fetch(source: &str, sign_in: &SignIn) -> Result<Fetched, CliError> {
    let fetched = async {
        match source.split_once("://") {
            Some(("https", _)) => of_web(source).await,
            Some(("oci", place)) => of_registry(source, place, sign_in).await,
            Some(_) => Err(CliError::wrong_use(format!(
                "`{}` cannot be fetched: give a file, https://… or oci://…",
                shown(source)
            ))),
            None => of_file(source),
        }
    };
    match tokio::time::timeout(TIME_MAX, fetched).await {
        Ok(fetched) => fetched,
        Err(_) => Err(failed(
            source,
            &format!("it took longer than {} s", TIME_MAX.as_secs()),
        )),
    }
}

fn failed(source: &str, reason: &str) -> CliError {
    CliError::failed(format!("cannot fetch {}: {reason}", shown(source)))
}

fn of_file(source: &str) -> Result<Fetched, CliError> {
    let path = Path::new(source);
    let read = || {
        let whole = std::fs::canonicalize(path)?;
        Ok((std::fs::read(&whole)?, whole))
    };
    let (component, whole) = read().map_err(|error: std::io::Error| {
        CliError::wrong_use(format!("cannot read {}: {error}", shown(source)))
    })?;
    let name = path.file_stem().unwrap_or_default().to_string_lossy();
    Ok(Fetched {
        name: name.into_owned(),
        source: whole.to_string_lossy().into_owned(),
        component: component.into(),
    })
}

/// A client that follows redirects only to URLs with TLS.
fn client() -> Result<Client, CliError> {
    let policy = redirect::Policy::custom(|attempt| {
        if attempt.url().scheme() != "https" {
            return attempt.error("it redirects to an address without TLS");
        }
        match attempt.previous().len() > REDIRECTS_MAX {
            true => attempt.error("it redirects too often"),
            false => attempt.follow(),
        }
    });
    let client = Client::builder().redirect(policy).https_only(true).build();
    client.map_err(|error| CliError::failed(format!("cannot set up HTTP: {error}")))
}

async fn of_web(source: &str) -> Result<Fetched, CliError> {
    let url = Url::parse(source).map_err(|error| failed(source, &error.to_string()))?;
    let last = url
        .path_segments()
        .and_then(Iterator::last)
        .unwrap_or_default();
    let name = last.strip_suffix(".wasm").unwrap_or(last).to_owned();
    let answer = client()?.get(url).send().await;
    let answer = answer.map_err(|error| failed(source, &reason(error)))?;
    Ok(Fetched {
        name,
        source: source.to_owned(),
        component: body(source, answer, COMPONENT_BYTES_MAX).await?.into(),
    })
}

/// The body of a successful response.
async fn body(source: &str, mut answer: Response, bytes_max: u64) -> Result<Vec<u8>, CliError> {
    if answer.status() != StatusCode::OK {
        return Err(failed(
            source,
            &format!("the server answers {}", answer.status()),
        ));
    }
    let mut body = Vec::new();
    while let Some(chunk) = answer
        .chunk()
        .await
        .map_err(|error| failed(source, &reason(error)))?
    {
        body.extend_from_slice(&chunk);
        if body.len() as u64 > bytes_max {
            return Err(failed(
                source,
                &format!("it has more than {bytes_max} bytes"),
            ));
        }
    }
    Ok(body)
}

#[derive(Debug, Deserialize)]
struct Manifest {
    #[serde(default)]
    layers: Vec<Layer>,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Layer {
    media_type: String,
    digest: String,
}

impl Manifest {
    /// The digest of the component: of the only layer, or of the only layer with the type of WebAssembly.
    fn component(&self) -> Option<&str> {
        let wasm = |layer: &&Layer| layer.media_type == "application/wasm";
        let mut found = match &self.layers[..] {
            [only] => return only.digest.strip_prefix("sha256:"),
            all => all.iter().filter(wasm),
        };
        let first = found.next()?;
        match found.next() {
            Some(_) => None,
            None => first.digest.strip_prefix("sha256:"),
        }
    }
}

/// `host/repository@sha256:digest`
async fn of_registry(source: &str, place: &str, sign_in: &SignIn) -> Result<Fetched, CliError> {
    let named = place.split_once('/').and_then(|(host, rest)| {
        let (repository, digest) = rest.rsplit_once("@sha256:")?;
        let is_digest = digest.len() == 64 && digest.bytes().all(|byte| byte.is_ascii_hexdigit());
        (is_digest && !repository.is_empty()).then_some((host, repository, digest))
    });
    let Some((host, repository, digest)) = named else {
        return Err(CliError::wrong_use(format!(
            "`{}` is not a component in a registry: give oci://HOST/REPOSITORY@sha256:DIGEST; a tag may mean something else tomorrow",
            shown(source)
        )));
    };
    let mut registry = Registry {
        source,
        base: format!("https://{host}/v2/{repository}"),
        client: client()?,
        sign_in,
        credentials: None,
    };
    let manifest = registry
        .get(&format!("manifests/sha256:{digest}"), MANIFEST_BYTES_MAX)
        .await?;
    check(source, "the manifest", &manifest, digest)?;
    let manifest: Manifest = serde_json::from_slice(&manifest)
        .map_err(|error| failed(source, &format!("its manifest cannot be read: {error}")))?;
    let layer = manifest.component().ok_or_else(|| {
        failed(
            source,
            "its manifest has not exactly one layer of the type application/wasm",
        )
    })?;
    let component = registry
        .get(&format!("blobs/sha256:{layer}"), COMPONENT_BYTES_MAX)
        .await?;
    check(source, "the component", &component, layer)?;
    let name = repository.rsplit('/').next().unwrap_or(repository);
    Ok(Fetched {
        name: name.to_owned(),
        source: source.to_owned(),
        component: component.into(),
    })
}

fn check(source: &str, what: &str, bytes: &[u8], digest: &str) -> Result<(), CliError> {
    let found = hex(&Sha256::digest(bytes));
    match found.eq_ignore_ascii_case(digest) {
        true => Ok(()),
        false => Err(failed(
            source,
            &format!("{what} has the SHA-256 {found}, not {digest}"),
        )),
    }
}

struct Registry<'a> {
    source: &'a str,
    base: String,
    client: Client,
    sign_in: &'a SignIn,
    /// The credentials for the registry.
    credentials: Option<HeaderValue>,
}

impl Registry<'_> {
    async fn get(&mut self, below: &str, bytes_max: u64) -> Result<Vec<u8>, CliError> {
        let mut answer = self.ask(below).await?;
        if answer.status() == StatusCode::UNAUTHORIZED && self.credentials.is_none() {
            let challenge = answer.headers().get(WWW_AUTHENTICATE);
            let challenge = challenge
                .and_then(|value| value.to_str().ok())
                .unwrap_or_default();
            let credentials = self.answer_to(challenge).await?;
            let credentials = HeaderValue::try_from(credentials);
            let mut credentials = credentials.map_err(|_| {
                failed(
                    self.source,
                    "the registry's token cannot be sent in a header",
                )
            })?;
            credentials.set_sensitive(true);
            self.credentials = Some(credentials);
            answer = self.ask(below).await?;
        }
        body(self.source, answer, bytes_max).await
    }

    async fn ask(&self, below: &str) -> Result<Response, CliError> {
        let request = self.client.get(format!("{}/{below}", self.base));
        let mut request = request.header(ACCEPT, MANIFESTS);
        if let Some(credentials) = &self.credentials {
            request = request.header(AUTHORIZATION, credentials.clone());
        }
        let answer = request.send().await;
        answer.map_err(|error| failed(self.source, &reason(error)))
    }

    /// The credentials that a challenge requires.
    async fn answer_to(&self, challenge: &str) -> Result<String, CliError> {
        let (scheme, rest) = challenge.split_once(' ').unwrap_or((challenge, ""));
        let own = self.sign_in.both();
        if scheme.eq_ignore_ascii_case("basic") {
            let basic = own.map(|(user, password)| basic(user, password));
            return basic.ok_or_else(|| {
                failed(
                    self.source,
                    "the registry wants to be signed in to; set HEADGATE_REGISTRY_USER and HEADGATE_REGISTRY_PASSWORD",
                )
            });
        }
        let parameter = |name: &str| parameter(rest, name);
        let (true, Some(realm)) = (scheme.eq_ignore_ascii_case("bearer"), parameter("realm"))
        else {
            return Err(failed(
                self.source,
                "the registry answers 401 and does not say how to sign in",
            ));
        };
        let names = ["service", "scope"].into_iter();
        let query: Vec<_> = names
            .filter_map(|name| Some((name, parameter(name)?)))
            .collect();
        let realm = Url::parse_with_params(&realm, query);
        let realm = realm
            .map_err(|error| failed(self.source, &format!("the registry's realm: {error}")))?;
        let mut request = self.client.get(realm);
        if let Some((user, password)) = own {
            request = request.basic_auth(user, Some(password));
        }
        let answer = request
            .send()
            .await
            .map_err(|error| failed(self.source, &reason(error)))?;
        let token: serde_json::Value =
            serde_json::from_slice(&body(self.source, answer, MANIFEST_BYTES_MAX).await?)
                .unwrap_or_default();
        let token = token["token"].as_str().or(token["access_token"].as_str());
        let token = token.ok_or_else(|| failed(self.source, "the registry gives no token"))?;
        Ok(format!("Bearer {token}"))
    }
}

/// The value of a parameter of a challenge: `name="value"`.
fn parameter(challenge: &str, name: &str) -> Option<String> {
    let begin = format!("{name}=\"");
    let (_, rest) = challenge.split_once(&*begin)?;
    let (value, _) = rest.split_once('"')?;
    Some(value.to_owned())
}

fn basic(user: &str, password: &str) -> String {
    format!("Basic {}", STANDARD.encode(format!("{user}:{password}")))
}

#[cfg(test)]
mod tests;

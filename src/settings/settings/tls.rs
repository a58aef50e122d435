//! `tls` of a listener: its certificate, and those of its clients.
//!
//! **Invariant**: `certificate` and `key` are paths of files; [`load`](crate::config::load) sees to it.

use std::path::PathBuf;

use serde::{Deserialize, Serialize};

/// `[server.tls]`, `[admin.tls]`: with it the listener takes encrypted connections only, TLS 1.2 or 1.3.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Tls {
    /// PEM: the certificate, and those that stand between it and a root. Read again when the file changes.
    pub certificate: PathBuf,
    /// PEM: its private key, as PKCS#8, PKCS#1 or SEC1.
    pub key: PathBuf,
    /// PEM: who shows a certificate must have one that one of these has issued. None: any will do, and what it may do its
    /// fingerprint says.
    pub client_ca: Option<PathBuf>,
    /// Whether clients show one.
    pub client_certificates: ClientCertificates,
}

/// Whether clients show a certificate.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum ClientCertificates {
    /// None is asked for.
    #[default]
    None,
    /// Who has one may show it.
    Optional,
    /// Without one there is no connection.
    Required,
}

impl Tls {
    /// The files that it names.
    pub fn files(&self) -> impl Iterator<Item = &PathBuf> {
        [
            Some(&self.certificate),
            Some(&self.key),
            self.client_ca.as_ref(),
        ]
        .into_iter()
        .flatten()
    }
}

//! `tls` of a listener: its certificate, and those of its clients.
//!
//! **Invariant**: `certificate` and `key` are paths of files; [`load`](crate::load) sees to it.

use std::path::PathBuf;

use serde::{Deserialize, Serialize};

use crate::record::record;

record! {
    /// `[server.tls]`, `[admin.tls]`: with it the listener takes encrypted connections only, TLS 1.2 or 1.3.
    #[derive(Eq)]
    pub struct Tls {
        /// PEM file of the certificate, followed by its intermediate certificates. It is read again when it changes.
        certificate: PathBuf, File, required: true;
        /// PEM file of the private key, as PKCS#8, PKCS#1 or SEC1.
        key: PathBuf, File, required: true;
        /// PEM file of the authorities that must have issued the certificates of clients.
        client_ca: Option<PathBuf>, File, none: "any certificate, which its fingerprint identifies";
        /// Whether clients show a certificate: `none`, `optional` or `required`.
        client_certificates: ClientCertificates, Choice(&["none", "optional", "required"]);
    }
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

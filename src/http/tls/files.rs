//! The files of the setting `tls`: the certificate of a listener with its key, and the root certificates for its
//! clients.
//!
//! Listeners are built from them; `headgate check` only reads them.
//!
//! **Invariant**: the unusable files are all reported together, each with its setting.

use std::path::Path;

use rustls::RootCertStore;
use rustls::pki_types::pem::{self, PemObject as _};
use rustls::pki_types::{CertificateDer, PrivateKeyDer};

use operate::certificates::{Term, Whose};
use settings::Tls;

/// The content of the files.
pub(super) struct Read {
    pub(super) chain: Vec<CertificateDer<'static>>,
    pub(super) key: PrivateKeyDer<'static>,
    pub(super) roots: Option<RootCertStore>,
    /// The expiry of the certificates.
    pub(super) terms: Vec<Term>,
}

/// Reads the files. All are reported, so that an operator does not correct one and meet the next.
///
/// # Errors
/// A sentence about each unusable file.
pub(super) fn read(tls: &Tls) -> Result<Read, Vec<String>> {
    let chain = certificates("certificate", &tls.certificate);
    let key = PrivateKeyDer::from_pem_file(&tls.key).map_err(|error| {
        let hint =
            "requires a private key in PEM, as PKCS#8, PKCS#1 or SEC1, that no password protects";
        unusable("key", &tls.key, &error, hint)
    });
    let roots = tls.client_ca.as_deref().map(roots).transpose();
    let (chain, key, roots) = match (chain, key, roots) {
        (Ok(chain), Ok(key), Ok(roots)) => (chain, key, roots),
        (chain, key, roots) => {
            let wrong = [chain.err(), key.err(), roots.err()];
            return Err(wrong.into_iter().flatten().collect());
        }
    };
    // A chain expires with its first certificate that expires.
    let own = terms_of(&chain, &tls.certificate, Whose::Listener);
    let own = own.into_iter().min_by_key(|term| term.ends_at);
    let (roots, issuer) = roots.unzip();
    let terms = own.into_iter().chain(issuer.flatten()).collect();
    Ok(Read {
        chain,
        key,
        roots,
        terms,
    })
}

/// The root certificates, and the latest expiry: the roots are independent of each other.
fn roots(path: &Path) -> Result<(RootCertStore, Option<Term>), String> {
    let certificates = certificates("client_ca", path)?;
    let terms = terms_of(&certificates, path, Whose::Clients);
    let mut roots = RootCertStore::empty();
    for root in certificates {
        roots.add(root).map_err(|error| {
            let path = path.display();
            format!("client_ca: {path} has a certificate that cannot be read ({error}); put whole ones there, as they were issued")
        })?;
    }
    Ok((roots, terms.into_iter().max_by_key(|term| term.ends_at)))
}

fn certificates(setting: &str, path: &Path) -> Result<Vec<CertificateDer<'static>>, String> {
    let read = CertificateDer::pem_file_iter(path).and_then(Iterator::collect);
    let hint = "requires certificates in PEM, which begin with \"-----BEGIN CERTIFICATE-----\"";
    let chain: Vec<_> = read.map_err(|error| unusable(setting, path, &error, hint))?;
    match chain.is_empty() {
        true => Err(unusable(setting, path, &pem::Error::NoItemsFound, hint)),
        false => Ok(chain),
    }
}

fn unusable(setting: &str, path: &Path, error: &pem::Error, hint: &str) -> String {
    let path = path.display();
    match error {
        pem::Error::Io(error) => format!(
            "{setting}: {path} cannot be read: {error}; put the file there and let the daemon's user read it, or name another"
        ),
        pem::Error::NoItemsFound => {
            format!("{setting}: {path} has nothing of the expected kind; this setting {hint}")
        }
        error => format!("{setting}: {path} is damaged: {error}; this setting {hint}"),
    }
}

/// The expiry of certificates. A certificate whose validity cannot be read is left out.
fn terms_of(certificates: &[CertificateDer<'_>], path: &Path, whose: Whose) -> Vec<Term> {
    let times = certificates.iter().filter_map(|one| webhook::validity(one));
    let terms = times.map(|counts| Term {
        file: path.display().to_string(),
        whose,
        begins_at: counts.start,
        ends_at: counts.end,
    });
    terms.collect()
}

//! TLS of a listener: its certificate, and those of its clients.
//!
//! `listen` builds it, the daemon reloads it after a change of the files, and `headgate check` verifies that it can be
//! built.
//!
//! **Invariant**: unusable files change nothing. Only TLS 1.2 and 1.3 are supported. Without `client_ca`, a client
//! certificate proves only that the client has its private key, so its fingerprint determines what the client can do.

mod files;

use std::sync::Arc;

use arc_swap::ArcSwap;
use rustls::client::danger::HandshakeSignatureValid;
use rustls::crypto::{self, CryptoProvider, ring};
use rustls::pki_types::{CertificateDer, UnixTime};
use rustls::server::WebPkiClientVerifier;
use rustls::server::danger::{ClientCertVerified, ClientCertVerifier};
use rustls::version::{TLS12, TLS13};
use rustls::{
    DigitallySignedStruct, DistinguishedName, Error, RootCertStore, ServerConfig, ServerConnection,
    SignatureScheme,
};
use salvo_core::Request;
use sha2::{Digest as _, Sha256};
use tokio_rustls::TlsAcceptor;

use operate::certificates::Term;
use settings::{ClientCertificates, Tls};

/// TLS configuration for new connections of a listener.
#[derive(Clone)]
pub struct Encryption {
    /// It is exchanged as a whole, so that a certificate is renewed without closing connections.
    acceptor: Arc<ArcSwap<TlsAcceptor>>,
    terms: Arc<ArcSwap<Vec<Term>>>,
}

impl std::fmt::Debug for Encryption {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.write_str("Encryption")
    }
}

impl Encryption {
    /// Reads the files.
    pub(super) fn of(tls: &Tls) -> Result<Self, String> {
        let (server, terms) = server(tls).map_err(|wrong| wrong.join("; "))?;
        let acceptor = TlsAcceptor::from(Arc::new(server));
        Ok(Self {
            acceptor: Arc::new(ArcSwap::from_pointee(acceptor)),
            terms: Arc::new(ArcSwap::from_pointee(terms)),
        })
    }

    /// Reloads the files, for new connections.
    ///
    /// # Errors
    /// A sentence about each unusable file; the previous configuration stays in effect.
    pub fn renew(&self, tls: &Tls) -> Result<(), String> {
        let (server, terms) = server(tls).map_err(|wrong| wrong.join("; "))?;
        let acceptor = TlsAcceptor::from(Arc::new(server));
        self.acceptor.store(Arc::new(acceptor));
        self.terms.store(Arc::new(terms));
        Ok(())
    }

    /// The expiry of the certificates in use.
    pub fn terms(&self) -> Vec<Term> {
        self.terms.load().to_vec()
    }

    /// What completes the handshake of a new connection.
    pub(super) fn acceptor(&self) -> TlsAcceptor {
        TlsAcceptor::clone(&self.acceptor.load())
    }
}

/// The expiry of the certificates that a listener would use.
///
/// # Errors
/// A sentence about each unusable file.
pub fn look(tls: &Tls) -> Result<Vec<Term>, Vec<String>> {
    server(tls).map(|(_, terms)| terms)
}

fn server(tls: &Tls) -> Result<(ServerConfig, Vec<Term>), Vec<String>> {
    let provider = Arc::new(ring::default_provider());
    let files::Read {
        chain,
        key,
        roots,
        terms,
    } = files::read(tls)?;
    let builder = ServerConfig::builder_with_provider(Arc::clone(&provider))
        .with_protocol_versions(&[&TLS13, &TLS12])
        .map_err(|error| vec![error.to_string()])?;
    let builder = match client_verifier(tls, roots, provider).map_err(|wrong| vec![wrong])? {
        None => builder.with_no_client_auth(),
        Some(verifier) => builder.with_client_cert_verifier(verifier),
    };
    let mut server = builder.with_single_cert(chain, key).map_err(|error| {
        let (certificate, key) = (tls.certificate.display(), tls.key.display());
        vec![format!(
            "{certificate} and {key} cannot be used together: {error}; put the key there that the first certificate of the file was issued for"
        )]
    })?;
    server.alpn_protocols = vec![b"http/1.1".to_vec()];
    Ok((server, terms))
}

fn client_verifier(
    tls: &Tls,
    roots: Option<RootCertStore>,
    provider: Arc<CryptoProvider>,
) -> Result<Option<Arc<dyn ClientCertVerifier>>, String> {
    let is_mandatory = match tls.client_certificates {
        ClientCertificates::None => return Ok(None),
        ClientCertificates::Optional => false,
        ClientCertificates::Required => true,
    };
    let Some(roots) = roots else {
        return Ok(Some(Arc::new(AnyCertificate {
            provider,
            is_mandatory,
        })));
    };
    let builder = WebPkiClientVerifier::builder_with_provider(Arc::new(roots), provider);
    let builder = match is_mandatory {
        true => builder,
        false => builder.allow_unauthenticated(),
    };
    let verifier = builder
        .build()
        .map_err(|error| format!("client_ca: {error}"))?;
    Ok(Some(verifier))
}

/// Accepts any certificate whose private key the client has. The fingerprint decides, because keys and tokens name it.
#[derive(Debug)]
struct AnyCertificate {
    provider: Arc<CryptoProvider>,
    is_mandatory: bool,
}

impl ClientCertVerifier for AnyCertificate {
    fn client_auth_mandatory(&self) -> bool {
        self.is_mandatory
    }

    fn root_hint_subjects(&self) -> &[DistinguishedName] {
        &[]
    }

    fn verify_client_cert(
        &self,
        _: &CertificateDer<'_>,
        _: &[CertificateDer<'_>],
        _: UnixTime,
    ) -> Result<ClientCertVerified, Error> {
        Ok(ClientCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        let algorithms = &self.provider.signature_verification_algorithms;
        crypto::verify_tls12_signature(message, certificate, signed, algorithms)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        let algorithms = &self.provider.signature_verification_algorithms;
        crypto::verify_tls13_signature(message, certificate, signed, algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        let algorithms = &self.provider.signature_verification_algorithms;
        algorithms.supported_schemes()
    }
}

/// The SHA-256 of the client's certificate, in the extensions of a request.
#[derive(Debug, Clone, Copy)]
pub(super) struct ClientCertificate(pub(super) [u8; 32]);

/// The SHA-256 of the certificate that a client proved to have.
pub(super) fn digest_of_client(connection: &ServerConnection) -> Option<[u8; 32]> {
    let certificate = connection.peer_certificates()?.first()?;
    Some(Sha256::digest(certificate).into())
}

/// The SHA-256 of the client's certificate.
pub(super) fn fingerprint(req: &Request) -> Option<[u8; 32]> {
    let certificate = req.extensions().get::<ClientCertificate>()?;
    Some(certificate.0)
}

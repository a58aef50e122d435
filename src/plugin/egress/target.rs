//! The target of a request: scheme, host and port of its URL.
//!
//! **Invariant**: operators see the target in the form of the setting `hosts`.

use hyper::Uri;

/// The target of a request.
#[derive(Debug, Clone)]
pub(crate) struct Target {
    pub(super) encrypted: bool,
    pub(super) host: String,
    pub(super) port: u16,
}

impl Target {
    pub(crate) fn of(uri: &Uri) -> Option<Self> {
        let encrypted = match uri.scheme_str()? {
            "https" => true,
            "http" => false,
            _ => return None,
        };
        let authority = uri.authority()?;
        // A name and a password in a URL are the guest's way around the headers of the configuration.
        if authority.as_str().contains('@') {
            return None;
        }
        let port = match authority.port() {
            Some(port) => Some(port.as_u16()).filter(|port| *port > 0)?,
            None => settings::default_port(encrypted),
        };
        let host = authority.host().to_ascii_lowercase();
        Some(Self {
            encrypted,
            host,
            port,
        })
    }

    /// Whether a setting lists this host.
    pub(crate) fn is(&self, host: &settings::Host) -> bool {
        host.matches(self.encrypted, &self.host, self.port)
    }

    /// The value of the header `Host`.
    pub(super) fn authority(&self) -> String {
        if self.port == settings::default_port(self.encrypted) {
            self.host.clone()
        } else {
            format!("{}:{}", self.host, self.port)
        }
    }
}

/// The form in the setting `hosts`. An operator can copy it from a message into the settings.
impl std::fmt::Display for Target {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let scheme = if self.encrypted { "" } else { "http://" };
        write!(f, "{scheme}{}", self.authority())
    }
}

//! How many connections each listener may have open at once, by what the system allows.
//!
//! **Invariant**: both listeners together leave [`RESERVE`] of the open files to databases, plugins and what sinks
//! call; the admin listener has connections of its own, which the service cannot take from it.

use settings::Settings;

/// Open files that are not for connections.
const RESERVE: usize = 256;
/// The admin listener serves people and programs that watch, not the world. A quarter of the files at most is for it,
/// so that the service has the most.
const ADMIN_MAX: usize = 256;
/// What each listener has even where the system allows next to nothing.
const LEAST: usize = 8;

/// Connections open at once.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ConnectionLimits {
    /// On the service listener.
    pub service: usize,
    /// Of one client, on the service listener. At most half of all, so that one client leaves some to others.
    pub of_address: usize,
    /// On the admin listener.
    pub admin: usize,
    wanted: usize,
    open_files: usize,
}

impl ConnectionLimits {
    /// What the settings want, as far as so many open files allow.
    pub fn of(settings: &Settings, open_files: usize) -> Self {
        let wanted = settings.server.connections_max;
        let for_connections = open_files.saturating_sub(RESERVE);
        let admin = wanted.min(ADMIN_MAX).min(for_connections / 4).max(LEAST);
        let service = wanted.min(for_connections.saturating_sub(admin).max(LEAST));
        Self {
            service,
            of_address: settings
                .server
                .connections_per_address_max
                .min(service / 2)
                .max(LEAST),
            admin,
            wanted,
            open_files,
        }
    }

    /// That it is less than the settings want, if it is.
    pub fn shortage(&self) -> Option<String> {
        (self.service < self.wanted).then(|| {
            format!(
                "server.connections_max is {}, but the limit of {} open files allows only {}; raise LimitNOFILE or `ulimit -Hn`",
                self.wanted, self.open_files, self.service
            )
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn connections_leave_files_for_everything_else() {
        fn check(wanted: usize, open_files: usize, service: usize, admin: usize) {
            let mut settings = Settings::default();
            settings.server.connections_max = wanted;
            let limits = ConnectionLimits::of(&settings, open_files);
            assert_eq!(
                (limits.service, limits.admin),
                (service, admin),
                "{wanted} of {open_files}"
            );
            assert_eq!(limits.shortage().is_some(), service < wanted);
        }
        check(20_000, 524_288, 20_000, 256);
        check(20_000, 20_000, 19_488, 256);
        check(20_000, 1_024, 576, 192);
        check(100, 1_024, 100, 100);
        check(2, 1_024, 2, 8);
        check(20_000, 300, 33, 11);
        check(20_000, 64, 8, 8);
    }
}

//! A standby of a test's server, which can take its place.

use super::{PASSWORD, Place, Postgres, STEP_MAX, USER, free_port, give_to_server};

impl Postgres {
    /// A standby of this server, whose commits wait for it from then on. It listens where a server did that is gone, or on a
    /// port of its own.
    pub fn standby(&self, instead_of: Option<&Postgres>) -> Postgres {
        let place = instead_of.and_then(|gone| gone.place.clone());
        self.standby_at(place, instead_of.map_or_else(free_port, |gone| gone.port))
    }

    /// The same at a place, which needs root.
    pub fn standby_in(&self, place: &Place) -> Postgres {
        self.standby_at(Some(place.clone()), free_port())
    }

    fn standby_at(&self, place: Option<Place>, port: u16) -> Postgres {
        let folder = tempfile::tempdir().expect("a temporary folder");
        give_to_server(&[folder.path()]);
        let mut standby = Postgres {
            programs: self.programs.clone(),
            place,
            port,
            folder,
            server: None,
        };
        let primary = format!(
            "host={} port={} user={USER} password={PASSWORD} application_name=standby",
            self.host(),
            self.port
        );
        let copied = standby
            .program("pg_basebackup")
            .args(["--pgdata", "data", "--write-recovery-conf", "--no-sync"])
            .args(["--checkpoint", "fast", "--dbname", &primary])
            .output()
            .expect("pg_basebackup starts");
        assert!(copied.status.success(), "{copied:?}");
        standby.resume();
        self.query("ALTER SYSTEM SET synchronous_standby_names = 'standby'");
        self.query("SELECT pg_reload_conf()");
        standby
    }

    /// The standby takes the place of its primary, which is gone.
    pub fn promote(&self) {
        let seconds = STEP_MAX.as_secs();
        assert_eq!(
            self.query(&format!("SELECT pg_promote(true, {seconds})")),
            "t"
        );
    }
}

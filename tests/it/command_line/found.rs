//! How verbs of operators find the daemon: as its configuration says, whatever else stands there.

use std::process::Child;

use super::{Done, finish, headgate, run};
use crate::wait::eventually;

/// Two daemons on one machine: a verb that asks the wrong one sees another stream, or is refused.
struct Site {
    folder: tempfile::TempDir,
    daemon: Child,
}

impl Site {
    fn start(stream: &str) -> Self {
        let folder = tempfile::tempdir().expect("a folder");
        let at = |name: &str| folder.path().join(name).display().to_string();
        let settings = format!(
            "[server]\nlisten = \"unix:{}\"\n[admin]\nlisten = \"unix:{}\"\n[storage]\ndata_dir = \"{}\"\n\
             [[streams]]\nname = \"{stream}\"\n[[connectors]]\nname = \"shop\"\nkind = \"webhook\"\n\
             keys = [{{ name = \"main\", stream = \"{stream}\", secret = {{ env = \"KEY_OF_THE_SHOP\" }} }}]\n",
            at("service.sock"),
            at("admin.sock"),
            at("kept"),
        );
        std::fs::write(folder.path().join("own.toml"), settings).expect("a file");
        let key = run(folder.path(), ["key", "new"]).ok();
        let key = key.lines().next().expect("a key").to_owned();
        let daemon = headgate(folder.path())
            .args(["serve", "--config", "own.toml"])
            .env("KEY_OF_THE_SHOP", key)
            .spawn()
            .expect("it starts");
        let site = Self { folder, daemon };
        eventually("it listens", || {
            let done = site.ask(&["sink", "list"]);
            (done.code == Some(0)).then_some(())
        });
        site
    }

    /// A verb with this configuration, in another folder, and without the secrets of the daemon.
    fn ask(&self, args: &[&str]) -> Done {
        let elsewhere = tempfile::tempdir().expect("a folder");
        let own = self.folder.path().join("own.toml");
        let mut verb = headgate(elsewhere.path());
        finish(verb.args(args).arg("--config").arg(own), "")
    }
}

impl Drop for Site {
    fn drop(&mut self) {
        let _ = self.daemon.kill();
        let _ = self.daemon.wait();
    }
}

#[test]
fn verbs_ask_the_daemon_of_the_configuration() {
    let (one, other) = (Site::start("orders"), Site::start("trains"));
    for (site, own, foreign) in [(&one, "orders", "trains"), (&other, "trains", "orders")] {
        let listed = site.ask(&["stream", "list"]).ok();
        assert!(
            listed.contains(own) && !listed.contains(foreign),
            "{listed}"
        );
        assert!(site.ask(&["status"]).ok().contains("pool"));
        site.ask(&["screen", "new", "lobby", "--stream", own]).ok();
        assert!(site.folder.path().join("kept/pages/lobby.html").is_file());
    }
    // A variable does the same.
    let own = one.folder.path().join("own.toml");
    let mut verb = headgate(other.folder.path());
    let listed = finish(
        verb.args(["stream", "list"]).env("HEADGATE_CONFIG", own),
        "",
    );
    assert!(listed.ok().contains("orders"));
    // What an option says goes before.
    let told = one.ask(&["stream", "list", "--data-dir", "elsewhere"]);
    let told = told.failed(2);
    assert!(told.contains("elsewhere/admin.token"), "{told}");
    let told = one.ask(&["stream", "list", "--admin-url", "http://127.0.0.1:9"]);
    assert!(told.failed(1).contains("127.0.0.1:9"));
}

#[test]
fn a_configuration_that_does_not_say_where_the_daemon_is_is_no_guess() {
    let folder = tempfile::tempdir().expect("a folder");
    for (settings, says) in [
        ("[admin]\nlisten = 5\n", "admin.listen"),
        ("[admin\n", "wrong.toml"),
        ("[admin]\nlisten = \"127.0.0.1:0\"\n", "--admin-url"),
    ] {
        std::fs::write(folder.path().join("wrong.toml"), settings).expect("a file");
        let told = run(folder.path(), ["sink", "list", "--config", "wrong.toml"]).failed(2);
        assert!(told.contains(says), "{told}");
    }
    let told = run(folder.path(), ["sink", "list", "--config", "none.toml"]).failed(2);
    assert!(told.contains("none.toml"), "{told}");
}

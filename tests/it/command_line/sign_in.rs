//! Links that sign in to the admin pages: who is given one, and where it is not printed.

use std::process::{Command, Stdio};

use rustix::process::{Pid, Signal, kill_process};

use super::{finish, headgate, operate, run};
use crate::pages::Site;
use crate::process::{INVITATION, Process, skipped};
use crate::program::{Lines, wait};
use crate::setup::Setup;

/// Uses a link, as its page does; the status.
fn opened(process: &Process, link: &str) -> u16 {
    let begin = format!("http://{}/sign-in#", process.admin);
    let secret = link.strip_prefix(&begin);
    let secret = secret.unwrap_or_else(|| panic!("{link}"));
    assert!(secret.starts_with("once_"), "{link}");
    Site::of(process).sign_in(secret).status
}

#[test]
fn where_a_log_may_keep_what_is_printed_the_daemon_says_how_to_get_a_link_and_prints_none() {
    let setup = Setup::with_streams(&["orders"]).without_token();
    let process = setup.spawn();
    let told = process.printed();
    let command = told.strip_prefix("to sign in to the admin pages: ");
    let command = command.unwrap_or_else(|| panic!("{told}"));
    let program = env!("CARGO_BIN_EXE_headgate");
    let mut shell = Command::new("sh");
    shell.args(["-c", &command.replacen("headgate", program, 1)]);
    shell.current_dir(setup.path(""));
    let told = finish(&mut shell, "").ok();
    let link = told.strip_prefix(INVITATION).expect("a link").trim();
    assert_eq!(opened(&process, link), 303);
    process.stop();
}

#[test]
fn a_link_that_the_command_line_gets_works_once_and_ends_the_one_before_it() {
    let process = Setup::with_streams(&["orders"]).spawn();
    let first = process.sign_in_link();
    let second = process.sign_in_link();
    assert_eq!(opened(&process, &first), 401);
    assert_eq!(opened(&process, &second), 303);
    assert_eq!(opened(&process, &second), 401);
    let trail = process.admin("/api/admin/audit");
    let links = trail.as_array().expect("entries").iter();
    let links = links.filter(|one| one["action"] == "create" && one["kind"] == "sign_in_link");
    assert_eq!(links.count(), 2, "{trail}");
    let (_, secret) = second.split_once('#').expect("a secret");
    assert!(!trail.to_string().contains(secret) && !process.log().contains(secret));

    let folder = process.setup.path("");
    let refused = run(&folder, ["sign-in", "--admin-url", "unix:admin.sock"]).failed(2);
    assert!(refused.contains("browsers cannot open"), "{refused}");
    let stranger = ["sign-in", "--token", "wrong", "--admin-url"].map(str::to_owned);
    let url = format!("http://{}", process.admin);
    let refused = run(&folder, stranger.into_iter().chain([url])).failed(1);
    assert!(refused.contains("admin.token"), "{refused}");
    let plain = operate(&process, ["sign-in"]).ok();
    assert_eq!(plain.lines().count(), 1, "{plain}");
}

#[test]
fn whoever_asks_for_it_at_the_start_gets_a_link_without_a_terminal() {
    let setup = Setup::with_streams(&["orders"]);
    let mut command = Command::new(env!("CARGO_BIN_EXE_headgate"));
    command.args(["serve", "--invite", "--config", "headgate.toml"]);
    let process = setup.spawn_as(command).expect("it starts");
    let told = process.printed();
    let link = told.strip_prefix(INVITATION).expect("a link");
    assert_eq!(opened(&process, link), 303);
    process.stop();
}

#[test]
fn a_person_at_a_terminal_is_shown_a_link() {
    if Command::new("script").arg("--version").output().is_err() {
        let reason = "there is no program `script`";
        assert!(std::env::var_os("CI").is_none(), "{reason}");
        return skipped("a_person_at_a_terminal_is_shown_a_link", reason);
    }
    let folder = tempfile::tempdir().expect("a folder");
    let program = env!("CARGO_BIN_EXE_headgate");
    // What `script` runs has a terminal of its own.
    let mut terminal = Command::new("script");
    for (name, _) in headgate(folder.path()).get_envs() {
        terminal.env_remove(name);
    }
    let child = terminal
        .args(["--quiet", "--flush", "--return", "--command"])
        .arg(format!("echo $$; exec '{program}' serve"))
        .arg("/dev/null")
        .current_dir(folder.path())
        .env("HEADGATE_PROFILE", "test")
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .spawn();
    let mut child = child.expect("it starts");
    let mut lines = Lines::of(child.stdout.take().expect("piped"));
    let id = lines.next().and_then(|id| id.trim().parse().ok());
    let id = id.and_then(Pid::from_raw).expect("a process id");
    let link = lines.find_map(|line| Some(line.split_once(INVITATION)?.1.to_owned()));
    kill_process(id, Signal::TERM).expect("it runs");
    assert!(link.expect("a link").contains("/sign-in#once_"));
    assert_eq!(wait(&mut child).code(), Some(0));
}

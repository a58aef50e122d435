//! Plugins that are added, replaced, taken back and removed while their sinks run, from files, a web server and a
//! registry.

use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use serde_json::{Value, json};
use sha2::{Digest as _, Sha256};

use super::refusal;
use crate::command_line::{Done, admin_args, finish, headgate, operate};
use crate::encrypted::pair;
use crate::guests::guest;
use crate::process::{BY_ID, Process, skipped};
use crate::program::output;
use crate::setup::Setup;
use crate::wait::eventually;
use postgres_server::free_port;

fn sha256_of(path: impl AsRef<Path>) -> String {
    let bytes = std::fs::read(path).expect("a file");
    let digest = Sha256::digest(bytes);
    digest.iter().map(|byte| format!("{byte:02x}")).collect()
}

fn plugin(process: &Process, name: &str) -> Value {
    process.admin(&format!("/api/admin/plugins/{name}"))
}

fn add(process: &Process, source: &str, more: &[&str]) -> Done {
    operate(process, [&["plugin", "add", source], more].concat())
}

/// The sink `own`, which writes the stream with the plugin `mine`.
fn uses_it(process: &Process) {
    let sink =
        json!({"name": "own", "plugin": "mine", "streams": ["orders"], "writes": ["orders"]});
    process.make("/api/admin/sinks", &sink).data(201);
}

fn file_of(process: &Process) -> PathBuf {
    process.setup.data_dir().join("plugins/mine.wasm")
}

#[test]
fn a_plugin_is_added_replaced_taken_back_and_removed_without_a_restart() {
    let setup = Setup::with_streams(&["orders", "others"]).sink("pool", "pool", "others", "");
    let process = setup.spawn();
    let (first, second) = (guest("keeps_order"), guest("hesitates"));
    let added = add(&process, &first, &["--name", "mine"]).ok();
    assert!(
        added.contains("mine 0.0.0 (sha256 ") && added.contains("is added"),
        "{added}"
    );
    let listed = plugin(&process, "mine");
    assert_eq!(listed["kind"], "store");
    assert_eq!(listed["sha256"], sha256_of(&first));
    assert_eq!(listed["source"], first);
    assert_eq!(listed["previous"], json!([]));
    uses_it(&process);
    process.processed("orders", BY_ID, r#"{"id": "a"}"#);

    let replaced = add(&process, &second, &["--name", "mine"]).ok();
    assert!(replaced.contains("is replaced"), "{replaced}");
    assert_eq!(
        plugin(&process, "mine")["previous"],
        json!([sha256_of(&first)])
    );
    assert_eq!(sha256_of(file_of(&process)), sha256_of(&second));
    process.processed("orders", BY_ID, r#"{"id": "b"}"#);

    // One that does not start leaves everything as it is, and nothing behind.
    let refused = add(&process, &guest("calls"), &["--name", "mine"]).failed(1);
    assert!(
        refused.contains(
            "nothing was changed, because the sink \"own\" does not start with this component"
        ),
        "{refused}"
    );
    let folder = setup.path("");
    let text = folder.join("text.wasm");
    std::fs::write(&text, "no component").expect("room");
    let refused = add(&process, &text.display().to_string(), &["--name", "mine"]).failed(1);
    assert!(
        refused.contains("the component cannot be used"),
        "{refused}"
    );
    assert_eq!(plugin(&process, "mine")["sha256"], sha256_of(&second));
    let kept = std::fs::read_dir(setup.data_dir().join("plugins/store")).expect("a folder");
    assert_eq!(kept.count(), 2);

    let back = operate(&process, ["plugin", "rollback", "mine"]).ok();
    assert!(back.contains("mine is 0.0.0 (sha256 "), "{back}");
    let now = plugin(&process, "mine");
    assert_eq!(now["sha256"], sha256_of(&first));
    assert_eq!(now["previous"], json!([sha256_of(&second)]));
    process.processed("orders", BY_ID, r#"{"id": "c"}"#);

    let used = operate(&process, ["plugin", "remove", "mine"]).failed(1);
    assert!(used.contains("the plugin is used by own"), "{used}");
    process.call("DELETE", "/api/admin/sinks/own", "").data(200);
    operate(&process, ["plugin", "remove", "mine"]).ok();
    assert!(!file_of(&process).exists());
    let gone = process.call("GET", "/api/admin/plugins/mine", "");
    assert_eq!(refusal(&gone, 404).0, "PLUGIN_NOT_FOUND");
    let audit = process.list("/api/admin/audit?kind=plugin");
    let actions: Vec<_> = audit.iter().map(|one| &one["action"]).collect();
    assert_eq!(actions, ["remove", "rollback", "replace", "add"]);
    process.stop();
}

#[test]
fn what_an_operator_puts_there_by_hand_counts_and_content_that_was_changed_does_not() {
    let setup = Setup::with_streams(&["orders"]);
    let process = setup.spawn();
    let (first, second) = (guest("keeps_order"), guest("hesitates"));
    for name in ["pool", "a/b", "", "x.y"] {
        let told = add(&process, &first, &["--name", name]);
        assert_ne!(told.code, Some(0), "{name}");
    }
    add(&process, &first, &["--name", "mine"]).ok();
    add(&process, &second, &["--name", "mine"]).ok();
    let content = setup
        .data_dir()
        .join(format!("plugins/store/{}.wasm", sha256_of(&first)));
    std::fs::write(&content, "something else").expect("it is changed");
    let told = operate(&process, ["plugin", "rollback", "mine"]).failed(1);
    assert!(
        told.contains("is not the component that was added: its SHA-256 is"),
        "{told}"
    );
    assert_eq!(plugin(&process, "mine")["sha256"], sha256_of(&second));
    let told = add(&process, &first, &["--name", "mine", "--sha256", "00"]).failed(1);
    assert!(told.contains("not 00: nothing was added"), "{told}");

    std::fs::copy(&first, file_of(&process)).expect("by hand");
    assert_eq!(plugin(&process, "mine")["kind"], "file");
    for verb in [
        &["add", &*first, "--name", "mine"][..],
        &["rollback", "mine"],
        &["remove", "mine"],
    ] {
        let told = operate(&process, [&["plugin"], verb].concat()).failed(1);
        assert!(
            told.contains("mine.wasm in the plugins directory was put there by hand"),
            "{told}"
        );
    }
    let told = operate(&process, ["plugin", "update", "mine"]).failed(2);
    assert!(told.contains("nobody knows where it comes from"), "{told}");
    process.stop();
}

#[test]
fn after_a_kill_a_plugin_is_the_one_before_or_the_one_after() {
    let setup = Setup::with_streams(&["orders", "others"]).sink("pool", "pool", "others", "");
    let both = [guest("keeps_order"), guest("hesitates")];
    let mut process = setup.spawn();
    add(&process, &both[0], &["--name", "mine"]).ok();
    uses_it(&process);
    let digests = both.each_ref().map(sha256_of);
    for round in 0..6 {
        let mut adding = headgate(&setup.path(""));
        adding.args(["plugin", "add", &both[(round + 1) % 2], "--name", "mine"]);
        adding
            .args(admin_args(&process))
            .stdout(Stdio::null())
            .stderr(Stdio::null());
        let mut adding = adding.spawn().expect("it starts");
        let lock = setup.data_dir().join("plugins/plugins.lock");
        let before = std::fs::read(&lock).expect("a file");
        let unfinished = lock.with_extension("unfinished");
        // In the middle of it: when content, lock or file is written, or just afterwards.
        eventually("it is under way", || {
            let is_done = std::fs::read(&lock).is_ok_and(|now| now != before);
            let ended = adding.try_wait().expect("a child").is_some();
            (is_done || ended || unfinished.exists()).then_some(())
        });
        process.kill();
        adding.wait().expect("it ends");
        process = setup.spawn();
        let now = plugin(&process, "mine");
        assert_eq!(now["kind"], "store", "{now}");
        let sha256 = now["sha256"].as_str().expect("a digest");
        assert!(digests.iter().any(|one| one == sha256), "{now}");
        assert_eq!(sha256_of(file_of(&process)), sha256);
        process.processed("orders", BY_ID, &format!("{{\"id\": {round}}}"));
    }
    process.stop();
}

#[test]
fn an_archive_brings_plugins_to_another_daemon() {
    let process = Setup::with_streams(&["orders"]).spawn();
    let other = Setup::with_streams(&["orders"]).spawn();
    add(&process, &guest("keeps_order"), &["--name", "mine"]).ok();
    add(&process, &guest("hesitates"), &["--name", "yours"]).ok();
    let archive = process.setup.path("plugins.tar").display().to_string();
    let exported = operate(
        &process,
        ["plugin", "export", "mine", "yours", "--to", &archive],
    )
    .ok();
    assert!(exported.contains("2 plugins are in"), "{exported}");
    let added = add(&other, &archive, &[]).ok();
    assert_eq!(added.lines().count(), 2, "{added}");
    for name in ["mine", "yours"] {
        let (here, there) = (plugin(&process, name), plugin(&other, name));
        assert_eq!(here["sha256"], there["sha256"]);
        assert_eq!(here["source"], there["source"]);
    }
    let told = operate(&process, ["plugin", "export", "none", "--to", &archive]).failed(1);
    assert!(told.contains("no such plugin"), "{told}");
    process.stop();
    other.stop();
}

/// A server that ends with the test.
struct Server(Child);

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn starts(command: &mut Command, port: u16) -> Server {
    let server = command.stdout(Stdio::null()).stderr(Stdio::null()).spawn();
    let server = Server(server.expect("it starts"));
    eventually("the server listens", || {
        std::net::TcpStream::connect(("127.0.0.1", port)).ok()
    });
    server
}

#[test]
fn components_come_from_web_servers_and_registries() {
    const TEST: &str = "components_come_from_web_servers_and_registries";
    for program in ["nginx", "docker-registry", "curl", "openssl"] {
        if output(Command::new(program).arg("--help")).is_err() {
            return skipped(TEST, &format!("there is no {program}"));
        }
    }
    let setup = Setup::with_streams(&["orders"]);
    let process = setup.spawn();
    let folder = setup.path("");
    let tls = pair(&setup, "server");
    let (certificate, key) = (tls.certificate.display(), tls.key.display());
    let (web_port, registry_port) = (free_port(), free_port());
    std::fs::copy(guest("keeps_order"), folder.join("cart.wasm")).expect("room");
    std::fs::write(folder.join("token"), r#"{"token": "let-me-in"}"#).expect("room");
    let nginx = format!(
        "pid {0}nginx.pid; error_log {0}nginx.log; daemon off; events {{}}\nhttp {{ access_log off; \
         client_body_temp_path {0}body; proxy_temp_path {0}proxy; fastcgi_temp_path {0}fastcgi; \
         uwsgi_temp_path {0}uwsgi; scgi_temp_path {0}scgi;\nserver {{ listen 127.0.0.1:{web_port} ssl; \
         ssl_certificate {certificate}; ssl_certificate_key {key}; root {0}; \
         location = /moved {{ return 302 /cart.wasm; }}\n\
         location = /away {{ return 302 http://127.0.0.1:{web_port}/cart.wasm; }} }} }}\n",
        folder.join("").display()
    );
    std::fs::write(folder.join("nginx.conf"), nginx).expect("room");
    let mut command = Command::new("nginx");
    let _web = starts(command.arg("-c").arg(folder.join("nginx.conf")), web_port);
    let registry = format!(
        "version: 0.1\nstorage: {{filesystem: {{rootdirectory: {}}}}}\n\
         http: {{addr: \"127.0.0.1:{registry_port}\", tls: {{certificate: {certificate}, key: {key}}}}}\n\
         auth: {{silly: {{realm: \"https://127.0.0.1:{web_port}/token\", service: tests}}}}\n",
        folder.join("registry").display()
    );
    std::fs::write(folder.join("registry.yml"), registry).expect("room");
    let mut command = Command::new("docker-registry");
    let _registry = starts(
        command.arg("serve").arg(folder.join("registry.yml")),
        registry_port,
    );
    let adds = |source: &str| {
        let mut command = headgate(&folder);
        command
            .args(["plugin", "add", source])
            .args(admin_args(&process));
        finish(command.env("SSL_CERT_FILE", &tls.certificate), "")
    };

    let web = format!("https://127.0.0.1:{web_port}");
    adds(&format!("{web}/cart.wasm")).ok();
    assert_eq!(
        plugin(&process, "cart")["source"],
        format!("{web}/cart.wasm")
    );
    adds(&format!("{web}/moved")).ok();
    assert_eq!(
        plugin(&process, "moved")["sha256"],
        sha256_of(guest("keeps_order"))
    );
    let told = adds(&format!("{web}/away")).failed(1);
    assert!(
        told.contains("it redirects to an address without TLS"),
        "{told}"
    );
    let told = adds(&format!("{web}/none.wasm")).failed(1);
    assert!(told.contains("the server answers 404"), "{told}");
    let updates = || {
        let mut command = headgate(&folder);
        command
            .args(["plugin", "update", "cart"])
            .args(admin_args(&process));
        finish(command.env("SSL_CERT_FILE", &tls.certificate), "").ok()
    };
    assert_eq!(updates(), "cart is up to date\n");
    std::fs::copy(guest("hesitates"), folder.join("cart.wasm")).expect("room");
    assert!(updates().contains("cart 0.0.0 (sha256 "));
    assert_eq!(
        plugin(&process, "cart")["sha256"],
        sha256_of(guest("hesitates"))
    );

    let registry = format!("127.0.0.1:{registry_port}");
    let digest = pushed(
        &folder,
        &registry,
        &tls.certificate,
        Path::new(&guest("keeps_order")),
    );
    adds(&format!("oci://{registry}/tools/basket@sha256:{digest}")).ok();
    assert_eq!(
        plugin(&process, "basket")["sha256"],
        sha256_of(guest("keeps_order"))
    );
    let other = "0".repeat(64);
    let told = adds(&format!("oci://{registry}/tools/basket@sha256:{other}")).failed(1);
    assert!(told.contains("the server answers 404"), "{told}");
    process.stop();
}

/// Puts a component into a registry, as its own tools do; the digest of its manifest.
fn pushed(folder: &Path, registry: &str, certificate: &Path, component: &Path) -> String {
    let push = |method: &str, path: &str, kind: &str, file: &Path| {
        let mut curl = Command::new("curl");
        curl.args([
            "--silent",
            "--show-error",
            "--fail",
            "--location",
            "--cacert",
        ])
        .arg(certificate)
        .args([
            "-H",
            "Authorization: Bearer let-me-in",
            "-X",
            method,
            "-D",
            "-",
            "-o",
            "/dev/null",
        ])
        .args(["-H", &format!("Content-Type: {kind}"), "--data-binary"])
        .arg(format!("@{}", file.display()))
        .arg(if path.starts_with("https:") {
            path.to_owned()
        } else {
            format!("https://{registry}/v2/{path}")
        });
        finish(&mut curl, "").ok()
    };
    let empty = folder.join("empty.json");
    std::fs::write(&empty, "{}").expect("room");
    let mut layers = Vec::new();
    for (file, kind) in [
        (&*empty, "application/json"),
        (component, "application/wasm"),
    ] {
        let begun = push(
            "POST",
            "tools/basket/blobs/uploads/",
            kind,
            Path::new("/dev/null"),
        );
        let place = begun.lines().find_map(|line| {
            let (name, value) = line.split_once(": ")?;
            name.eq_ignore_ascii_case("location").then_some(value)
        });
        let place = place
            .unwrap_or_else(|| panic!("where to put it: {begun}"))
            .trim();
        let digest = format!("sha256:{}", sha256_of(file));
        let join = if place.contains('?') { '&' } else { '?' };
        push(
            "PUT",
            &format!("{place}{join}digest={digest}"),
            "application/octet-stream",
            file,
        );
        let size = std::fs::metadata(file).expect("a file").len();
        layers.push(json!({"mediaType": kind, "digest": digest, "size": size}));
    }
    let kind = "application/vnd.oci.image.manifest.v1+json";
    let manifest = json!({
        "schemaVersion": 2, "mediaType": kind,
        "config": layers[0], "layers": layers,
    });
    let file = folder.join("manifest.json");
    std::fs::write(&file, manifest.to_string()).expect("room");
    push("PUT", "tools/basket/manifests/latest", kind, &file);
    sha256_of(file)
}

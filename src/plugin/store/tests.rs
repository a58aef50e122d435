//! Unit tests of `store.rs`.

use super::*;

fn added(name: &str, sha256: String, previous: &[&String]) -> Installed {
    Installed {
        name: name.to_owned(),
        sha256,
        version: "1.0.0".to_owned(),
        source: "a \"file\"\\ of\nours".to_owned(),
        added_at: "2026-01-01T00:00:00.000Z".to_owned(),
        previous: previous.iter().map(|one| (*one).clone()).collect(),
    }
}

#[test]
fn a_name_means_what_was_installed_last_and_knows_what_it_was() {
    let folder = tempfile::tempdir().expect("a folder");
    let store = Store::of(folder.path());
    store.recover().expect("nothing to do");
    let first = store.keep(b"first").expect("room");
    store
        .install(added("mine", first.clone(), &[]))
        .expect("room");
    let second = store.keep(b"second").expect("room");
    let now = added("mine", second.clone(), &[&first]);
    store.install(now.clone()).expect("room");
    assert_eq!(store.installed().expect("the lock"), [now]);
    assert_eq!(
        std::fs::read(store.file("mine")).expect("a file"),
        b"second"
    );
    assert_eq!(
        store.is_unchanged("mine", &second).expect("a file"),
        Some(true)
    );
    assert_eq!(store.read(&first).expect("it is kept"), b"first");
    store.keep(b"nobody means it").expect("room");
    store.recover().expect("it is deleted");
    let kept = std::fs::read_dir(folder.path().join(CONTENT)).expect("a folder");
    assert_eq!(kept.count(), 2);
    store.remove("mine").expect("it goes");
    assert_eq!(store.installed().expect("the lock"), []);
    assert_eq!(store.is_unchanged("mine", &second).expect("no file"), None);
}

#[test]
fn content_that_was_changed_is_not_used() {
    let folder = tempfile::tempdir().expect("a folder");
    let store = Store::of(folder.path());
    let sha256 = store.keep(b"first").expect("room");
    std::fs::write(store.content(&sha256), b"another").expect("it is changed");
    assert!(matches!(
        store.read(&sha256),
        Err(StoreError::Changed { .. })
    ));
    let installed = store.install(added("mine", sha256, &[]));
    assert!(matches!(installed, Err(StoreError::Changed { .. })));
    assert_eq!(store.installed().expect("no lock"), []);
}

#[test]
fn an_interrupted_installation_is_finished() {
    let folder = tempfile::tempdir().expect("a folder");
    let store = Store::of(folder.path());
    let sha256 = store.keep(b"first").expect("room");
    let unfinished = Locked {
        installed: added("mine", sha256.clone(), &[]),
        is_unfinished: true,
    };
    store.store_lock(&[unfinished]).expect("room");
    store.recover().expect("it is finished");
    assert_eq!(
        store.is_unchanged("mine", &sha256).expect("a file"),
        Some(true)
    );
    assert!(!store.lock().expect("the lock")[0].is_unfinished);
}

#[test]
fn a_lock_that_cannot_be_read_is_named_with_its_line() {
    let folder = tempfile::tempdir().expect("a folder");
    let store = Store::of(folder.path());
    std::fs::write(folder.path().join(LOCK), "\n[[plugin]]\nname = \"mine\"\n").expect("room");
    let error = store
        .installed()
        .expect_err("it lacks something")
        .to_string();
    assert!(
        error.contains("plugins.lock, line ") && error.contains(" is missing; correct"),
        "{error}"
    );
}

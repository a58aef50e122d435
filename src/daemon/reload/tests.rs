//! Unit tests of `reload.rs`.

use super::*;
use settings::{Sources, load};

#[test]
fn the_file_of_a_secret_is_one_of_them() {
    let folder = tempfile::tempdir().expect("a folder");
    let config = folder.path().join("headgate.toml");
    let text = "[[streams]]\nname = \"a\"\n[[connectors]]\nname = \"a\"\nkind = \"webhook\"\n\
                    keys = [{ name = \"a\", stream = \"a\", verify = { scheme = \"github\", secret = { file = \"secret\" } } }]";
    std::fs::write(&config, text).expect("a file");
    let secret = folder.path().join("secret");
    std::fs::write(&secret, "a secret of the tests").expect("a file");
    let sources = Sources {
        working_dir: folder.path().to_owned(),
        config_file: Some(config),
        env: Vec::new(),
        options: Vec::new(),
    };
    let loaded = load(&sources).expect("it is good");
    let files = Files::of(&loaded);
    assert_eq!(files.looks(), files.known);
    std::fs::write(&secret, "another secret of the tests").expect("a file");
    assert_ne!(files.looks(), files.known);
}

#[test]
fn the_folder_that_the_start_makes_is_no_change_and_what_comes_into_it_is() {
    let folder = tempfile::tempdir().expect("a folder");
    let sources = Sources {
        working_dir: folder.path().to_owned(),
        config_file: None,
        env: vec![(
            "HEADGATE_STORAGE__DATA_DIR".to_owned(),
            folder.path().join("data").display().to_string(),
        )],
        options: Vec::new(),
    };
    let loaded = load(&sources).expect("the defaults are good");
    let files = Files::of(&loaded);
    let plugins = loaded.settings.storage.plugins_dir();
    std::fs::create_dir_all(&plugins).expect("a folder");
    assert_eq!(files.looks(), files.known);
    std::fs::write(plugins.join("mine.wasm"), "").expect("a file");
    assert_ne!(files.looks(), files.known);
    let mut files = files;
    files.remember();
    // It goes after it was read.
    std::fs::remove_file(plugins.join("mine.wasm")).expect("it goes");
    files.follow(&loaded);
    assert_ne!(files.looks(), files.known);
}

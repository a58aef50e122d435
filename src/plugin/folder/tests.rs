//! Unit tests of `folder.rs`.

use super::*;

fn roots(dir: &Path) -> FolderRoots {
    FolderRoots {
        files: Some(dir.join("files")),
        others: vec![dir.join("other")],
        free_bytes_min: 0,
    }
}

#[test]
fn a_folder_lies_below_a_root() {
    let roots = roots(Path::new("/nowhere"));
    assert!(matches!(roots.folder("out/live"), Ok(Some(_))));
    assert!(matches!(roots.folder("/nowhere/other/x"), Ok(Some(_))));
    let refused = roots.folder("/nowhere/others").expect_err("no root");
    assert!(refused.contains("plugins.folders"), "{refused}");
    assert!(matches!(FolderRoots::default().folder("out"), Ok(None)));
}

#[tokio::test]
async fn what_is_appended_and_replaced_stays_in_the_folder() {
    let dir = std::env::temp_dir().join(format!("headgate-{}", uuid::Uuid::now_v7()));
    let folder = roots(&dir).folder("out").expect("a root");
    let folder = folder.expect("a folder");
    let place = dir.join("files/out");
    let read = |name: &str| std::fs::read_to_string(place.join(name)).expect("a file");
    let append = async |name: &'static str, at, text: &'static str| {
        let acting = folder.with(move |opened| opened.append(name, at, text.as_bytes()));
        acting.await
    };
    append("a.part", 0, "one\ntw").await.expect("appended");
    append("a.part", 4, "two\n").await.expect("cut");
    assert_eq!(read("a.part"), "one\ntwo\n");
    assert!(append("b.part", 4, "x").await.is_err(), "it is gone");
    assert!(append("a.part", 100, "x").await.is_err(), "it is shorter");
    let finish = || folder.with(|opened| opened.finish("a.part", 4, "a.csv"));
    finish().await.expect("finished");
    finish().await.expect("finished before");
    assert_eq!(read("a.csv"), "one\n");
    append("a.part", 0, "three\n").await.expect("appended");
    assert!(finish().await.is_err(), "a finished file stays");
    std::os::unix::fs::symlink("/etc/passwd", place.join("link")).expect("a link");
    for name in ["../x", "a/b", ".x", "", "link", &"x".repeat(201)] {
        let (one, other) = (name.to_owned(), name.to_owned());
        let appended = folder
            .with(move |opened| opened.append(&one, 0, b"x"))
            .await;
        assert!(appended.is_err(), "{name}");
        let sized = folder.with(move |opened| opened.size(&other)).await;
        assert!(sized.is_err(), "{name}");
    }
    let replace = || folder.with(|opened| opened.replace("b.csv", b"four\n"));
    replace().await.expect("replaced");
    let first = std::fs::metadata(place.join("b.csv")).expect("a file");
    replace().await.expect("the same");
    let second = std::fs::metadata(place.join("b.csv")).expect("a file");
    assert_eq!(first.modified().ok(), second.modified().ok());
    let names = folder.with(|opened| opened.names()).await.expect("names");
    assert_eq!(names, ["a.csv", "a.part", "b.csv", "link"]);
    std::fs::remove_dir_all(&place).expect("removed");
    assert!(append("c.part", 0, "x").await.is_err(), "it was moved away");
    append("c.part", 0, "x").await.expect("made again");
    std::fs::remove_dir_all(&dir).expect("removed");
}

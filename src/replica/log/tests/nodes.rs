//! Three nodes with copies of the real files, which change them at the same time and are killed in between: the copies end
//! equal, and so does that of a node which takes a base.

use std::path::{Path, PathBuf};

use rusqlite::Connection;

use super::*;
use crate::tests::random::{change_something, targets};
use crate::tests::{Numbers, content, make as make_file, open};
use crate::{AppliedEntry, FileChange, Recorder};

/// A file of a node.
struct NodeFile {
    file: ReplicaFile,
    connection: Connection,
    recorder: Recorder,
    place: LogPlace,
}

impl NodeFile {
    fn open(folder: &Path, file: ReplicaFile) -> Self {
        let connection = open(&path(folder, file));
        let recorder = Recorder::attach(&connection, file).expect("it attaches");
        Self {
            file,
            place: LogPlace::of(&connection).expect("it reads"),
            connection,
            recorder,
        }
    }

    fn begin(&mut self) {
        self.recorder
            .prepare(&self.connection)
            .expect("it prepares");
        sqlite::begin(&self.connection).expect("it begins");
    }

    fn commit(&mut self, place: LogPlace, is_changed: bool) {
        if is_changed {
            place.store(&self.connection).expect("it stores");
        }
        sqlite::commit(&self.connection).expect("it commits");
        self.place = place;
    }
}

pub(super) fn path(folder: &Path, file: ReplicaFile) -> PathBuf {
    folder.join(format!("{file:?}.db"))
}

pub(super) struct Node {
    folder: tempfile::TempDir,
    files: Vec<NodeFile>,
    log: Log,
    /// That its files have.
    pub(super) format: i32,
}

impl Node {
    fn new(cluster: &Cluster<'_>) -> Self {
        let folder = tempfile::tempdir().expect("a folder");
        for file in ReplicaFile::ALL {
            make_file(file, &path(folder.path(), file));
        }
        Self::of(cluster, folder)
    }

    pub(super) fn of(cluster: &Cluster<'_>, folder: tempfile::TempDir) -> Self {
        let open = |file| NodeFile::open(folder.path(), file);
        Self {
            files: ReplicaFile::ALL.map(open).into(),
            folder,
            log: cluster.log(),
            format: 1,
        }
    }

    /// The node ends; its files stay.
    pub(super) fn end(self) -> tempfile::TempDir {
        self.folder
    }

    pub(super) fn folder(&self) -> &Path {
        self.folder.path()
    }

    /// Both files note where they are.
    pub(super) fn keep_places(&mut self) {
        for file in &mut self.files {
            file.begin();
            file.commit(file.place, true);
        }
    }

    /// As after a kill: what was not committed is gone.
    fn killed(&mut self) {
        let database = self.log.database.clone();
        self.log = Log::new(database, Uuid::now_v7());
        let folder = self.folder.path();
        self.files.clear();
        self.files = ReplicaFile::ALL
            .map(|file| NodeFile::open(folder, file))
            .into();
    }

    /// Each file follows from where it is.
    pub(super) async fn follow(&mut self) {
        loop {
            let places = self.files.iter().map(|file| file.place);
            let from = places.min_by_key(|place| place.n).expect("two files");
            let followed = self.log.follow(from).await.expect("it follows");
            assert!(followed.fits, "{from:?}");
            for entry in &followed.entries {
                let behind = self
                    .files
                    .iter_mut()
                    .filter(|file| file.place.n < entry.place.n);
                for file in behind {
                    file.begin();
                    let applied = file
                        .recorder
                        .apply(&file.connection, file.place, &entry.entry());
                    let AppliedEntry { place, .. } = applied.expect("it fits");
                    file.commit(place, false);
                }
            }
            if followed.entries.is_empty() {
                return;
            }
        }
    }

    /// One change of either file or both, which is in the log when it returns.
    pub(super) async fn work(&mut self, numbers: &mut Numbers) {
        loop {
            let wanted = numbers.below(3);
            for file in &mut self.files {
                file.begin();
                if wanted != usize::from(file.file.number()) {
                    let targets = targets(&file.connection);
                    for _ in 0..=numbers.below(4) {
                        change_something(&file.connection, numbers, &targets);
                    }
                }
            }
            let take = |file: &NodeFile| -> Option<(ReplicaFile, FileChange)> {
                let taken = file.recorder.take(&file.connection).expect("it takes");
                taken.map(|part| (file.file, part))
            };
            let parts: Vec<_> = self.files.iter().filter_map(take).collect();
            let change = change(&parts);
            let new = NewEntry {
                format: self.format,
                ..entry(self.files[0].place, &change)
            };
            assert_eq!(self.files[0].place, self.files[1].place);
            match self.log.append(&new).await {
                Ok(place) => return self.commit(place, &parts, numbers),
                Err(AppendError::Behind) => {
                    for file in &self.files {
                        sqlite::roll_back(&file.connection).expect("it rolls back");
                    }
                    self.follow().await;
                }
                Err(error) => panic!("{error}"),
            }
        }
    }

    /// Both files commit, unless the node is killed before, or in between.
    fn commit(
        &mut self,
        place: LogPlace,
        parts: &[(ReplicaFile, FileChange)],
        numbers: &mut Numbers,
    ) {
        let ends = match numbers.below(12) {
            0 => 0,
            1 => 1,
            _ => 2,
        };
        for file in self.files.iter_mut().take(ends) {
            let is_changed = parts.iter().any(|(of, _)| *of == file.file);
            file.commit(place, is_changed);
        }
        if ends < 2 {
            self.killed();
        }
    }

    pub(super) fn content(&self) -> Vec<String> {
        let lines = self.files.iter().flat_map(|file| content(&file.connection));
        // Where each stands is its own affair.
        lines
            .filter(|line| !line.starts_with("replica: "))
            .collect()
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nodes_that_change_both_files_at_the_same_time_end_equal() {
    let Some(server) = Postgres::start("nodes_that_change_both_files_end_equal") else {
        return;
    };
    const STEPS: usize = 30;
    let cluster = Cluster::new(&server, "headgate").await;
    let mut numbers = Numbers::new();
    let seeds: Vec<Numbers> = (0..3).map(|_| Numbers::of(&mut numbers)).collect();
    let nodes = seeds.into_iter().map(|mut numbers| {
        let mut node = Node::new(&cluster);
        tokio::spawn(async move {
            for _ in 0..STEPS {
                node.follow().await;
                node.work(&mut numbers).await;
            }
            node
        })
    });
    let mut ended = Vec::new();
    for node in nodes.collect::<Vec<_>>() {
        ended.push(node.await.expect("no panic"));
    }
    for node in &mut ended {
        node.follow().await;
    }
    assert_eq!(
        cluster.query("SELECT count(*) = max(n), max(n) FROM log"),
        format!("t|{}", 3 * STEPS)
    );
    let expected = ended[0].content();
    assert!(expected.len() > 100, "{}", expected.len());
    for node in &ended[1..] {
        let found = node.content();
        let differs = expected.iter().zip(&found).find(|(a, b)| a != b);
        assert!(
            differs.is_none() && expected.len() == found.len(),
            "{differs:#?}"
        );
    }
    // A base of one of them, an entry behind it, and a node that has nothing.
    let folder = tempfile::tempdir().expect("a folder");
    let first = &mut ended[0];
    let place = first.files[0].place;
    for file in &first.files {
        place.store(&file.connection).expect("it stores");
        let copied = path(folder.path(), file.file);
        sqlite::copy(&file.connection, &copied.to_string_lossy()).expect("a copy");
    }
    let copied = ReplicaFile::ALL.map(|file| path(folder.path(), file));
    first
        .log
        .store_base(place, 1, [&copied[0], &copied[1]])
        .await
        .expect("it is stored");
    first.work(&mut numbers).await;
    first.follow().await;
    let folder = tempfile::tempdir().expect("a folder");
    let paths = ReplicaFile::ALL.map(|file| path(folder.path(), file));
    let loaded = cluster.log().load_base(1, [&paths[0], &paths[1]]).await;
    assert_eq!(loaded.expect("it loads"), Some(place));
    let mut new = Node::of(&cluster, folder);
    assert!(new.files.iter().all(|file| file.place == place));
    new.follow().await;
    assert_eq!(new.content(), ended[0].content());
}

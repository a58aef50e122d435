//! The plugins that most daemons of tests run, compiled once for all of them.
//!
//! A daemon with a new data folder compiles the built-in plugins of its sinks, for half a second of computing: with these
//! files in its cache it loads them as after a restart.
//!
//! **Invariant**: a data folder that exists is left alone, and so are those of [`Setup::compiling`].

use std::ffi::OsString;
use std::fs::{self, DirBuilder, File};
use std::io::Write as _;
use std::os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _};
use std::sync::OnceLock;

use plugin::{GuestLimits, Plugins};

use super::Setup;

const PLUGINS: [&str; 2] = ["pool", "http-forward"];

/// A plugin, and the file of its code: the name, the content.
type Compiled = (&'static str, OsString, Vec<u8>);

/// All of them, compiled when the first daemon starts.
fn compiled() -> &'static [Compiled] {
    static COMPILED: OnceLock<Vec<Compiled>> = OnceLock::new();
    COMPILED.get_or_init(|| {
        // The thread of a test may be one of a runtime.
        let compiling = std::thread::spawn(|| Vec::from(PLUGINS.map(compile)));
        compiling.join().expect("built-in plugins can be compiled")
    })
}

fn compile(name: &'static str) -> Compiled {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build();
    let runtime = runtime.expect("a runtime");
    let _entered = runtime.enter();
    let folder = tempfile::tempdir().expect("a temporary folder");
    let limits = GuestLimits::from(&settings::Plugins::default());
    let plugins = Plugins::new(Some(folder.path()), None, limits).expect("an engine");
    plugins.inspect(name).expect("it is built in");
    let mut files = fs::read_dir(folder.path()).expect("a folder");
    let file = files.next().expect("its code").expect("an entry");
    let code = fs::read(file.path()).expect("its code");
    (name, file.file_name(), code)
}

impl Setup {
    /// The daemon compiles everything itself: for tests of what its first start does with files.
    pub(crate) fn compiling(mut self) -> Self {
        self.is_compiling = true;
        self
    }

    /// Spares a daemon with a new data folder what is compiled already.
    pub(super) fn spare_compiling(&self) {
        if self.is_compiling || self.data_dir.exists() {
            return;
        }
        let text = self.text();
        let runs = |name: &str| match name {
            // It runs unless others are named.
            "pool" => !text.ends_with("[pool]\nenabled = false\n"),
            name => text.contains(&format!("plugin = \"{name}\"")),
        };
        let cache = self.data_dir.join("plugin-cache");
        let mut builder = DirBuilder::new();
        let made = builder.recursive(true).mode(0o700).create(&cache);
        if made.is_err() {
            // The daemon says what is wrong with its folder.
            return;
        }
        for (_, file, code) in compiled().iter().filter(|(name, ..)| runs(name)) {
            let mut options = File::options();
            options.write(true).create_new(true).mode(0o600);
            let file = options.open(cache.join(file));
            // What is incomplete is compiled again.
            let _ = file.and_then(|mut file| file.write_all(code));
        }
    }
}

//! `[cluster]`: nodes that share one PostgreSQL database.
//!
//! **Invariant**: `node` is the name of this node wherever settings were loaded, and a URL is shown nowhere.

use serde::{Deserialize, Serialize};

use crate::SecretList;
use crate::checks::{self, kinds};
use crate::record::record;

/// Where the kernel says how the host is called.
const HOST_NAME: &str = "/proc/sys/kernel/hostname";

record! {
    /// `[cluster]`: nodes that share one PostgreSQL database.
    pub struct Cluster {
        /// URLs of the database's servers; the first one that is a primary is used. They are secrets.
        urls: SecretList, SecretList, example: r#"["postgres:///headgate?host=/run/postgresql"]"#,
            guide: "Also one secret, `{ env = … }` or `{ file = … }`, with several URLs that are separated by white space.";
        /// Name of this node, unique in the cluster: 1 to 63 letters, digits, `.`, `_` or `-`.
        name: Option<String>, Text(kinds::NODE_NAME), none: "the name of the host", example: r#""node-1""#,
            usual: "name of the host";
        /// Guarantee of a 202: `standby` for a request that is on a standby too, `local` for one that is on the primary's disk.
        durability: ClusterDurability, Choice(&["standby", "local"]);
        /// Whether this node can run the sinks.
        sinks: bool = true, Boolean;
        /// How nodes learn of changes by other nodes: `notify` at once, `poll` every 25 ms, for a pooler in transaction mode.
        hints: ClusterHints, Choice(&["notify", "poll"]);
        /// Schema of the database that holds the tables: 1 to 40 characters of `a` to `z`, `0` to `9` and `_`.
        schema: String = "headgate".to_owned(), Text(kinds::SCHEMA_NAME);
        /// Seconds that a request waits for the database before it is answered 503.
        commit_wait_seconds: u64 = 10, Integer(1, 300);
    }
    beside {
        /// The name that counts: `name`, or that of the host. Not a setting of its own.
        node: String = host_name();
    }
}

/// What an accepted request survives.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum ClusterDurability {
    /// The loss of the primary.
    #[default]
    Standby,
    /// The restart of the primary.
    Local,
}

/// How nodes learn of what other nodes have committed.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum ClusterHints {
    /// By `NOTIFY`.
    #[default]
    Notify,
    /// By asking often.
    Poll,
}

/// The name of the host, as far as it can be the name of a node.
fn host_name() -> String {
    let plain = |letter: char| match letter {
        letter if letter.is_ascii_alphanumeric() || "._-".contains(letter) => letter,
        _ => '-',
    };
    let name = std::fs::read_to_string(HOST_NAME).unwrap_or_default();
    let name: String = name.trim().chars().map(plain).take(63).collect();
    match checks::node_name(&name) {
        Ok(()) => name,
        Err(_) => "headgate".to_owned(),
    }
}

impl Cluster {
    /// The URLs of the servers, in their order. They can have passwords.
    ///
    /// # Panics
    /// If the settings were not loaded with [`load`](crate::load).
    pub fn urls(&self) -> Vec<String> {
        let texts = self.urls.iter();
        let urls = texts.flat_map(|secret| secret.reveal().split_whitespace());
        urls.map(str::to_owned).collect()
    }
}

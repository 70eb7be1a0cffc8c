//! Processes as tests play them: pages whose words they write.

use std::fs::File;

use mgcomp_transport::control::{Identity, Page};
use tempfile::TempDir;

use crate::config::Config;

/// A page in the hands of whoever counts there.
pub(crate) struct Played {
    file: File,
}

/// A daemon of its own.
pub(crate) fn config(folder: &TempDir) -> Config {
    Config::private(folder.path().join("socket"), folder.path().join("state"))
}

impl Played {
    /// A process of `job` that has opened its page at some time.
    pub(crate) fn new(job: &str, started_ns: u64) -> Self {
        let identity = Identity { job: job.to_owned(), started_ns, ..Identity::of_this_process() };
        Self { file: Page::create(&identity).unwrap().1.into() }
    }

    /// As the daemon sees it.
    pub(crate) fn page(&self) -> Page {
        Page::adopt(&self.file).unwrap()
    }
}

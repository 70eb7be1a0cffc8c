//! Groups of processes that may use so much of the processors and no more.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::thread;
use std::time::{Duration, Instant};

/// Where systems have the groups, and the file of a quota there: of version 2, and of version 1.
const PLACES: [(&str, &str); 3] = [
    ("/sys/fs/cgroup", "cpu.max"),
    ("/sys/fs/cgroup/cpu", "cpu.cfs_quota_us"),
    ("/sys/fs/cgroup/cpu,cpuacct", "cpu.cfs_quota_us"),
];

/// Of which time a quota is a part.
const PERIOD_US: u64 = 100_000;

/// A group inside another one, which has the quota. Both are removed when this is dropped.
pub(crate) struct Groups {
    outer: PathBuf,
    quota: PathBuf,
}

impl Groups {
    /// Two new groups, or why there are none.
    pub(crate) fn make() -> Result<Self, String> {
        let mut why = String::from("there are no groups");
        for (place, quota) in PLACES.iter().filter(|(place, _)| Path::new(place).is_dir()) {
            match Self::make_in(Path::new(place), quota) {
                Ok(groups) => return Ok(groups),
                Err(error) => why = format!("{place}: {error}"),
            }
        }
        Err(why)
    }

    fn make_in(place: &Path, quota: &str) -> Result<Self, String> {
        let outer = place.join(format!("mgcomp-test-{}", std::process::id()));
        fs::create_dir(&outer).map_err(|error| error.to_string())?;
        let groups = Self { quota: outer.join(quota), outer };
        if !groups.quota.exists() {
            return Err(format!("a group has no {quota}"));
        }
        fs::create_dir(groups.inner()).map_err(|error| error.to_string())?;
        Ok(groups)
    }

    fn inner(&self) -> PathBuf {
        self.outer.join("inner")
    }

    /// From now on processes may use a processor for so many microseconds in every 100,000; none is no limit.
    pub(crate) fn set_quota(&self, quota_us: Option<u64>) {
        let text = match (self.quota.ends_with("cpu.max"), quota_us) {
            (true, None) => format!("max {PERIOD_US}"),
            (true, Some(quota)) => format!("{quota} {PERIOD_US}"),
            (false, None) => "-1".to_owned(),
            (false, Some(quota)) => quota.to_string(),
        };
        fs::write(&self.quota, text).unwrap();
    }

    /// What runs `program` in the inner group from its first instruction on.
    pub(crate) fn inside(&self, program: &str) -> Command {
        let mut command = Command::new("sh");
        let join = r#"echo $$ > "$0" && exec "$@""#;
        command.args(["-c", join]).arg(self.inner().join("cgroup.procs")).arg(program);
        command
    }
}

impl Drop for Groups {
    fn drop(&mut self) {
        // A process that has just ended may still be counted.
        let until = Instant::now() + Duration::from_secs(2);
        for group in [self.inner(), self.outer.clone()] {
            while group.exists() && fs::remove_dir(&group).is_err() && Instant::now() < until {
                thread::sleep(Duration::from_millis(5));
            }
        }
    }
}

//! Settings on disk: one file of JSON, replaced as a whole.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use mgcomp_selector::Lambda;
use mgcomp_transport::control::{ReadCap, Settings, SizeGate};
use serde::{Deserialize, Serialize};

use super::scope::{Entry, Scope, Scopes};

/// Its name in the state folder.
const NAME: &str = "settings.json";
/// Which form it has.
const VERSION: u32 = 1;

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Kept {
    version: u32,
    last_change: u64,
    settings: Vec<KeptEntry>,
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct KeptEntry {
    #[serde(skip_serializing_if = "Option::is_none")]
    job: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    peer: Option<u32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    stream: Option<u32>,
    change: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    lambda_gbps: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    policy: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    compress: Option<bool>,
    #[serde(skip_serializing_if = "Option::is_none")]
    least_bytes: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    read_cap_gbps: Option<f64>,
}

/// Where settings are kept in a folder.
pub(super) fn path(state_dir: &Path) -> PathBuf {
    state_dir.join(NAME)
}

/// What was kept; nothing if there is no file.
pub(super) fn load(state_dir: &Path) -> Result<Scopes, SettingsFileError> {
    let path = path(state_dir);
    let text = match fs::read(&path) {
        Ok(text) => text,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Scopes::default()),
        Err(source) => return Err(SettingsFileError::Read { path, source }),
    };
    let damaged = |what: String| SettingsFileError::Damaged { path: path.clone(), what };
    let kept: Kept = serde_json::from_slice(&text).map_err(|error| damaged(error.to_string()))?;
    if kept.version != VERSION {
        return Err(damaged(format!("version {}, but {VERSION} is known", kept.version)));
    }
    let mut entries = BTreeMap::new();
    for (index, entry) in kept.settings.into_iter().enumerate() {
        let settings = settings(&entry).map_err(|what| damaged(format!("settings[{index}]: {what}")))?;
        let scope = Scope { job: entry.job, peer: entry.peer, stream: entry.stream };
        entries.insert(scope, Entry { settings, version: entry.change });
    }
    Ok(Scopes::new(entries, kept.last_change))
}

/// Replaces what is kept, so that a crash leaves either the old or the new.
pub(super) fn save(state_dir: &Path, scopes: &Scopes) -> io::Result<()> {
    let mut file = tempfile::Builder::new().prefix(".settings-").tempfile_in(state_dir)?;
    write(file.as_file_mut(), scopes)?;
    file.as_file().sync_all()?;
    file.persist(path(state_dir)).map_err(|failed| failed.error)?;
    // The name is as good as the file only when the folder is on disk too.
    File::open(state_dir)?.sync_all()
}

/// Writes all of it, or says why not: a buffer that is only dropped keeps to itself what went wrong with the rest.
fn write(to: impl Write, scopes: &Scopes) -> io::Result<()> {
    let mut to = io::BufWriter::new(to);
    serde_json::to_writer(&mut to, &kept(scopes))?;
    to.write_all(b"\n")?;
    to.flush()
}

fn kept(scopes: &Scopes) -> Kept {
    let entry = |(scope, entry): (&Scope, &Entry)| KeptEntry {
        job: scope.job.clone(),
        peer: scope.peer,
        stream: scope.stream,
        change: entry.version,
        lambda_gbps: entry.settings.lambda.map(Lambda::decimal),
        policy: entry.settings.policy.map(|policy| policy.to_string()),
        compress: entry.settings.compress,
        least_bytes: entry.settings.gate.map(SizeGate::least_bytes),
        read_cap_gbps: entry.settings.read_cap.map(ReadCap::gbps),
    };
    Kept {
        version: VERSION,
        last_change: scopes.last_version(),
        settings: scopes.iter().map(entry).collect(),
    }
}

fn settings(entry: &KeptEntry) -> Result<Settings, String> {
    let lambda = entry.lambda_gbps.map(Lambda::try_new).transpose().map_err(|error| error.to_string())?;
    let policy = entry.policy.as_deref().map(str::parse).transpose();
    let gate = |bytes| SizeGate::try_new(bytes).ok_or_else(|| format!("least_bytes {bytes} is too large"));
    let cap = |gbps| ReadCap::try_new(gbps).ok_or_else(|| format!("read_cap_gbps {gbps} is out of range"));
    Ok(Settings {
        lambda,
        policy: policy.map_err(|error: mgcomp_transport::control::PolicyNameError| error.to_string())?,
        gate: entry.least_bytes.map(gate).transpose()?,
        compress: entry.compress,
        read_cap: entry.read_cap_gbps.map(cap).transpose()?,
    })
}

/// Why the settings of an earlier daemon cannot be used.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SettingsFileError {
    /// The file cannot be read.
    #[error("cannot read the settings in {}", path.display())]
    Read {
        /// Which file.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// It does not hold settings.
    #[error("{} does not hold settings ({what}): mend it, or move it away to start with none", path.display())]
    Damaged {
        /// Which file.
        path: PathBuf,
        /// What is wrong.
        what: String,
    },
}

#[cfg(test)]
mod tests {
    use super::*;

    fn some() -> Scopes {
        let mut scopes = Scopes::default();
        let lambda = Lambda::try_new(0.1).ok();
        let policy = "fixed:zvc".parse().ok();
        let (gate, read_cap) = (SizeGate::try_new(4096), ReadCap::try_new(0.3));
        scopes.set(Scope::default(), Settings { lambda, policy, gate, compress: Some(true), read_cap });
        let scope = Scope { job: Some("j\"1".to_owned()), peer: Some(0), stream: Some(u32::MAX) };
        scopes.set(scope, Settings { compress: Some(false), ..Settings::default() });
        scopes
    }

    #[test]
    fn what_was_saved_is_loaded() {
        let folder = tempfile::tempdir().unwrap();
        assert_eq!(load(folder.path()).unwrap(), Scopes::default());
        for scopes in [some(), Scopes::default(), some()] {
            save(folder.path(), &scopes).unwrap();
            assert_eq!(load(folder.path()).unwrap(), scopes);
        }
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1, "nothing else is left");
        // For people who read it as they gave it, and the same λ all the same.
        let text = fs::read_to_string(path(folder.path())).unwrap();
        assert!(text.contains("\"lambda_gbps\":0.1,"), "{text}");
    }

    /// A disk that is full for the first bytes, and has room for what follows.
    struct FullAtFirst(Vec<u8>, bool);

    impl Write for FullAtFirst {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            match std::mem::take(&mut self.1) {
                true => Err(io::ErrorKind::StorageFull.into()),
                false => self.0.write(bytes),
            }
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    #[test]
    fn what_is_not_written_is_not_said_to_be() {
        let mut disk = FullAtFirst(Vec::new(), true);
        assert_eq!(write(&mut disk, &some()).unwrap_err().kind(), io::ErrorKind::StorageFull);
        let mut disk = FullAtFirst(Vec::new(), false);
        write(&mut disk, &Scopes::default()).unwrap();
        assert_eq!(disk.0, b"{\"version\":1,\"last_change\":0,\"settings\":[]}\n");
    }

    #[test]
    fn what_is_damaged_is_not_taken_for_nothing() {
        let folder = tempfile::tempdir().unwrap();
        save(folder.path(), &some()).unwrap();
        let good = fs::read_to_string(path(folder.path())).unwrap();
        let error = |text: &str| {
            fs::write(path(folder.path()), text).unwrap();
            load(folder.path()).unwrap_err().to_string()
        };
        for len in 0..good.trim_end().len() {
            assert!(error(&good[..len]).contains("does not hold settings"), "{len}");
        }
        assert!(error(&good.replace("\"version\":1", "\"version\":2")).contains("version 2"));
        assert!(error(&good.replace("fixed:zvc", "fixed:lz4")).contains("settings[0]"));
        assert!(error(&good.replace("4096", "18446744073709551615")).contains("too large"));
        assert!(error(&good.replace("0.1", "-1")).contains("negative"));
        assert!(error(&good.replace("0.3", "0")).contains("read_cap_gbps 0 is out of range"));
        assert!(error(&good.replace("peer", "pear")).contains("pear"));
    }

    #[test]
    fn a_folder_that_takes_no_file_says_so() {
        let folder = tempfile::tempdir().unwrap();
        let gone = folder.path().join("gone");
        assert_eq!(save(&gone, &some()).unwrap_err().kind(), io::ErrorKind::NotFound);
    }
}

//! Measured speeds on disk.

use std::fs;
use std::io::{self, Read as _, Write as _};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::{env, fmt};

use mgcomp_codecs::device::DeviceInfo;
use mgcomp_codecs::{CacheFolderError, Cpu, cache_folder};
use mgcomp_selector::speeds::{CodecSpeed, Speeds, SpeedsError};
use serde::{Deserialize, Serialize};

use crate::regular;

/// The form of the file. Times of another form, or of codecs of another version, say nothing.
const FORM: &str = concat!("mgcomp speeds 5, codecs ", env!("CARGO_PKG_VERSION"));
/// Longer than any file of ours: what is longer is not read.
const MAX_FILE_LEN: u64 = 4 << 20;
const FILE_NAME: &str = "speeds.json";

/// More of a device's name would not make its file's name clearer.
const MOST_OF_A_NAME: usize = 64;

/// Speeds, and the machine or device that they were measured on.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct SpeedsFile {
    form: String,
    processor: String,
    isa: String,
    codecs: Vec<CodecSpeed>,
}

impl SpeedsFile {
    /// Speeds that were measured here.
    #[must_use]
    pub fn of_this_machine(speeds: &Speeds) -> Self {
        Self::of((processor(), Cpu::active().isa().to_string()), speeds)
    }

    /// Speeds that were measured on a device.
    #[must_use]
    pub fn of_device(device: &DeviceInfo, speeds: &Speeds) -> Self {
        Self::of((device.name.clone(), device.capability.to_string()), speeds)
    }

    fn of((processor, isa): (String, String), speeds: &Speeds) -> Self {
        Self { form: FORM.to_owned(), processor, isa, codecs: speeds.codecs().to_vec() }
    }

    /// Where they are kept: `speeds.json` in the [folder](cache_folder) for what is measured; `None` if there is none.
    ///
    /// # Errors
    /// As [`cache_folder`].
    pub fn default_path() -> Result<Option<PathBuf>, CacheFolderError> {
        Ok(cache_folder()?.map(|folder| folder.join(FILE_NAME)))
    }

    /// Where those of a device are kept, in the same folder: all devices with one name have one file.
    ///
    /// # Errors
    /// As [`cache_folder`].
    pub fn default_path_of_device(device: &DeviceInfo) -> Result<Option<PathBuf>, CacheFolderError> {
        Ok(cache_folder()?.map(|folder| folder.join(device_file_name(&device.name))))
    }

    /// Reads a file that was [saved](Self::save).
    ///
    /// # Errors
    /// [`SpeedsFileError`] if it cannot be read, is no such file, or is of another machine or version.
    pub fn load(path: &Path) -> Result<Arc<Speeds>, SpeedsFileError> {
        Self::of_this_machine(&Speeds::typical()).load_alike(path)
    }

    /// The same of a device.
    ///
    /// # Errors
    /// [`SpeedsFileError`] if it cannot be read, is no such file, or is of another device or version.
    pub fn load_of_device(path: &Path, device: &DeviceInfo) -> Result<Arc<Speeds>, SpeedsFileError> {
        Self::of_device(device, &Speeds::typical()).load_alike(path)
    }

    /// The speeds in a file that is of the same machine as this one.
    fn load_alike(&self, path: &Path) -> Result<Arc<Speeds>, SpeedsFileError> {
        let wrong = |why| SpeedsFileError { path: path.to_owned(), why };
        let Some(file) = regular::open(path).map_err(|error| wrong(Why::Io(error)))? else {
            return Err(wrong(Why::NotAFile));
        };
        let mut text = String::new();
        let read = file.take(MAX_FILE_LEN + 1).read_to_string(&mut text);
        let read = read.map_err(|error| wrong(Why::Io(error)))?;
        if read as u64 > MAX_FILE_LEN {
            return Err(wrong(Why::TooLong));
        }
        let file: Self = serde_json::from_str(&text).map_err(|error| wrong(Why::Json(error)))?;
        for (what, found, expected) in [
            ("form", &file.form, &self.form),
            ("processor", &file.processor, &self.processor),
            ("instruction set", &file.isa, &self.isa),
        ] {
            if found != expected {
                return Err(wrong(Why::Foreign { what, found: found.clone(), expected: expected.clone() }));
            }
        }
        Speeds::try_new(file.codecs).map(Arc::new).map_err(|error| wrong(Why::Speeds(error)))
    }

    /// The text of the file.
    #[must_use]
    pub fn to_json(&self) -> String {
        serde_json::to_string(self).unwrap_or_default() // nothing in it can fail to be written
    }

    /// Writes the file, with its folder if that is not there. Who reads it meanwhile gets the old one or the new one.
    ///
    /// # Errors
    /// [`SpeedsFileError`] if it cannot be written.
    pub fn save(&self, path: &Path) -> Result<(), SpeedsFileError> {
        let write = || {
            let folder =
                path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
            fs::create_dir_all(folder)?;
            let mut draft = tempfile::NamedTempFile::new_in(folder)?;
            draft.write_all(self.to_json().as_bytes())?;
            draft.flush()?;
            draft.persist(path).map_err(|error| error.error)?;
            io::Result::Ok(())
        };
        write().map_err(|error| SpeedsFileError { path: path.to_owned(), why: Why::Io(error) })
    }
}

/// The speeds of this machine if they were measured, else typical ones.
#[must_use]
pub fn speeds() -> Arc<Speeds> {
    measured(SpeedsFile::default_path(), SpeedsFile::load).unwrap_or_else(Speeds::typical)
}

/// The speeds of a device if they were measured, else what is expected of one with so many multiprocessors.
#[must_use]
pub fn device_speeds(device: &DeviceInfo) -> Arc<Speeds> {
    let load = |path: &Path| SpeedsFile::load_of_device(path, device);
    let measured = measured(SpeedsFile::default_path_of_device(device), load);
    measured.unwrap_or_else(|| Speeds::expected_of_device(device.sm_count))
}

/// Speeds from a file, if there is one that can be used.
fn measured(
    path: Result<Option<PathBuf>, CacheFolderError>,
    load: impl FnOnce(&Path) -> Result<Arc<Speeds>, SpeedsFileError>,
) -> Option<Arc<Speeds>> {
    let unused = |error: &dyn std::error::Error| tracing::warn!(%error, "measured codec speeds are not used");
    match path.map(|path| path.map(|path| load(&path))) {
        Ok(Some(Ok(speeds))) => return Some(speeds),
        Ok(Some(Err(error))) if !error.is_missing() => unused(&error),
        Err(error) => unused(&error),
        Ok(_) => {}
    }
    None
}

/// The name of the file of devices with this name, in which anything may stand.
fn device_file_name(name: &str) -> String {
    let plain = |c: char| if c.is_ascii_alphanumeric() { c.to_ascii_lowercase() } else { '-' };
    let name: String = name.chars().map(plain).take(MOST_OF_A_NAME).collect();
    format!("speeds-cuda-{name}.json")
}

/// What the system calls the processor.
fn processor() -> String {
    let cpuinfo = fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let line = cpuinfo.lines().find_map(|line| line.strip_prefix("model name"));
    let name = line.and_then(|line| line.split_once(':')).map(|(_, name)| name.trim());
    name.unwrap_or(env::consts::ARCH).to_owned()
}

/// A file of speeds that cannot be used.
#[derive(Debug, thiserror::Error)]
#[error("{}: {why}", path.display())]
pub struct SpeedsFileError {
    path: PathBuf,
    why: Why,
}

impl SpeedsFileError {
    /// Whether there simply is no such file.
    #[must_use]
    pub fn is_missing(&self) -> bool {
        matches!(&self.why, Why::Io(error) if error.kind() == io::ErrorKind::NotFound)
    }
}

#[derive(Debug)]
enum Why {
    Io(io::Error),
    NotAFile,
    TooLong,
    Json(serde_json::Error),
    Foreign { what: &'static str, found: String, expected: String },
    Speeds(SpeedsError),
}

impl fmt::Display for Why {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Io(error) => error.fmt(f),
            Self::NotAFile => write!(f, "not a file"),
            Self::TooLong => write!(f, "longer than {MAX_FILE_LEN} bytes"),
            Self::Json(error) => write!(f, "no file of codec speeds: {error}"),
            Self::Foreign { what, found, expected } => {
                write!(f, "measured with {what} {found:?}, this is {expected:?}; measure again")
            }
            Self::Speeds(error) => error.fmt(f),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Typical speeds, in numbers that text holds exactly.
    fn file() -> SpeedsFile {
        let mut file = SpeedsFile::of_this_machine(&Speeds::typical());
        for codec in &mut file.codecs {
            (codec.estimate_call_ns, codec.estimate_ns_per_byte) = (250.0, 0.125);
            for point in codec.series.iter_mut().flat_map(|series| &mut series.points) {
                (point.encode_ns, point.decode_ns) = (point.encode_ns.round(), point.decode_ns.round());
            }
        }
        file
    }

    #[test]
    fn what_was_saved_is_loaded() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a/b/speeds.json");
        assert!(SpeedsFile::load(&path).unwrap_err().is_missing());
        file().save(&path).unwrap();
        file().save(&path).unwrap();
        assert!(SpeedsFile::load(&path).unwrap().codecs() == file().codecs);
        let left: Vec<_> = fs::read_dir(path.parent().unwrap()).unwrap().collect();
        assert_eq!(left.len(), 1, "no drafts are left");
    }

    #[test]
    fn files_of_others_are_refused_and_say_why() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("speeds.json");
        let refused = |text: &str| {
            fs::write(&path, text).unwrap();
            let error = SpeedsFile::load(&path).unwrap_err();
            assert!(!error.is_missing());
            error.to_string()
        };
        assert!(refused("").contains("no file of codec speeds"));
        assert!(refused("{\"form\":3}").contains("no file of codec speeds"));
        let other = SpeedsFile { processor: "Abacus".into(), ..file() };
        assert!(refused(&other.to_json()).contains("processor \"Abacus\""));
        let other = SpeedsFile { form: "mgcomp speeds 0".into(), ..file() };
        assert!(refused(&other.to_json()).contains("measure again"));
        let mut wrong = file();
        wrong.codecs[1].algorithm = "lz4".into();
        assert!(refused(&wrong.to_json()).ends_with("codec speeds, entry 1: unknown algorithm"));
        assert!(refused(&" ".repeat(MAX_FILE_LEN as usize + 1)).contains("longer than"));
        fs::write(&path, [0xff, 0xfe]).unwrap();
        assert!(SpeedsFile::load(&path).is_err());
        let error = SpeedsFile::load(folder.path()).unwrap_err();
        assert!(!error.is_missing() && error.to_string().ends_with(": not a file"), "{error}");
    }
}

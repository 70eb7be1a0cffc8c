//! Measured speeds on disk.

use std::fs;
use std::io::{self, Read as _, Write as _};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Once};
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
/// Bits of a folder's mode by which others than its owner may write there.
#[cfg(unix)]
const OTHERS_WRITE: u32 = 0o022;

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

    /// Fails where a file that is saved would not be read by programs afterwards, or could not be saved at all: to measure takes
    /// seconds, and is in vain then. The folder is made if it is not there.
    ///
    /// # Errors
    /// [`SpeedsFileError`] if others than the user may write to the folder, or the user may not.
    pub fn check_place(path: &Path) -> Result<(), SpeedsFileError> {
        let folder = folder_of(path);
        let wrong = |error| SpeedsFileError { path: folder.to_owned(), why: Why::Io(error) };
        make_private(folder).map_err(wrong)?;
        check_private(folder)?;
        tempfile::NamedTempFile::new_in(folder).map_err(wrong)?;
        Ok(())
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

    /// Writes the file, with its folder if that is not there. Who reads it meanwhile gets the old one or the new one. Where
    /// a link leads to it, the link stays.
    ///
    /// # Errors
    /// [`SpeedsFileError`] if it cannot be written, or something is there that is no file.
    pub fn save(&self, path: &Path) -> Result<(), SpeedsFileError> {
        let wrong = |why| SpeedsFileError { path: path.to_owned(), why };
        let target = regular::target(path).map_err(|error| wrong(Why::Io(error)))?;
        let target = target.ok_or_else(|| wrong(Why::NotAFile))?;
        self.write(&target).map_err(|error| wrong(Why::Io(error)))
    }

    fn write(&self, target: &Path) -> io::Result<()> {
        let folder = folder_of(target);
        make_private(folder)?;
        let mut draft = tempfile::NamedTempFile::new_in(folder)?;
        draft.write_all(self.to_json().as_bytes())?;
        draft.flush()?;
        draft.persist(target).map_err(|error| error.error)?;
        Ok(())
    }
}

/// The folder that a file is in.
fn folder_of(path: &Path) -> &Path {
    path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."))
}

/// The speeds of this machine if they were measured and are kept in a folder that is the user's alone, else typical ones.
#[must_use]
pub fn speeds() -> Arc<Speeds> {
    measured(SpeedsFile::default_path(), SpeedsFile::load).unwrap_or_else(Speeds::typical)
}

/// The speeds of a device if they were measured and are kept there, else what is expected of one with so many multiprocessors.
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
    let load = |path: PathBuf| match check_private(folder_of(&path)) {
        Ok(()) => Some(load(&path)),
        Err(error) => {
            // Whoever starts a policy looks here, and the folder is the same for all.
            static SAID: Once = Once::new();
            SAID.call_once(|| unused(&error));
            None
        }
    };
    match path.map(|path| path.and_then(load)) {
        Ok(Some(Ok(speeds))) => return Some(speeds),
        Ok(Some(Err(error))) if !error.is_missing() => unused(&error),
        Err(error) => unused(&error),
        Ok(_) => {}
    }
    None
}

/// Fails if others than the user, or root, could have put something into a folder: as with compiled kernels, which lie there too.
#[cfg(unix)]
fn check_private(folder: &Path) -> Result<(), SpeedsFileError> {
    use std::os::unix::fs::MetadataExt;

    let unsafe_for = |why| Err(SpeedsFileError { path: folder.to_owned(), why });
    // One that is not there has no file either.
    let Ok(found) = fs::metadata(folder) else { return Ok(()) };
    let (user, owner, mode) = (rustix::process::geteuid().as_raw(), found.uid(), found.mode() & 0o7777);
    match owner == user || owner == 0 {
        false => unsafe_for(Why::Owner { owner, user }),
        true if mode & OTHERS_WRITE != 0 => unsafe_for(Why::Writable { mode }),
        true => Ok(()),
    }
}

#[cfg(not(unix))]
fn check_private(_: &Path) -> Result<(), SpeedsFileError> {
    Ok(())
}

/// The name of the file of devices with this name, in which anything may stand.
fn device_file_name(name: &str) -> String {
    let plain = |c: char| if c.is_ascii_alphanumeric() { c.to_ascii_lowercase() } else { '-' };
    let name: String = name.chars().map(plain).take(MOST_OF_A_NAME).collect();
    format!("speeds-cuda-{name}.json")
}

/// Makes a folder, where it is not there, whatever the user's mask lets others do in new ones.
fn make_private(folder: &Path) -> io::Result<()> {
    let mut maker = fs::DirBuilder::new();
    #[cfg(unix)]
    std::os::unix::fs::DirBuilderExt::mode(&mut maker, 0o700);
    maker.recursive(true).create(folder)
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
    #[cfg(unix)]
    Owner {
        owner: u32,
        user: u32,
    },
    #[cfg(unix)]
    Writable {
        mode: u32,
    },
    TooLong,
    Json(serde_json::Error),
    Foreign {
        what: &'static str,
        found: String,
        expected: String,
    },
    Speeds(SpeedsError),
}

impl fmt::Display for Why {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Io(error) => error.fmt(f),
            Self::NotAFile => write!(f, "not a file"),
            #[cfg(unix)]
            Self::Owner { owner, user } => write!(f, "it belongs to user {owner}, and this is user {user}"),
            #[cfg(unix)]
            Self::Writable { mode } => {
                write!(f, "others than its owner may write to it: its mode is {mode:o}")
            }
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

    #[cfg(unix)]
    #[test]
    fn nothing_is_read_where_others_may_write() {
        use std::os::unix::fs::PermissionsExt;

        let parent = tempfile::tempdir().unwrap();
        let path = parent.path().join("cache/speeds.json");
        file().save(&path).unwrap();
        let folder = path.parent().unwrap();
        let read = || measured(Ok(Some(path.clone())), SpeedsFile::load);
        assert!(read().is_some());
        // What nobody would read is not measured either.
        let check = || SpeedsFile::check_place(&path).is_ok();
        for (mode, good) in [(0o755, true), (0o775, false), (0o777, false), (0o1777, false), (0o700, true)] {
            fs::set_permissions(folder, fs::Permissions::from_mode(mode)).unwrap();
            assert_eq!(check_private(folder).is_ok(), good, "{mode:o}");
            assert_eq!((read().is_some(), check()), (good, good), "{mode:o}");
        }
        fs::set_permissions(folder, fs::Permissions::from_mode(0o777)).unwrap();
        let error = check_private(folder).unwrap_err().to_string();
        assert!(error.ends_with("others than its owner may write to it: its mode is 777"), "{error}");
    }

    #[cfg(unix)]
    #[test]
    fn links_stay_and_what_is_no_file_is_not_replaced() {
        let folder = tempfile::tempdir().unwrap();
        let [real, link, lost] = ["real", "link", "lost"].map(|name| folder.path().join(name));
        fs::write(&real, "old").unwrap();
        std::os::unix::fs::symlink("real", &link).unwrap();
        std::os::unix::fs::symlink("nowhere", &lost).unwrap();
        file().save(&link).unwrap();
        assert!(link.is_symlink() && !real.is_symlink());
        assert!(SpeedsFile::load(&real).unwrap().codecs() == file().codecs);
        for path in [&lost, folder.path()] {
            let error = file().save(path).unwrap_err().to_string();
            assert!(error.ends_with(": not a file"), "{error}");
        }
        assert!(lost.is_symlink());
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

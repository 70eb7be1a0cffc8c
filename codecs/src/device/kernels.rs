//! The kernels that ship with this crate: their sources, and PTX for where there is no compiler.

use std::fmt;
use std::str::FromStr;

use sha2::{Digest as _, Sha256};

use super::nvrtc::FLAGS;
use super::{Capability, DeviceError, EntryForm};
use crate::Algorithm;

/// The least compute capability that the kernels run on.
pub const MIN_CAPABILITY: Capability = Capability { major: 8, minor: 0 };

/// Bytes of a fingerprint.
pub(super) const FINGERPRINT_LEN: usize = 32;

/// Kernels that are compiled together: those of one algorithm's frames, those of one form of entries in buddy memory, or
/// those that combine numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct KernelSource {
    /// What the names of the entry points start with; an algorithm's is its own.
    pub name: &'static str,
    /// Whose frames these kernels write and read, if any.
    pub algorithm: Option<Algorithm>,
    /// The path of the file among the kernels.
    pub file: &'static str,
    /// What it holds: CUDA C++.
    pub text: &'static str,
    /// The same as PTX for [`MIN_CAPABILITY`], in zlib format; nothing if none ships.
    pub(super) packed_ptx: &'static [u8],
    /// Shared memory to encode or estimate, besides buffers, in bytes for each KiB of the chunk size.
    pub(super) encode_scratch: u32,
    /// Shared memory to decode, likewise.
    pub(super) decode_scratch: u32,
}

include!(concat!(env!("OUT_DIR"), "/kernels.rs"));

/// All kernels: those of every algorithm that runs on devices, and then the others.
#[must_use]
pub fn sources() -> &'static [KernelSource] {
    SOURCES
}

/// Every algorithm that runs on devices.
pub fn algorithms() -> impl Iterator<Item = Algorithm> {
    sources().iter().filter_map(|source| source.algorithm)
}

impl KernelSource {
    /// The kernels of `algorithm`, if it runs on devices.
    #[must_use]
    pub fn of(algorithm: Algorithm) -> Option<&'static Self> {
        sources().iter().find(|source| source.algorithm == Some(algorithm))
    }

    /// The kernels that combine numbers.
    #[must_use]
    pub fn of_reductions() -> &'static Self {
        Self::named("reduce")
    }

    /// The kernels that write and read entries of this form in buddy memory.
    #[must_use]
    pub fn of_entries(form: EntryForm) -> &'static Self {
        Self::named(match form {
            EntryForm::Bpc => "bpc_buddy",
            EntryForm::Xp => "xp_buddy",
        })
    }

    /// The kernels of this name, which the build script has listed.
    fn named(name: &str) -> &'static Self {
        sources().iter().find(|source| source.name == name).unwrap_or_else(|| panic!("no kernels {name}"))
    }

    /// The headers that it includes, and those that they include, with their names: paths as `file` is one.
    #[must_use]
    pub fn headers(&self) -> Vec<(&'static str, &'static str)> {
        let mut found: Vec<(&str, &str)> = Vec::new();
        let mut texts = vec![self.text];
        while let Some(text) = texts.pop() {
            let lines = text.lines().filter_map(|line| line.trim().strip_prefix("#include \""));
            for name in lines.filter_map(|line| line.strip_suffix('"')) {
                // What is not here is for the CPU alone.
                let header = HEADERS.iter().find(|header| header.0 == name);
                if let Some(header) = header.filter(|header| !found.contains(header)) {
                    found.push(*header);
                    texts.push(header.1);
                }
            }
        }
        found.sort_unstable();
        found
    }

    /// The PTX of it that ships, for [`MIN_CAPABILITY`].
    ///
    /// # Errors
    /// [`DeviceError::NotShipped`] if there is none.
    pub fn shipped_ptx(&self) -> Result<String, DeviceError> {
        let text = miniz_oxide::inflate::decompress_to_vec_zlib(self.packed_ptx).ok();
        text.and_then(|text| String::from_utf8(text).ok()).ok_or(DeviceError::NotShipped)
    }

    /// The SHA-256 of all that its code for `target` depends on, but for the compiler's version.
    ///
    /// So code in a cache serves machines without a compiler too.
    #[must_use]
    pub fn fingerprint(&self, target: Target) -> [u8; FINGERPRINT_LEN] {
        let target = target.to_string();
        let headers = self.headers();
        let texts = headers.iter().flat_map(|(name, text)| [*name, *text]);
        let parts = [self.file, self.text, &target].into_iter().chain(FLAGS).chain(texts);
        let mut hash = Sha256::new();
        for part in parts {
            hash.update((part.len() as u64).to_le_bytes());
            hash.update(part);
        }
        hash.finalize().into()
    }
}

/// What a source is compiled to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Target {
    form: Form,
    capability: Capability,
    /// Whether instructions that this generation alone has may be used.
    specific: bool,
}

/// Machine code of one device, or code that the driver compiles for any later one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Form {
    Cubin,
    Ptx,
}

impl Target {
    /// Machine code for devices of `capability`.
    #[must_use]
    pub const fn cubin(capability: Capability) -> Self {
        Self { form: Form::Cubin, capability, specific: false }
    }

    /// PTX for devices of `capability` and later ones.
    #[must_use]
    pub const fn ptx(capability: Capability) -> Self {
        Self { form: Form::Ptx, capability, specific: false }
    }

    /// Whether it is machine code.
    #[must_use]
    pub const fn is_cubin(self) -> bool {
        matches!(self.form, Form::Cubin)
    }
}

/// As the compiler spells it: `sm_90a`, `compute_80`.
impl fmt::Display for Target {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let form = if self.is_cubin() { "sm" } else { "compute" };
        let Capability { major, minor } = self.capability;
        write!(f, "{form}_{major}{minor}{}", if self.specific { "a" } else { "" })
    }
}

/// A text that names no target.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0:?} is no target; sm_90, sm_90a and compute_80 are")]
pub struct UnknownTarget(pub String);

impl FromStr for Target {
    type Err = UnknownTarget;

    fn from_str(text: &str) -> Result<Self, UnknownTarget> {
        let parse = || {
            let (form, number) = text.split_once('_')?;
            let form = match form {
                "sm" => Form::Cubin,
                "compute" => Form::Ptx,
                _ => return None,
            };
            let digits = number.strip_suffix('a').unwrap_or(number);
            let all_digits = digits.bytes().all(|b| b.is_ascii_digit());
            let number_parsed: u32 = digits.parse().ok().filter(|_| all_digits)?;
            let capability = Capability { major: number_parsed / 10, minor: number_parsed % 10 };
            Some(Self { form, capability, specific: digits.len() < number.len() })
        };
        parse().ok_or_else(|| UnknownTarget(text.to_owned()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn targets_are_spelled_as_the_compiler_does() {
        for text in ["sm_80", "sm_90a", "sm_100", "sm_121", "compute_80"] {
            assert_eq!(text.parse::<Target>().unwrap().to_string(), text);
        }
        assert_eq!(Target::cubin(Capability { major: 10, minor: 3 }).to_string(), "sm_103");
        assert_eq!(Target::ptx(MIN_CAPABILITY).to_string(), "compute_80");
        for text in ["", "sm", "sm_", "sm_a", "sm_9x", "sm_+9", "compute-80", "sm_99999999999"] {
            assert_eq!(text.parse::<Target>(), Err(UnknownTarget(text.to_owned())));
        }
    }

    #[test]
    fn headers_are_followed() {
        let zvc = KernelSource::of(Algorithm::Zvc).unwrap();
        let names: Vec<&str> = zvc.headers().iter().map(|header| header.0).collect();
        // One that it names, and one that only others name.
        for name in ["kernels.cuh", "frame/lookback.cuh"] {
            assert!(names.contains(&name), "{names:?}");
        }
        assert!(!names.iter().any(|name| name.starts_with("shim/")), "{names:?}");
        let mut none = *zvc;
        none.text = "// nothing";
        assert_eq!(none.headers(), []);
    }

    #[test]
    fn every_part_changes_the_fingerprint() {
        let zvc = KernelSource::of(Algorithm::Zvc).unwrap();
        let sm_90: Target = "sm_90".parse().unwrap();
        assert_eq!(zvc.fingerprint(sm_90), zvc.fingerprint(sm_90));
        assert_ne!(zvc.fingerprint(sm_90), zvc.fingerprint("sm_90a".parse().unwrap()));
        let mut other = *zvc;
        other.text = &zvc.text[1..];
        assert_ne!(zvc.fingerprint(sm_90), other.fingerprint(sm_90));
    }
}

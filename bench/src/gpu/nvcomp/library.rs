//! The functions of nvCOMP, from its shared library.
#![allow(unsafe_code)] // loads a library and names the types of its functions

use std::ffi::c_void;
use std::path::Path;

use libloading::Library as File;
use mgcomp_codecs::Element;

use super::NvcompError;

/// The generation of nvCOMP whose functions these are.
const MAJOR: u32 = 6;
/// What the system looks for.
const FILE: &str = "libnvcomp.so.6";

/// A format of nvCOMP.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::gpu) enum Method {
    Ans,
    Bitcomp,
    Cascaded,
    Lz4,
    Snappy,
    Zstd,
}

impl Method {
    pub(in crate::gpu) const ALL: [Self; 6] =
        [Self::Ans, Self::Bitcomp, Self::Cascaded, Self::Lz4, Self::Snappy, Self::Zstd];

    /// The one spelling in tables and JSON.
    pub(in crate::gpu) const fn name(self) -> &'static str {
        match self {
            Self::Ans => "nvcomp-ans",
            Self::Bitcomp => "nvcomp-bitcomp",
            Self::Cascaded => "nvcomp-cascaded",
            Self::Lz4 => "nvcomp-lz4",
            Self::Snappy => "nvcomp-snappy",
            Self::Zstd => "nvcomp-zstd",
        }
    }

    /// The part of the functions' names.
    const fn infix(self) -> &'static str {
        match self {
            Self::Ans => "ANS",
            Self::Bitcomp => "Bitcomp",
            Self::Cascaded => "Cascaded",
            Self::Lz4 => "LZ4",
            Self::Snappy => "Snappy",
            Self::Zstd => "Zstd",
        }
    }

    /// The options that suit `element`, and the width of what the format takes for an element.
    pub(super) fn compress_options(self, element: Element) -> (Options, usize) {
        let width = element.width_bytes();
        let unsigned = UNSIGNED[width.ilog2() as usize];
        match self {
            // Type, data type.
            Self::Ans if matches!(element, Element::F16 | Element::Bf16) => (Options::of(&[0, FLOAT16]), 2),
            // Algorithm, data type, delta (2 words), mode: lossless is 0.
            Self::Bitcomp => (Options::of(&[0, unsigned]), width),
            // Data type, mode: asymmetric; terminal codec, coarse encodings, fine encodings: 2 words each; level.
            Self::Cascaded => (Options::of(&[unsigned, 1, 1, 0, 0, 0, 7, 0, 3]), width),
            // Data type. LZ4 knows none of 8 bytes.
            Self::Lz4 => (Options::of(&[UNSIGNED[width.min(4).ilog2() as usize]]), width.min(4)),
            Self::Ans | Self::Snappy | Self::Zstd => (Options::default(), 1),
        }
    }

    /// The options to decompress whatever was compressed with those for `element`.
    pub(super) fn decompress_options(self, element: Element) -> Options {
        match self {
            // Backend: default; data type: as the code says.
            Self::Ans => Options::of(&[0, ANY_TYPE]),
            // Backend, padding; data type and mode: as the code says.
            Self::Cascaded => Options::of(&[0, 0, ANY_TYPE]),
            // Backend, no sorting, data type.
            Self::Lz4 => Options::of(&[0, 0, UNSIGNED[element.width_bytes().min(4).ilog2() as usize]]),
            Self::Bitcomp | Self::Snappy | Self::Zstd => Options::default(),
        }
    }
}

/// `nvcompType_t` of unsigned integers of 1, 2, 4 and 8 bytes.
const UNSIGNED: [u32; 4] = [1, 3, 5, 7];
const FLOAT16: u32 = 10;
const ANY_TYPE: u32 = 0xff;

/// Options of any function: all of them are structs of 64 bytes, zero where nothing is chosen, that begin with numbers
/// of 32 bits.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(C, align(8))]
pub(super) struct Options([u32; 16]);

impl Options {
    fn of(words: &[u32]) -> Self {
        let mut options = Self::default();
        options.0[..words.len()].copy_from_slice(words);
        options
    }
}

/// `nvcompAlignmentRequirements_t`.
#[derive(Clone, Copy, Debug, Default)]
#[repr(C)]
pub(super) struct Alignments {
    pub(super) input: usize,
    pub(super) output: usize,
    pub(super) temp: usize,
}

type AlignmentsOf = unsafe extern "C" fn(Options, *mut Alignments) -> u32;
type TempSize = unsafe extern "C" fn(usize, usize, Options, *mut usize, usize, *mut c_void) -> u32;
type MaxOutput = unsafe extern "C" fn(usize, Options, *mut usize) -> u32;
type CompressAsync = unsafe extern "C" fn(
    *const *const c_void,
    *const usize,
    usize,
    usize,
    *mut c_void,
    usize,
    *const *mut c_void,
    *mut usize,
    Options,
    *mut u32,
    *mut c_void,
) -> u32;
type DecompressAsync = unsafe extern "C" fn(
    *const *const c_void,
    *const usize,
    *const usize,
    *mut usize,
    usize,
    *mut c_void,
    usize,
    *const *mut c_void,
    Options,
    *mut u32,
    *mut c_void,
) -> u32;

/// The functions of one format.
#[derive(Clone, Copy)]
pub(super) struct Functions {
    pub(super) compress_alignments: AlignmentsOf,
    pub(super) compress_temp_size: TempSize,
    pub(super) max_output: MaxOutput,
    pub(super) compress: CompressAsync,
    pub(super) decompress_alignments: AlignmentsOf,
    pub(super) decompress_temp_size: TempSize,
    pub(super) decompress: DecompressAsync,
}

/// The library, loaded.
pub(in crate::gpu) struct Library {
    file: File,
    name: String,
}

impl Library {
    /// The library at `path`, or where the system finds it.
    pub(in crate::gpu) fn find(path: Option<&Path>) -> Result<Self, NvcompError> {
        let name = path.map_or_else(|| FILE.into(), |path| path.display().to_string());
        // What has no slash in it is looked for by the system.
        let path = path.map_or_else(|| FILE.into(), |path| Path::new(".").join(path));
        // SAFETY: the user names the library or has installed it; loading it runs its initialisers.
        let file = unsafe { File::new(&path) };
        let file = file.map_err(|e| NvcompError::NotLoaded { file: name.clone(), reason: e.to_string() })?;
        let library = Self { file, name };
        library.check_version()?;
        Ok(library)
    }

    fn check_version(&self) -> Result<(), NvcompError> {
        // Version of the library, version of CUDA.
        type Properties = unsafe extern "C" fn(*mut [u32; 2]) -> u32;
        let properties: Properties = self.function("nvcompGetProperties")?;
        let mut versions = [0; 2];
        // SAFETY: `versions` is a live variable of the struct's size.
        let status = unsafe { properties(&raw mut versions) };
        // Major · 1000 + minor · 100 + patch.
        match versions[0] / 1000 {
            _ if status != 0 => Err(NvcompError::Call { call: "nvcompGetProperties".into(), status }),
            MAJOR => Ok(()),
            _ => Err(NvcompError::Version { file: self.name.clone(), found: versions[0], wanted: MAJOR }),
        }
    }

    pub(super) fn functions(&self, method: Method) -> Result<Functions, NvcompError> {
        let name = |suffix: &str| format!("nvcompBatched{}{suffix}", method.infix());
        Ok(Functions {
            compress_alignments: self.function(&name("CompressGetRequiredAlignments"))?,
            compress_temp_size: self.function(&name("CompressGetTempSize"))?,
            max_output: self.function(&name("CompressGetMaxOutputChunkSize"))?,
            compress: self.function(&name("CompressAsync"))?,
            decompress_alignments: self.function(&name("DecompressGetRequiredAlignments"))?,
            decompress_temp_size: self.function(&name("DecompressGetTempSize"))?,
            decompress: self.function(&name("DecompressAsync"))?,
        })
    }

    /// The function `symbol`, whose type the caller knows from the library's documentation.
    fn function<F: Copy>(&self, symbol: &str) -> Result<F, NvcompError> {
        // SAFETY: the types above are those of this generation, which `check_version` has asked for; the
        // library stays loaded for as long as a `Batch` borrows it.
        let found = unsafe { self.file.get::<F>(symbol.as_bytes()) };
        found.map(|function| *function).map_err(|_| NvcompError::Symbol {
            file: self.name.clone(),
            symbol: symbol.into(),
            wanted: MAJOR,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn options_lie_where_the_structs_have_them() {
        assert_eq!((size_of::<Options>(), size_of::<Alignments>()), (64, 24));
        let (bitcomp, width) = Method::Bitcomp.compress_options(Element::F64);
        assert_eq!((bitcomp.0[..4].to_vec(), width), (vec![0, 7, 0, 0], 8));
        assert_eq!(Method::Ans.compress_options(Element::Bf16).0.0[..2], [0, 10]);
        assert_eq!(Method::Ans.compress_options(Element::U16), (Options::default(), 1));
        // At 24 bytes the fine encodings: difference, runs, frame of reference; at 32 the level.
        let (cascaded, _) = Method::Cascaded.compress_options(Element::U32);
        assert_eq!(cascaded.0[..9], [5, 1, 1, 0, 0, 0, 7, 0, 3]);
        assert_eq!(Method::Lz4.compress_options(Element::F64).1, 4);
        assert_eq!(Method::Cascaded.decompress_options(Element::U8).0[..3], [0, 0, 255]);
    }

    #[test]
    fn a_library_that_is_not_there_is_an_error() {
        // The system would find the last one.
        for path in ["/nowhere/libnvcomp.so", "nowhere/libnvcomp.so", "libc.so.6"] {
            let error = Library::find(Some(Path::new(path))).err().unwrap();
            assert!(error.to_string().starts_with(&format!("{path} does not load: ")), "{error}");
        }
    }
}

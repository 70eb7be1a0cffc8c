//! Lossless codecs for data that moves between GPUs, and the frame that carries what they write.
//!
//! A [`Codec`] turns one *chunk* (4 to 64 KiB) of raw bytes into fewer bytes and back. A
//! [`frame`] strings the chunks of one buffer together so that each can be found and decoded on its own,
//! by a thread block or a thread. `FORMAT.md` in the repository describes every byte.
//!
//! The code in each codec's `portable.rs` *is* the definition of that codec: any other back-end must write
//! and accept exactly the same bytes.
//!
//! ```
//! use mgcomp_codecs::{Algorithm, Element, codec, frame};
//!
//! let raw: Vec<u8> = (0..4096u32).flat_map(u32::to_le_bytes).collect();
//! let bdi = codec(Algorithm::Bdi).unwrap();
//! let coded = frame::encode(bdi, Element::U32, &raw, frame::Options::for_len(raw.len()))?;
//! assert!(coded.len() < raw.len() / 2);
//!
//! let parsed = frame::Frame::parse(&coded)?;
//! assert_eq!(parsed.decode_to_vec(1 << 20)?, raw);
//! # Ok::<(), frame::FrameError>(())
//! ```
//!
//! | module | what lives there |
//! |---|---|
//! | [`Element`], [`Algorithm`] | the two words every flag, header and file uses |
//! | [`frame`] | header, chunk table, encode, decode |
//! | [`mod@line`] | the 64-byte line and what the line codecs share |
//! | [`bdi`], [`fpc`], [`cpackz`] | line codecs: 64-byte lines, sizes in bits per line |
//! | [`zvc`], [`rle`] | zero-value compression by element, and run lengths of zero elements |
//! | [`bpc`] | bit-plane compression of 128-byte entries |
//! | [`deflate`] | zlib format, for reference |
//! | [`ibp`] | invariant bit packing with a codebook, and tables of packed tensors |
//! | [`zcomp`] | vector primitives: compress-store and load-expand, for a program's own memory |
//! | [`xp`] | float exponents in few bits |
//! | [`int`] | integers, indices and fields |
//! | [`reduction`] | no codec: the arithmetic of reductions, which devices do too |
//! | [`background`] | threads in programs of others |
//! | `device` | codecs on CUDA devices; feature `cuda`, on by default |

#[cfg(not(all(target_endian = "little", target_pointer_width = "64")))]
compile_error!("mgcomp runs on little-endian 64-bit targets only");

mod algorithm;
pub mod background;
pub mod bdi;
pub mod bpc;
mod cache;
mod chunk;
mod codec;
pub mod cpackz;
mod cpu;
pub mod deflate;
#[cfg(feature = "cuda")]
pub mod device;
mod element;
pub mod fpc;
pub mod frame;
pub mod ibp;
pub mod int;
pub mod line;
mod packed;
pub mod reduction;
pub mod rle;
mod set;
pub mod xp;
pub mod zcomp;
pub mod zvc;

pub use algorithm::{Algorithm, AlgorithmSet, UnknownAlgorithm};
pub use cache::{CACHE_VARIABLE, CacheFolderError, cache_folder};
pub use chunk::ChunkError;
pub use codec::{Codec, LineBits, codec, codec_on, codecs, codecs_on, line_bits, paper_bits};
#[cfg(target_arch = "x86_64")]
pub use cpu::{Avx2, Avx512};
pub use cpu::{CPU_VARIABLE, Cpu, CpuError, Isa, UnknownIsa};
pub use element::{Element, ElementSet, UnknownElement};
pub use set::{NumberSet, Numbered};

//! Compress-store and load-expand of one 512-bit vector, and of whole buffers in partitions.
//!
//! # Layout
//! A vector of 64 bytes has 64, 32, 16 or 8 elements. Its *header* has one bit per element, set = kept, the
//! first element lowest: 8, 4, 2 or 1 bytes. The kept elements follow each other in order.
//!
//! * *Interleaved*: header, kept elements, header, kept elements …
//! * *Separate*: the headers stand in an array of their own.
//!
//! A buffer is cut into *partitions* of whole vectors that share nothing, so threads take one each. The last
//! vector of a buffer may be short: elements that it lacks count as dropped. Bytes behind the last whole element
//! follow the kept ones.
//!
//! These are primitives for a program's own memory; no frame holds them.
//!
//! # Source
//! ZCOMP, MICRO 2019: `zcomps` and `zcompl` with the conditions `_EQZ` and `_LTEZ`. Ours: an element equals zero
//! only if all its bits are zero, so −0.0 survives.

#[cfg(target_arch = "x86_64")]
mod avx2;
#[cfg(target_arch = "x86_64")]
mod avx512;
mod error;
mod partition;
mod portable;

use crate::Cpu;

pub use error::ZcompError;
pub use partition::{Compressed, Headers, Partition};

/// Bytes in a vector.
pub const VECTOR_LEN: usize = 64;

/// One vector.
pub type Vector = [u8; VECTOR_LEN];

/// What the elements of a vector are.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Lane {
    /// 8-bit signed integers.
    I8,
    /// IEEE half precision.
    F16,
    /// 32-bit signed integers.
    I32,
    /// IEEE single precision.
    F32,
    /// IEEE double precision.
    F64,
}

impl Lane {
    /// All of them.
    pub const ALL: [Self; 5] = [Self::I8, Self::F16, Self::I32, Self::F32, Self::F64];

    /// Width of an element in bytes.
    #[must_use]
    pub const fn width_bytes(self) -> usize {
        match self {
            Self::I8 => 1,
            Self::F16 => 2,
            Self::I32 | Self::F32 => 4,
            Self::F64 => 8,
        }
    }

    /// Elements in a vector.
    #[must_use]
    pub const fn count(self) -> usize {
        VECTOR_LEN / self.width_bytes()
    }

    /// Bytes of a vector's header.
    #[must_use]
    pub const fn header_len(self) -> usize {
        self.count() / 8
    }
}

/// Which elements are dropped. What is dropped comes back as zero.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Condition {
    /// Those of which all bits are zero: without loss.
    EqZ,
    /// Those that are zero or less: ReLU and compression in one, so with the loss that ReLU means. −0.0 is
    /// dropped, NaN is kept whatever its sign.
    LteZ,
}

/// Writes the header of `vector` and its kept elements to the front of `to`; returns the bytes written, by
/// which the caller's pointer advances.
///
/// # Errors
/// [`ZcompError::Room`] if `to` is too short; it is then as it was.
pub fn zcomps(
    cpu: Cpu,
    lane: Lane,
    condition: Condition,
    vector: &Vector,
    to: &mut [u8],
) -> Result<usize, ZcompError> {
    let mut room = [0; 2 * VECTOR_LEN];
    let len = store(cpu, lane, condition, std::slice::from_ref(vector), None, &mut room);
    put(&room[..len], to)?;
    Ok(len)
}

/// As [`zcomps`], with the header in `header`, which has [`Lane::header_len`] bytes. Returns the bytes written to
/// `to`.
///
/// # Errors
/// [`ZcompError::Room`] if `to` is too short, [`ZcompError::HeaderLength`] if `header` has another length.
pub fn zcomps_separate(
    cpu: Cpu,
    lane: Lane,
    condition: Condition,
    vector: &Vector,
    header: &mut [u8],
    to: &mut [u8],
) -> Result<usize, ZcompError> {
    check_header(lane.header_len(), header.len())?;
    let (mut room, mut bits) = ([0; 2 * VECTOR_LEN], [0; 8]);
    let bits = &mut bits[..lane.header_len()];
    let len = store(cpu, lane, condition, std::slice::from_ref(vector), Some(bits), &mut room);
    put(&room[..len], to)?;
    header.copy_from_slice(bits);
    Ok(len)
}

/// Fills `vector` from the header and kept elements at the front of `from`; returns the bytes read.
///
/// # Errors
/// [`ZcompError::Truncated`] if `from` ends before the kept elements do.
pub fn zcompl(cpu: Cpu, lane: Lane, from: &[u8], vector: &mut Vector) -> Result<usize, ZcompError> {
    load(cpu, lane, None, from, std::slice::from_mut(vector))
}

/// As [`zcompl`], with the header in `header`. Returns the bytes read from `from`.
///
/// # Errors
/// [`ZcompError::Truncated`] if `from` ends before the kept elements do, [`ZcompError::HeaderLength`] if `header` has
/// another length than [`Lane::header_len`].
pub fn zcompl_separate(
    cpu: Cpu,
    lane: Lane,
    header: &[u8],
    from: &[u8],
    vector: &mut Vector,
) -> Result<usize, ZcompError> {
    check_header(lane.header_len(), header.len())?;
    load(cpu, lane, Some(header), from, std::slice::from_mut(vector))
}

fn check_header(needed: usize, got: usize) -> Result<(), ZcompError> {
    if got == needed { Ok(()) } else { Err(ZcompError::HeaderLength { needed, got }) }
}

fn put(bytes: &[u8], to: &mut [u8]) -> Result<(), ZcompError> {
    let got = to.len();
    let place = to.get_mut(..bytes.len()).ok_or(ZcompError::Room { needed: bytes.len(), got })?;
    place.copy_from_slice(bytes);
    Ok(())
}

/// Room that [`store`] needs: whole vectors are written where the kept elements of one go.
const fn store_room(lane: Lane, vectors: usize) -> usize {
    vectors * (VECTOR_LEN + lane.header_len()) + VECTOR_LEN
}

/// Writes all vectors, headers to `headers` or in front of their elements. `data` has [`store_room`].
fn store(
    cpu: Cpu,
    lane: Lane,
    condition: Condition,
    vectors: &[Vector],
    headers: Option<&mut [u8]>,
    data: &mut [u8],
) -> usize {
    match lane.width_bytes() {
        1 => store_on::<1>(cpu, lane, condition, vectors, headers, data),
        2 => store_on::<2>(cpu, lane, condition, vectors, headers, data),
        4 => store_on::<4>(cpu, lane, condition, vectors, headers, data),
        _ => store_on::<8>(cpu, lane, condition, vectors, headers, data),
    }
}

/// As [`store`], for lanes of `W` bytes.
fn store_on<const W: usize>(
    cpu: Cpu,
    lane: Lane,
    condition: Condition,
    vectors: &[Vector],
    headers: Option<&mut [u8]>,
    data: &mut [u8],
) -> usize {
    match cpu {
        Cpu::Portable => portable::store(lane, condition, vectors, headers, data),
        #[cfg(target_arch = "x86_64")]
        Cpu::Avx2(cpu) => avx2::store::<W>(cpu, lane, condition, vectors, headers, data),
        #[cfg(target_arch = "x86_64")]
        Cpu::Avx512(cpu) => avx512::store::<W>(cpu, lane, condition, vectors, headers, data),
    }
}

/// Fills all vectors; `headers`, if there, has those of all of them. Returns the bytes of `data` read.
fn load(
    cpu: Cpu,
    lane: Lane,
    headers: Option<&[u8]>,
    data: &[u8],
    vectors: &mut [Vector],
) -> Result<usize, ZcompError> {
    match lane.width_bytes() {
        1 => load_on::<1>(cpu, lane, headers, data, vectors),
        2 => load_on::<2>(cpu, lane, headers, data, vectors),
        4 => load_on::<4>(cpu, lane, headers, data, vectors),
        _ => load_on::<8>(cpu, lane, headers, data, vectors),
    }
}

/// As [`load`], for lanes of `W` bytes.
fn load_on<const W: usize>(
    cpu: Cpu,
    lane: Lane,
    headers: Option<&[u8]>,
    data: &[u8],
    vectors: &mut [Vector],
) -> Result<usize, ZcompError> {
    match cpu {
        Cpu::Portable => portable::load(lane, headers, data, vectors),
        #[cfg(target_arch = "x86_64")]
        Cpu::Avx2(cpu) => avx2::load::<W>(cpu, headers, data, vectors),
        #[cfg(target_arch = "x86_64")]
        Cpu::Avx512(cpu) => avx512::load::<W>(cpu, headers, data, vectors),
    }
}

/// Where headers go while vectors are stored.
struct HeaderSink<'a> {
    separate: Option<&'a mut [u8]>,
    at: usize,
}

impl<'a> HeaderSink<'a> {
    fn new(separate: Option<&'a mut [u8]>) -> Self {
        Self { separate, at: 0 }
    }

    /// Writes one header, to its array or to `data` at `data_at`; returns where the elements go.
    #[inline]
    fn put(&mut self, mask: u64, header_len: usize, data: &mut [u8], data_at: usize) -> usize {
        let header = &mask.to_le_bytes()[..header_len];
        match &mut self.separate {
            Some(headers) => {
                headers[self.at..self.at + header_len].copy_from_slice(header);
                self.at += header_len;
                data_at
            }
            None => {
                data[data_at..data_at + header_len].copy_from_slice(header);
                data_at + header_len
            }
        }
    }
}

/// Where headers and elements come from while vectors are loaded.
struct Source<'a> {
    headers: Option<&'a [u8]>,
    data: &'a [u8],
    at: usize,
}

impl<'a> Source<'a> {
    fn new(headers: Option<&'a [u8]>, data: &'a [u8]) -> Self {
        Self { headers, data, at: 0 }
    }

    /// The next header, and where its kept elements start in the data. They are known to be all there.
    #[inline]
    fn next(&mut self, header_len: usize, width: usize) -> Result<(u64, usize), ZcompError> {
        let mut mask = [0; 8];
        let header = match &mut self.headers {
            Some(headers) => {
                let (header, rest) = headers.split_at(header_len);
                *headers = rest;
                header
            }
            None => self.take(header_len)?,
        };
        mask[..header_len].copy_from_slice(header);
        let mask = u64::from_le_bytes(mask);
        let start = self.at;
        self.take(width * mask.count_ones() as usize)?;
        Ok((mask, start))
    }

    #[inline]
    fn take(&mut self, len: usize) -> Result<&'a [u8], ZcompError> {
        let left = &self.data[self.at..];
        let (offset, got) = (self.at, left.len());
        let taken = left.get(..len).ok_or(ZcompError::Truncated { offset, needed: len, got })?;
        self.at += len;
        Ok(taken)
    }
}

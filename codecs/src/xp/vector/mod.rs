//! What the vector back-ends share: the way through a chunk, column by column. The loops over values are
//! theirs.
//!
//! Every loop is called once for a column, so that it can be a function of its own with the instructions of
//! its back-end, while everything here is plain code.
//!
//! | file | what it does |
//! |---|---|
//! | `survey` | samples, and what an encoder decides from them |
//! | `levels` | masks without their zero bytes |
//! | `cut` | which bytes and bits of a value go where |
//! | `encode`, `decode` | chunks |
//! | `scratch` | the memory that all this happens in |

// The steps are unsafe functions over pointers, since most of them write more than they keep.
#![allow(unsafe_code)]

pub(super) mod cut;
mod decode;
mod encode;
mod levels;
mod scratch;
mod survey;

use super::mode::Mode;
use super::portable;
use crate::chunk::ChunkError;
use crate::{Codec, Element};
use cut::Rests;
pub(super) use scratch::HALF;
use scratch::{MAX_RAW_LEN, Scratch};
pub(super) use survey::{RANKED, Ranked};

/// The loops of a back-end. `B` and `E` are the bits of a value and of its exponent, `S` says whether the
/// sign is part of the symbol, `TOP` is the bytes of a top, `CODE` the bits of a code. Unless `WRITE`, things
/// are only counted.
///
/// # Safety
/// A value of the type proves that the machine has the instructions of its functions. What else each asks of
/// its caller is said there. In scratch memory symbols have as many bytes as their tops, where the back-end
/// wants them. All of them may read up to [`scratch::SLACK`] initialised bytes behind what is in a scratch
/// buffer, and write as many behind what they put in one.
pub(super) unsafe trait Vectors: Copy {
    /// Moves those of `count` values together at `kept` that are not zero or, if `REPEATS`, that differ from
    /// the one before, the first from 0. Writes the mask of them to `bits`, zeros behind it up to a multiple
    /// of 64 bytes, and returns their number.
    ///
    /// # Safety
    /// `bits` has room for a bit for each value and 64 bytes; `kept` is in scratch memory, and may be `values`.
    unsafe fn leave_out<const B: u32, const REPEATS: bool>(
        self,
        values: *const u8,
        count: usize,
        bits: *mut u8,
        kept: *mut u8,
    ) -> usize;

    /// Fills `to` with values: where a bit is set the next of `kept`, elsewhere zero.
    ///
    /// # Safety
    /// `bits` has a bit for each value and then zeros up to a multiple of 64 bytes; `kept` has the values of
    /// the set bits, in scratch memory.
    unsafe fn put_zeros_back<const B: u32>(self, bits: *const u8, kept: *const u8, to: &mut [u8]);

    /// Fills `to` with values: where a bit is set the next of `kept`, elsewhere the one before, the first 0.
    ///
    /// # Safety
    /// As for `put_zeros_back`, and in front of `kept` there is a value of 0.
    unsafe fn put_repeats_back<const B: u32>(self, bits: *const u8, kept: *const u8, to: &mut [u8]);

    /// Writes a bit for each byte of `blocks` times 64 bytes, set = not zero, and returns the number of set
    /// bits.
    ///
    /// # Safety
    /// The bytes are there, and room for the bits.
    unsafe fn raise_level(self, bytes: *const u8, blocks: usize, bits: *mut u8) -> usize;

    /// Moves the bytes whose bit is set together at `to`, and returns where they end.
    ///
    /// # Safety
    /// `blocks` times 64 bytes and their bits are there; `to` has room for what is kept and 64 bytes.
    unsafe fn put_level(self, bits: *const u8, bytes: *const u8, blocks: usize, to: *mut u8) -> *mut u8;

    /// Fills `blocks` times 64 bytes: where a bit is set the next of `stored`, elsewhere zero. Returns how
    /// many were taken.
    ///
    /// # Safety
    /// The bits are there, not more of them set than `stored` has bytes; `to` has room for the bytes.
    unsafe fn take_level(self, bits: *const u8, blocks: usize, stored: &[u8], to: *mut u8) -> usize;

    /// The set bits of `len` bytes.
    ///
    /// # Safety
    /// They are there, and then zeros up to a multiple of 64 bytes.
    unsafe fn count_bits(self, bytes: *const u8, len: usize) -> usize;

    /// The commonest symbols by their counts.
    fn rank(self, counts: &[u8]) -> Ranked;

    /// Writes the codes of the first tier and the rests of `count` values to `to`, the symbols of the escapes
    /// to `escapes`, and returns their number. `tops` are the symbols of the tier as they stand in tops.
    ///
    /// # Safety
    /// The values are there; `escapes` is scratch memory for as many symbols. If `WRITE`, `to` has room for
    /// both columns and 64 bytes.
    unsafe fn cut_values<const B: u32, const E: u32, const S: bool, const WRITE: bool>(
        self,
        values: *const u8,
        count: usize,
        tops: &[u16],
        escapes: *mut u8,
        to: *mut u8,
    ) -> usize;

    /// Writes the codes of `count` symbols to `to`, moves the symbols of the escapes to the front of
    /// `symbols`, and returns their number.
    ///
    /// # Safety
    /// The symbols are in scratch memory. If `WRITE`, `to` has room for the column and 64 bytes.
    unsafe fn put_tier<const TOP: usize, const CODE: usize, const WRITE: bool>(
        self,
        symbols: *mut u8,
        count: usize,
        tops: &[u16],
        to: *mut u8,
    ) -> usize;

    /// Writes the column of `count` symbols to `to`.
    ///
    /// # Safety
    /// The symbols are in scratch memory; `to` has room for the column and 64 bytes.
    unsafe fn put_symbols<const B: u32, const E: u32, const S: bool>(
        self,
        symbols: *const u8,
        count: usize,
        to: *mut u8,
    );

    /// The escapes in a column of `count` codes.
    fn count_escapes<const CODE: usize>(self, column: &[u8], count: usize) -> usize;

    /// Writes the symbols of a column of `count` to `to`, in whatever form the back-end keeps them in.
    ///
    /// # Safety
    /// The column is there; `to` is scratch memory for as many symbols.
    unsafe fn take_symbols<const B: u32, const E: u32, const S: bool>(
        self,
        column: *const u8,
        count: usize,
        to: *mut u8,
    );

    /// Writes the symbols that `count` codes name to `to`, those of the escapes from `escaped`.
    ///
    /// # Safety
    /// The column is there; `escaped` has the escapes' symbols, in scratch memory; `to` is scratch memory for
    /// as many.
    unsafe fn take_tier<const TOP: usize, const CODE: usize>(
        self,
        column: *const u8,
        count: usize,
        tops: &[u16],
        escaped: *const u8,
        to: *mut u8,
    );

    /// Writes `count` values to `to`, from the codes of the first tier, the symbols of its escapes and the
    /// rests.
    ///
    /// # Safety
    /// Codes and rests are there; `escaped` has the escapes' symbols, in scratch memory; `to` has room for
    /// the values.
    unsafe fn join_values<const B: u32, const E: u32, const S: bool>(
        self,
        codes: *const u8,
        rests: Rests,
        count: usize,
        tops: &[u16],
        escaped: *const u8,
        to: *mut u8,
    );
}

pub(super) fn encode(
    vectors: impl Vectors,
    xp: &super::Xp,
    element: Element,
    raw: &[u8],
    coded: &mut [u8],
) -> usize {
    let room = xp.max_chunk_len(element, raw.len());
    assert!(coded.len() >= room, "{} bytes of room, {room} are needed", coded.len());
    if raw.len() > MAX_RAW_LEN {
        return portable::encode(element, raw, coded);
    }
    // SAFETY: `coded` has the room, and `raw` is not over the limit.
    unsafe { code::<_, true>(vectors, element, raw, coded.as_mut_ptr()) }
}

pub(super) fn chunk_len(vectors: impl Vectors, element: Element, raw: &[u8]) -> usize {
    if raw.len() > MAX_RAW_LEN {
        return portable::chunk_len(element, raw);
    }
    // SAFETY: nothing is written, and `raw` is not over the limit.
    unsafe { code::<_, false>(vectors, element, raw, std::ptr::null_mut()) }
}

/// # Safety
/// As for [`encode::code`].
unsafe fn code<V: Vectors, const WRITE: bool>(
    vectors: V,
    element: Element,
    raw: &[u8],
    coded: *mut u8,
) -> usize {
    // SAFETY: the caller's promise.
    Scratch::with(|scratch| unsafe {
        match element {
            Element::U8 | Element::F8E4M3 => encode::code::<V, 8, 4, WRITE>(vectors, raw, coded, scratch),
            Element::F8E5M2 => encode::code::<V, 8, 5, WRITE>(vectors, raw, coded, scratch),
            Element::F16 => encode::code::<V, 16, 5, WRITE>(vectors, raw, coded, scratch),
            Element::U16 | Element::Bf16 => encode::code::<V, 16, 8, WRITE>(vectors, raw, coded, scratch),
            Element::U32 | Element::F32 => encode::code::<V, 32, 8, WRITE>(vectors, raw, coded, scratch),
            Element::U64 | Element::F64 => encode::code::<V, 64, 11, WRITE>(vectors, raw, coded, scratch),
        }
    })
}

pub(super) fn decode(
    vectors: impl Vectors,
    element: Element,
    coded: &[u8],
    raw: &mut [u8],
) -> Result<(), ChunkError> {
    let decoded = if raw.len() > MAX_RAW_LEN {
        None
    } else {
        Scratch::with(|scratch| match element {
            Element::U8 | Element::F8E4M3 => decode::decode::<_, 8, 4>(vectors, coded, raw, scratch),
            Element::F8E5M2 => decode::decode::<_, 8, 5>(vectors, coded, raw, scratch),
            Element::F16 => decode::decode::<_, 16, 5>(vectors, coded, raw, scratch),
            Element::U16 | Element::Bf16 => decode::decode::<_, 16, 8>(vectors, coded, raw, scratch),
            Element::U32 | Element::F32 => decode::decode::<_, 32, 8>(vectors, coded, raw, scratch),
            Element::U64 | Element::F64 => decode::decode::<_, 64, 11>(vectors, coded, raw, scratch),
        })
    };
    decoded.map_or_else(
        || {
            // Raw bytes behind the mode, or an error: portable code copies those and finds the right words
            // for this.
            let decoded = portable::decode(element, coded, raw);
            let stored = coded.starts_with(&Mode::STORED) || raw.len() > MAX_RAW_LEN;
            debug_assert!(decoded.is_err() || stored, "portable code takes what this does not");
            decoded
        },
        Ok,
    )
}

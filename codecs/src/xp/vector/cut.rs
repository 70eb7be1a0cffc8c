//! Which bytes and bits of a value go where.
//!
//! A *top* is the byte of a value that its symbol lies in, or the two bytes if the symbol has more than eight
//! bits. The low bits of a top, if there are any, are the planes of the rest.

use crate::xp::column::{GROUP, planes_len};

/// How values of `BITS` bits with `EXPONENT` bits of exponent are cut, the sign with the exponent or not.
pub(in crate::xp) struct Cut<const BITS: u32, const EXPONENT: u32, const SIGNED: bool>;

impl<const BITS: u32, const EXPONENT: u32, const SIGNED: bool> Cut<BITS, EXPONENT, SIGNED> {
    pub(in crate::xp) const WIDTH: usize = BITS as usize / 8;
    pub(in crate::xp) const SYMBOL_BITS: u32 = EXPONENT + SIGNED as u32;
    /// Bytes of a top.
    pub(in crate::xp) const TOP: usize = if Self::SYMBOL_BITS > 8 { 2 } else { 1 };
    /// Planes of the rest: the low bits of a top.
    pub(in crate::xp) const PLANES: usize = 8 * Self::TOP - Self::SYMBOL_BITS as usize;
    /// Bytes of the pieces of the rest.
    pub(in crate::xp) const PIECES: [usize; 2] = match Self::WIDTH - Self::TOP {
        0 => [0, 0],
        1 => [1, 0],
        2 => [2, 0],
        3 => [2, 1],
        _ => [4, 2],
    };
    /// The symbol's bits of a top.
    pub(in crate::xp) const SYMBOL_MASK: u16 = u16::MAX << Self::PLANES;

    /// Where the rests of `count` values are whose column is at `column`.
    pub(in crate::xp) fn rests(column: *const u8, count: usize) -> Rests {
        let [first, second] = Self::PIECES;
        let piece_1 = column.wrapping_add(first * count);
        Rests { pieces: [column, piece_1], planes: piece_1.wrapping_add(second * count) }
    }

    /// Where the rests go of values whose columns are written to `to`, behind the codes of the first tier.
    pub(in crate::xp) fn rests_mut(to: *mut u8, count: usize) -> RestsMut {
        let rests = Self::rests(to.wrapping_add(planes_len(count, 2)), count);
        RestsMut { pieces: rests.pieces.map(<*const u8>::cast_mut), planes: rests.planes.cast_mut() }
    }
}

/// Where rests go: two pieces, then planes.
#[derive(Clone, Copy)]
pub(in crate::xp) struct RestsMut {
    pub(in crate::xp) pieces: [*mut u8; 2],
    pub(in crate::xp) planes: *mut u8,
}

/// Where rests are.
#[derive(Clone, Copy)]
pub(in crate::xp) struct Rests {
    pub(in crate::xp) pieces: [*const u8; 2],
    pub(in crate::xp) planes: *const u8,
}

impl RestsMut {
    /// The rests of a group of 64 values, where these are those of all.
    #[inline(always)]
    pub(in crate::xp) fn group<const B: u32, const E: u32, const S: bool>(self, group: usize) -> Self {
        let [first, second] = Cut::<B, E, S>::PIECES;
        let [piece_0, piece_1] = self.pieces;
        Self {
            pieces: [
                piece_0.wrapping_add(GROUP * first * group),
                piece_1.wrapping_add(GROUP * second * group),
            ],
            planes: self.planes.wrapping_add(8 * Cut::<B, E, S>::PLANES * group),
        }
    }
}

impl Rests {
    /// The rests of a group of 64 values, where these are those of all.
    #[inline(always)]
    pub(in crate::xp) fn group<const B: u32, const E: u32, const S: bool>(self, group: usize) -> Self {
        let [first, second] = Cut::<B, E, S>::PIECES;
        let [piece_0, piece_1] = self.pieces;
        Self {
            pieces: [
                piece_0.wrapping_add(GROUP * first * group),
                piece_1.wrapping_add(GROUP * second * group),
            ],
            planes: self.planes.wrapping_add(8 * Cut::<B, E, S>::PLANES * group),
        }
    }
}

/// The values and rests of a last group of less than 64 values, with room for 64.
pub(in crate::xp) struct Last {
    values: [u8; GROUP * 8],
    pieces: [[u8; GROUP * 4]; 2],
    planes: [u8; 128],
}

impl Last {
    pub(in crate::xp) const fn new() -> Self {
        Self { values: [0; GROUP * 8], pieces: [[0; GROUP * 4]; 2], planes: [0; 128] }
    }

    pub(in crate::xp) fn values(&mut self) -> *mut u8 {
        self.values.as_mut_ptr()
    }

    pub(in crate::xp) fn rests_mut(&mut self) -> RestsMut {
        RestsMut {
            pieces: self.pieces.each_mut().map(|piece| piece.as_mut_ptr()),
            planes: self.planes.as_mut_ptr(),
        }
    }

    pub(in crate::xp) fn rests(&self) -> Rests {
        Rests { pieces: self.pieces.each_ref().map(|piece| piece.as_ptr()), planes: self.planes.as_ptr() }
    }

    /// Takes `left` values.
    ///
    /// # Safety
    /// They are there, less than 64.
    pub(in crate::xp) unsafe fn take_values(&mut self, values: *const u8, left: usize, width: usize) {
        // SAFETY: the caller's promise.
        unsafe { self.values.as_mut_ptr().copy_from_nonoverlapping(values, left * width) }
    }

    /// Puts `left` values.
    ///
    /// # Safety
    /// There is room for them, and they are less than 64.
    pub(in crate::xp) unsafe fn put_values(&self, values: *mut u8, left: usize, width: usize) {
        // SAFETY: the caller's promise.
        unsafe { values.copy_from_nonoverlapping(self.values.as_ptr(), left * width) }
    }

    /// Takes the rests of `left` values.
    ///
    /// # Safety
    /// They are there, and less than 64.
    pub(in crate::xp) unsafe fn take_rests<const B: u32, const E: u32, const S: bool>(
        &mut self,
        rests: Rests,
        left: usize,
    ) {
        // SAFETY: the caller's promise.
        unsafe {
            for (i, piece) in Cut::<B, E, S>::PIECES.into_iter().enumerate() {
                self.pieces[i].as_mut_ptr().copy_from_nonoverlapping(rests.pieces[i], piece * left);
            }
            take_last_planes(&mut self.planes, Cut::<B, E, S>::PLANES, left, rests.planes);
        }
    }

    /// Puts the rests of `left` values.
    ///
    /// # Safety
    /// There is room for them, and they are less than 64.
    pub(in crate::xp) unsafe fn put_rests<const B: u32, const E: u32, const S: bool>(
        &self,
        rests: RestsMut,
        left: usize,
    ) {
        // SAFETY: the caller's promise.
        unsafe {
            for (i, piece) in Cut::<B, E, S>::PIECES.into_iter().enumerate() {
                rests.pieces[i].copy_from_nonoverlapping(self.pieces[i].as_ptr(), piece * left);
            }
            put_last_planes(&self.planes, Cut::<B, E, S>::PLANES, left, rests.planes);
        }
    }
}

/// Puts the first `number` of some planes of `left` bits at `to`.
///
/// # Safety
/// There is room for them.
pub(in crate::xp) unsafe fn put_last_planes(planes: &[u8], number: usize, left: usize, to: *mut u8) {
    let plane_len = left.div_ceil(8);
    for (i, plane) in planes.as_chunks::<8>().0[..number].iter().enumerate() {
        // SAFETY: the caller's promise; a plane has eight bytes.
        unsafe { to.add(i * plane_len).copy_from_nonoverlapping(plane.as_ptr(), plane_len) };
    }
}

/// Takes `number` planes of `left` bits.
///
/// # Safety
/// They are there.
pub(in crate::xp) unsafe fn take_last_planes(planes: &mut [u8], number: usize, left: usize, from: *const u8) {
    let plane_len = left.div_ceil(8);
    for (i, plane) in planes.as_chunks_mut::<8>().0[..number].iter_mut().enumerate() {
        // SAFETY: the caller's promise; a plane has eight bytes.
        unsafe { plane.as_mut_ptr().copy_from_nonoverlapping(from.add(i * plane_len), plane_len) };
    }
}

/// Planes of 64 codes, and which of them are escapes.
#[derive(Clone, Copy, Default)]
pub(in crate::xp) struct Codes {
    pub(in crate::xp) planes: [u64; 3],
    pub(in crate::xp) escapes: u64,
}

impl Codes {
    /// Writes the planes of a group of `left` codes of `CODE` bits, and returns where the next ones go.
    ///
    /// # Safety
    /// `to` has room for the planes and 8 bytes.
    #[inline(always)]
    pub(in crate::xp) unsafe fn put<const CODE: usize>(&self, left: usize, to: *mut u8) -> *mut u8 {
        let plane_len = left.div_ceil(8);
        // SAFETY: plane `i` starts inside the planes and takes 8 bytes; the next one overwrites what is too
        // much.
        unsafe {
            for (i, plane) in self.planes[..CODE].iter().enumerate() {
                to.add(i * plane_len).cast::<u64>().write_unaligned(*plane);
            }
            to.add(CODE * plane_len)
        }
    }

    /// Writes the two planes of a last group of the first tier, and nothing behind them: the rests are there.
    ///
    /// # Safety
    /// `to` has room for the planes.
    pub(in crate::xp) unsafe fn put_last(&self, left: usize, to: *mut u8) {
        let mut planes = [0; 16];
        planes[..8].copy_from_slice(&self.planes[0].to_le_bytes());
        planes[8..].copy_from_slice(&self.planes[1].to_le_bytes());
        // SAFETY: the caller's promise.
        unsafe { put_last_planes(&planes, 2, left, to) }
    }
}

/// The escapes among 64 codes.
#[inline(always)]
pub(in crate::xp) fn escapes_of<const CODE: usize>([low, middle, high]: [u64; 3]) -> u64 {
    if CODE == 2 { low & middle } else { low & middle & high }
}

/// The planes of whole group number `group` of a column of codes.
///
/// # Safety
/// It is there.
#[inline(always)]
pub(in crate::xp) unsafe fn planes_at<const CODE: usize>(column: *const u8, group: usize) -> [u64; 3] {
    let mut planes = [0; 3];
    for (i, plane) in planes[..CODE].iter_mut().enumerate() {
        // SAFETY: the caller's promise.
        *plane = unsafe { column.add(8 * (CODE * group + i)).cast::<u64>().read_unaligned() };
    }
    planes
}

/// The planes of the last group, which has `left` codes, where `groups` are before it.
///
/// # Safety
/// It is there.
pub(in crate::xp) unsafe fn last_planes_at<const CODE: usize>(
    column: *const u8,
    groups: usize,
    left: usize,
) -> [u64; 3] {
    let mut planes = [0; 24];
    // SAFETY: the caller's promise.
    unsafe { take_last_planes(&mut planes, CODE, left, column.add(8 * CODE * groups)) };
    let number = |i: usize| u64::from_le_bytes(planes.as_chunks::<8>().0[i]);
    [number(0), number(1), number(2)]
}

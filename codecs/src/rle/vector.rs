//! What the vector back-ends share: all of RLE but the test of 64 elements for zero.
//!
//! Everything here is inlined into functions that have the instructions, so blocks are copied by vectors.

use super::portable::{Sections, run_len};
use super::{COUNT_LEN, Counts, LITERALS, MAX_RUN, min_zeros};

/// Elements in a mask.
const WINDOW: usize = 64;
/// Bytes that are copied at once, though a run may have fewer.
const BLOCK: usize = 64;

/// Encodes `raw`, given which of 64 elements are zero.
#[inline(always)]
pub(super) fn encode<const W: usize>(raw: &[u8], coded: &mut [u8], zeros: impl Fn(&[u8]) -> u64) -> usize {
    let (elements, tail) = raw.split_at(raw.len() - raw.len() % W);
    let mut controls = ControlWriter { controls: &mut coded[COUNT_LEN..], count: 0 };
    let mut stretch = Stretch::default();
    for_each_mask::<W>(elements, zeros, |window, mask| {
        let mut ends = stretch.ends(mask);
        while ends != 0 {
            let end = window + ends.trailing_zeros() as usize;
            controls.put(stretch, end);
            stretch = Stretch { literals: !stretch.literals, start: end };
            ends &= ends - 1;
        }
    });
    controls.put(stretch, elements.len() / W);
    let count = controls.count;

    coded[..COUNT_LEN].copy_from_slice(&(count as u32).to_le_bytes());
    let (front, literals) = coded.split_at_mut((COUNT_LEN + count).next_multiple_of(W));
    front[COUNT_LEN + count..].fill(0);
    let (mut from, mut to) = (0, 0);
    for &control in &front[COUNT_LEN..COUNT_LEN + count] {
        let len = W * run_len(control);
        if control & LITERALS != 0 {
            copy(&elements[from..], &mut literals[to..], len);
            to += len;
        }
        from += len;
    }
    literals[to..to + tail.len()].copy_from_slice(tail);
    front.len() + to + tail.len()
}

/// The runs of `raw`.
#[inline(always)]
pub(super) fn count<const W: usize>(raw: &[u8], zeros: impl Fn(&[u8]) -> u64) -> Counts {
    let elements = &raw[..raw.len() - raw.len() % W];
    let (mut stretch, mut counts) = (Stretch::default(), Counts::default());
    for_each_mask::<W>(elements, zeros, |window, mask| {
        counts.literals += mask.count_ones() as usize;
        let ends = stretch.ends(mask);
        if ends != 0 {
            let first = window + ends.trailing_zeros() as usize;
            let last = window + 63 - ends.leading_zeros() as usize;
            // Stretches between them are shorter than a window: one run each.
            counts.controls += (first - stretch.start).div_ceil(MAX_RUN) + ends.count_ones() as usize - 1;
            stretch = Stretch { literals: mask >> 63 == 1, start: last };
        }
    });
    let end = elements.len() / W;
    counts.controls += (end - stretch.start).div_ceil(MAX_RUN);
    counts.literals -= if stretch.literals { end.next_multiple_of(WINDOW) - end } else { 0 };
    counts
}

/// Decodes what [`sections`](super::portable::sections) found to hold together.
#[inline(always)]
pub(super) fn decode<const W: usize>(sections: Sections<'_>, raw: &mut [u8]) {
    let (mut from, mut to) = (0, 0);
    for &control in sections.controls {
        let len = W * run_len(control);
        if control & LITERALS != 0 {
            copy(&sections.literals[from..], &mut raw[to..], len);
            from += len;
        } else {
            clear(&mut raw[to..], len);
        }
        to += len;
    }
    raw[to..].copy_from_slice(sections.tail);
}

/// Calls `visit` with the index of every 64th element and a mask from there: set = literal. Behind the last element,
/// bits repeat its bit.
#[inline(always)]
fn for_each_mask<const W: usize>(
    elements: &[u8],
    zeros: impl Fn(&[u8]) -> u64,
    mut visit: impl FnMut(usize, u64),
) {
    let windows = elements.chunks_exact(W * WINDOW);
    let rest = windows.remainder();
    let mut stretches = Stretches::default();
    let (mut ahead, mut index) = (None, 0);
    for window in windows {
        let next = zeros(window);
        if let Some(zeros) = ahead.replace(next) {
            visit(index, !stretches.of::<W>(zeros, next));
            index += WINDOW;
        }
    }
    // What is filled in behind the end is not zero.
    let mut last = [0xff; 8 * WINDOW];
    last[..rest.len()].copy_from_slice(rest);
    let next = if rest.is_empty() { 0 } else { zeros(&last[..W * WINDOW]) };
    if let Some(zeros) = ahead {
        visit(index, !stretches.of::<W>(zeros, next));
        index += WINDOW;
    }
    if !rest.is_empty() {
        let mask = !stretches.of::<W>(next, 0);
        let behind_last = u64::MAX << (rest.len() / W - 1) << 1;
        let is_literal = mask >> (rest.len() / W - 1) & 1 == 1;
        visit(index, if is_literal { mask } else { mask & !behind_last });
    }
}

/// Finds the zeros that make a stretch, window after window.
#[derive(Default)]
struct Stretches {
    /// Of the window before: its zeros, or for bytes the first ones of three.
    before: u64,
}

impl Stretches {
    /// The zeros in stretches, given those of this window and the next.
    #[inline(always)]
    fn of<const W: usize>(&mut self, zeros: u64, next: u64) -> u64 {
        let before = self.before;
        match min_zeros::<W>() {
            1 => zeros,
            2 => {
                self.before = zeros;
                zeros & ((zeros << 1 | before >> 63) | (zeros >> 1 | next << 63))
            }
            _ => {
                let first = zeros & (zeros >> 1 | next << 63) & (zeros >> 2 | next << 62);
                self.before = first;
                first | (first << 1 | before >> 63) | (first << 2 | before >> 62)
            }
        }
    }
}

/// The stretch that has not ended yet.
#[derive(Clone, Copy, Default)]
struct Stretch {
    literals: bool,
    /// Its first element.
    start: usize,
}

impl Stretch {
    /// Where in a window this stretch and those behind it end, all but the last one.
    #[inline(always)]
    fn ends(self, mask: u64) -> u64 {
        mask ^ (mask << 1 | u64::from(self.literals))
    }
}

/// Appends control bytes.
struct ControlWriter<'a> {
    controls: &'a mut [u8],
    count: usize,
}

impl ControlWriter<'_> {
    /// Appends the runs of a stretch, which may be empty.
    #[inline(always)]
    fn put(&mut self, stretch: Stretch, end: usize) {
        let flag = if stretch.literals { LITERALS } else { 0 };
        let mut left = end - stretch.start;
        while left > MAX_RUN {
            self.push(flag | (MAX_RUN - 1) as u8);
            left -= MAX_RUN;
        }
        if left > 0 {
            self.push(flag | (left - 1) as u8);
        }
    }

    #[inline(always)]
    fn push(&mut self, control: u8) {
        self.controls[self.count] = control;
        self.count += 1;
    }
}

/// Copies `len` bytes, in whole blocks if there is room.
#[inline(always)]
fn copy(from: &[u8], to: &mut [u8], len: usize) {
    let room = len.next_multiple_of(BLOCK);
    match (from.get(..room), to.get_mut(..room)) {
        (Some(from), Some(to)) => {
            for (from, to) in from.as_chunks::<BLOCK>().0.iter().zip(to.as_chunks_mut().0) {
                *to = *from;
            }
        }
        _ => to[..len].copy_from_slice(&from[..len]),
    }
}

/// Writes `len` zeros, in whole blocks if there is room.
#[inline(always)]
fn clear(to: &mut [u8], len: usize) {
    match to.get_mut(..len.next_multiple_of(BLOCK)) {
        Some(to) => to.as_chunks_mut().0.iter_mut().for_each(|block: &mut [u8; BLOCK]| *block = [0; BLOCK]),
        None => to[..len].fill(0),
    }
}

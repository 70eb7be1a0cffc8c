//! The definition of the codec, for words of `B` bytes.

use super::BLOCK;
use super::header::Header;
use super::layout::{Form, Sections, forms, most_patch_bytes, plane, planes_offset, room};
use super::plan::{choose, residual};
use super::word::{bit_len, truncated, word_bytes};
use crate::chunk::SectionWriter;
use crate::packed::PackedWriter;

/// The residuals of a block; those past the last word are zero.
type Residuals = [u64; BLOCK];

pub(super) fn encode<const B: usize>(raw: &[u8], coded: &mut [u8]) -> usize {
    assert!(coded.len() >= room::<B>(raw.len()), "{} bytes of room", coded.len());
    let (words, tail) = raw.as_chunks::<B>();
    let header = choose(words);
    let (mut codes, mut planes, mut patches) = (Vec::new(), Vec::new(), Vec::new());
    for (form, residuals) in blocks(&header, words) {
        codes.push(form.code::<B>());
        let (low_bits, patch_len) = match form {
            Form::Planes(planes) => (planes, 0),
            Form::Patched(patch_len) => (header.low_bits, patch_len as usize),
        };
        for bit in 0..low_bits {
            planes.extend_from_slice(&ballot(&residuals, |r| r >> bit & 1 == 1).to_le_bytes());
        }
        if patch_len > 0 {
            planes.extend_from_slice(&ballot(&residuals, |r| r >> low_bits != 0).to_le_bytes());
            for high in residuals.map(|r| r >> low_bits).into_iter().filter(|&high| high != 0) {
                patches.extend_from_slice(&high.to_le_bytes()[..patch_len]);
            }
        }
    }
    write_sections::<B>(&header, &codes, [&planes, &patches, tail], coded)
}

fn write_sections<const B: usize>(
    header: &Header,
    codes: &[u8],
    data: [&[u8]; 3],
    coded: &mut [u8],
) -> usize {
    header.write::<B>(coded);
    let mut out = SectionWriter::after(coded, Header::len::<B>());
    if B == 1 {
        let mut packed = PackedWriter::<4>::default();
        codes.iter().for_each(|&code| packed.push(code));
        out.put(packed.bytes());
    } else {
        out.put(codes);
    }
    out.align(4);
    data.into_iter().for_each(|section| out.put(section));
    out.len()
}

/// The length of the code of `raw`.
pub(super) fn len<const B: usize>(raw: &[u8]) -> usize {
    let (words, tail) = raw.as_chunks::<B>();
    let header = choose(words);
    let data: usize = blocks(&header, words)
        .map(|(form, residuals)| match form {
            Form::Planes(planes) => 4 * planes as usize,
            Form::Patched(patch_len) => {
                let marks = ballot(&residuals, |r| r >> header.low_bits != 0);
                4 * form.planes(header.low_bits) + marks.count_ones() as usize * patch_len as usize
            }
        })
        .sum();
    planes_offset::<B>(words.len()) + data + tail.len()
}

/// Each block and the form it takes.
fn blocks<const B: usize>(header: &Header, words: &[[u8; B]]) -> impl Iterator<Item = (Form, Residuals)> {
    let mut patch_bytes = 0;
    (0..words.len()).step_by(BLOCK).map(move |start| {
        let mut residuals = [0; BLOCK];
        for (index, r) in (start..words.len()).zip(&mut residuals) {
            *r = residual(header, words, index);
        }
        let longest = bit_len(residuals.iter().fold(0, |any, r| any | r));
        let marks = ballot(&residuals, |r| r >> header.low_bits != 0);
        let (form, patches_len) = Form::cheapest(longest, header.low_bits, marks.count_ones());
        // Patches that find no room count too, so that a prefix sum tells which do.
        patch_bytes += patches_len as usize;
        let fits = patch_bytes <= most_patch_bytes(B * words.len());
        (if fits { form } else { Form::Planes(longest) }, residuals)
    })
}

/// Bit i of the result: whether `condition` holds for residual i.
fn ballot(residuals: &Residuals, condition: impl Fn(u64) -> bool) -> u32 {
    residuals.iter().enumerate().fold(0, |bits, (i, &r)| bits | u32::from(condition(r)) << i)
}

pub(super) fn decode<const B: usize>(sections: &Sections<'_>, raw: &mut [u8]) {
    let Sections { header, codes, planes, mut patches, tail } = *sections;
    let (words, rest) = raw.as_chunks_mut::<B>();
    let blocks = words.len().div_ceil(BLOCK);
    let mut first_plane = 0;
    for (block, form) in forms::<B>(codes, blocks).enumerate() {
        let count = form.planes(header.low_bits);
        let planes = &planes[4 * first_plane..][..4 * count];
        first_plane += count;
        let residuals = decode_block(form, header.low_bits, planes, &mut patches);
        for (index, r) in (block * BLOCK..words.len()).zip(residuals) {
            let difference = header.difference::<B>(truncated::<B>(r));
            let word = header.prediction(words, index).wrapping_add(difference);
            words[index] = word_bytes(word);
        }
    }
    rest.copy_from_slice(tail);
}

/// The residuals of a block from its planes and the front of `patches`.
fn decode_block(form: Form, low_bits: u32, planes: &[u8], patches: &mut &[u8]) -> Residuals {
    let (low_bits, patch_len) = match form {
        Form::Planes(planes) => (planes, 0),
        Form::Patched(patch_len) => (low_bits, patch_len as usize),
    };
    let mut residuals = [0; BLOCK];
    for (i, r) in residuals.iter_mut().enumerate() {
        for bit in 0..low_bits {
            *r |= u64::from(plane(planes, bit as usize) >> i & 1) << bit;
        }
        if patch_len > 0 && plane(planes, low_bits as usize) >> i & 1 == 1 {
            let (high, rest) = patches.split_at(patch_len);
            *patches = rest;
            let mut wide = [0; 8];
            wide[..patch_len].copy_from_slice(high);
            *r |= u64::from_le_bytes(wide) << low_bits;
        }
    }
    residuals
}

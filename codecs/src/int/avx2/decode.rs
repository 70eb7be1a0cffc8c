//! Decoding: planes to residuals, patches one by one, then the sums that each lag asks for.

use super::super::BLOCK;
use super::super::header::{Header, Map};
use super::super::layout::{Form, Sections, forms, plane};
use super::patches::{add_patches, with_bytes};
use super::planes::{Block, words_of};
use super::sums::{add_before, each_vector};
use super::transform::{reversed, rotated_back, unzigzag};
use super::vector::{add, splat};
use crate::cpu::{array_mut, store256};

#[target_feature(enable = "avx2,bmi1,bmi2,lzcnt,popcnt")]
pub(super) fn decode<const B: usize>(sections: &Sections<'_>, raw: &mut [u8]) {
    let header = &sections.header;
    let (words, rest) = raw.as_chunks_mut::<B>();
    rest.copy_from_slice(sections.tail);
    let [a, b] = header.lags;
    let (short, long) = (a.min(b), a.max(b));
    unpack(sections, words);
    undo_map(header, if long == 0 { header.base } else { 0 }, words);
    // Differences of differences: those before the first are zero, since the words there are all the same.
    if short > 0 {
        add_before(words, long, 0);
    }
    if long > 0 {
        add_before(words, if short > 0 { short } else { long }, header.base);
    }
}

/// Fills `words` with residuals.
#[inline]
#[target_feature(enable = "avx2,bmi1,bmi2,lzcnt,popcnt")]
fn unpack<const B: usize>(sections: &Sections<'_>, words: &mut [[u8; B]]) {
    let low_bits = sections.header.low_bits;
    let (mut planes, mut patches) = (sections.planes, sections.patches);
    let forms = forms::<B>(sections.codes, words.len().div_ceil(BLOCK));
    for (block, form) in words.chunks_mut(BLOCK).zip(forms) {
        let (here, rest) = planes.split_at(4 * form.planes(low_bits));
        planes = rest;
        match form {
            Form::Planes(_) => store_block(&words_of::<B>(here), block),
            Form::Patched(patch_len) => {
                let (dense, marks) = here.split_at(4 * low_bits as usize);
                let marks = plane(marks, 0);
                let (_, rest) = patches.split_at(marks.count_ones() as usize * patch_len as usize);
                if patch_len == 1 && rest.len() >= 8 {
                    store_block(&with_bytes::<B>(words_of::<B>(dense), marks, low_bits, patches), block);
                } else {
                    store_block(&words_of::<B>(dense), block);
                    add_patches(block, marks, low_bits, patch_len as usize, patches);
                }
                patches = rest;
            }
        }
    }
}

#[inline]
#[target_feature(enable = "avx2")]
fn store_block<const B: usize>(block: &Block, to: &mut [[u8; B]]) {
    let to = to.as_flattened_mut();
    if to.len() == BLOCK * B {
        for (place, &vector) in to.chunks_exact_mut(32).zip(block) {
            store256(array_mut(place), vector);
        }
    } else {
        let mut bytes = [[0; 32]; 8];
        for (place, &vector) in bytes.iter_mut().zip(block) {
            store256(place, vector);
        }
        to.copy_from_slice(&bytes.as_flattened()[..to.len()]);
    }
}

/// Turns residuals to differences, and adds `offset`.
#[inline]
#[target_feature(enable = "avx2")]
fn undo_map<const B: usize>(header: &Header, offset: u64, words: &mut [[u8; B]]) {
    let (rotation, offset) = (header.rotation, splat::<B>(offset));
    // One loop each, with the same choices for all its words.
    match header.map {
        Map::Identity => each_vector(words, |_, r| add::<B>(rotated_back::<B>(r, rotation), offset)),
        Map::Zigzag if rotation == 0 => each_vector(words, |_, r| add::<B>(unzigzag::<B>(r), offset)),
        Map::Zigzag => {
            each_vector(words, |_, r| add::<B>(unzigzag::<B>(rotated_back::<B>(r, rotation)), offset));
        }
        Map::Reversed => {
            each_vector(words, |_, r| add::<B>(reversed::<B>(rotated_back::<B>(r, rotation)), offset));
        }
    }
}

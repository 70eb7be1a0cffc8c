//! How an input is taken apart: some bytes that choose, then the data.

use crate::common::Random;
use crate::common::back_ends::{BackEnds, MAX_RAW_LEN, Places};
use crate::common::data::{Kind, kinds};
use crate::common::fence::Place;
use mgcomp_codecs::{Algorithm, Codec, Cpu, Element, codecs_on};
use std::cell::RefCell;

/// Takes choices off the front of an input; an input that ends chooses zero.
pub(crate) struct Input<'a>(pub(crate) &'a [u8]);

impl<'a> Input<'a> {
    pub(crate) fn byte(&mut self) -> u8 {
        let Some((&first, rest)) = self.0.split_first() else { return 0 };
        self.0 = rest;
        first
    }

    pub(crate) fn u16(&mut self) -> u16 {
        u16::from_le_bytes([self.byte(), self.byte()])
    }

    /// An algorithm that this version has a codec for. Numbers stand for themselves, so that a stored input
    /// keeps its meaning when codecs are added.
    pub(crate) fn algorithm(&mut self) -> Option<Algorithm> {
        let algorithm = Algorithm::try_from(self.byte() % 16).ok()?;
        mgcomp_codecs::codec(algorithm).map(Codec::algorithm)
    }

    pub(crate) fn element(&mut self) -> Element {
        Element::ALL[usize::from(self.byte()) % Element::ALL.len()]
    }

    pub(crate) fn places(&mut self) -> Places {
        let mut place = || match self.byte() {
            byte @ 0..128 => Place::Start(usize::from(byte % 64)),
            _ => Place::End,
        };
        Places { raw: place(), coded: place() }
    }

    /// The rest of the input as raw bytes, as they are or repeated: at most `max_len`.
    pub(crate) fn raw(mut self, max_len: usize) -> Vec<u8> {
        let (times, step) = (self.u16(), self.byte());
        let data = self.rest();
        let mut raw = Vec::new();
        for repetition in 0..=times {
            if raw.len() >= max_len || data.is_empty() {
                break;
            }
            // Each repetition a little different, so that a few bytes can make a field or a ramp.
            let shift = step.wrapping_mul(repetition as u8);
            raw.extend(data.iter().map(|byte| byte.wrapping_add(shift)));
        }
        raw.truncate(max_len);
        raw
    }

    pub(crate) fn rest(&self) -> &'a [u8] {
        self.0
    }
}

/// The choices for [`Input::raw`] that take the data as it is.
pub(crate) const AS_IT_IS: [u8; 3] = [0; 3];

/// Calls `work` with buffers that stay between calls.
pub(crate) fn with_back_ends<T>(work: impl FnOnce(&mut BackEnds) -> T) -> T {
    thread_local!(static BACK_ENDS: RefCell<BackEnds> = RefCell::new(BackEnds::new()));
    BACK_ENDS.with_borrow_mut(work)
}

/// What one seed is made of.
pub(crate) struct Sample {
    pub(crate) codec: &'static dyn Codec,
    pub(crate) element: Element,
    pub(crate) raw: Vec<u8>,
}

impl Sample {
    /// The bytes that choose this sample's algorithm and element.
    pub(crate) fn choices(&self) -> [u8; 2] {
        [self.codec.algorithm().number(), self.element.number()]
    }
}

/// For every codec every kind of data once, in turn as one of the elements, of up to `max_len` bytes.
pub(crate) fn samples(max_len: usize) -> impl Iterator<Item = Sample> {
    let max_len = max_len.min(MAX_RAW_LEN);
    let numbered: Vec<(usize, Kind)> = kinds().enumerate().collect();
    codecs_on(Cpu::Portable).flat_map(move |codec| {
        numbered.clone().into_iter().map(move |(i, kind)| {
            let element = Element::ALL[(i + usize::from(codec.algorithm().number())) % Element::ALL.len()];
            let mut random = Random(i as u64);
            let len = 1 + random.below(max_len);
            Sample { codec, element, raw: kind.fill(&mut random, element, len) }
        })
    })
}

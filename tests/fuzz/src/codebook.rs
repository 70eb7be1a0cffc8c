//! Codebooks of invariant bits: bodies, fits, and codes of chunks and tensors made with them.

use crate::common::Random;
use crate::common::back_ends::{BackEnds, Case, OnIsa, Places};
use crate::common::data::kinds;
use crate::common::fence::{Fenced, Place};
use crate::input::{AS_IT_IS, Input, with_back_ends};
use mgcomp_codecs::ibp::{Codebook, CodebookSection, FitOptions, Form, Granule, Ibp, Packer, fit};
use mgcomp_codecs::{Codec, Cpu, Element, Isa};

const MAX_RAW_LEN: usize = 3_000;

/// The first byte says what the rest is: a body, a section, or choices and data.
///
/// # Panics
/// If a body that is read is written otherwise, a fit is no codebook, or instruction sets differ.
pub fn run(input: &[u8]) {
    let mut input = Input(input);
    match input.byte() % 4 {
        0 => body(input.rest()),
        1 => section(input.rest()),
        kind => {
            let choices = Choices::take(&mut input);
            let data = input.raw(MAX_RAW_LEN);
            let (learnt, rest) = data.split_at(data.len() * usize::from(choices.learnt) / 255);
            let Ok(codebook) = fit(learnt, choices.tensor_len, choices.options) else { return };
            body(&codebook.to_bytes());
            with_back_ends(|back_ends| {
                chunks(back_ends, &codebook, &choices, &data, rest);
            });
            tensors(&codebook, if kind == 2 { &data } else { rest }, choices.places);
        }
    }
}

struct Choices {
    tensor_len: usize,
    options: FitOptions,
    /// Of 255 parts of the data, so many are fitted to; the others are taken for a code.
    learnt: u8,
    offset: u64,
    raw_len: usize,
    places: Places,
}

impl Choices {
    fn take(input: &mut Input<'_>) -> Self {
        let tensor_len = 1 + usize::from(input.byte()) % 160;
        let (shape, learnt) = (input.byte(), input.byte());
        let granule = [None, Some(Granule::Four), Some(Granule::Eight)][usize::from(shape % 3)];
        let options = FitOptions {
            granule,
            clusters: 1 + usize::from(shape / 3 % 5),
            stride: 1 + usize::from(shape / 15 % 3),
        };
        // Chunks start at multiples of the granule.
        let offset = 8 * u64::from(input.u16());
        Self {
            tensor_len,
            options,
            learnt,
            offset,
            raw_len: usize::from(input.u16()),
            places: input.places(),
        }
    }
}

fn body(bytes: &[u8]) {
    let Ok(codebook) = Codebook::parse(bytes) else { return };
    assert!(codebook.to_bytes() == bytes, "another body");
    assert_ne!(codebook.id(), 0, "the empty codebook's identity");
}

fn section(bytes: &[u8]) {
    let Ok(section) = CodebookSection::parse(bytes) else { return };
    let written = section.to_bytes();
    assert_eq!(CodebookSection::len_of(bytes).ok(), Some(written.len()), "length of the section");
    assert!(bytes.starts_with(&written), "another section");
}

/// The data as a chunk, and the rest of it as the code of one.
fn chunks(back_ends: &mut BackEnds, codebook: &Codebook, choices: &Choices, data: &[u8], rest: &[u8]) {
    let codecs: Option<Vec<(Isa, Ibp)>> =
        Cpu::available().map(|cpu| Some((cpu.isa(), Ibp::with(cpu, codebook.clone()).ok()?))).collect();
    // Tensors that are no whole granules are for tables alone.
    let Some(codecs) = codecs else { return };
    let codecs: Vec<OnIsa<'_>> = codecs.iter().map(|(isa, codec)| (*isa, codec as &dyn Codec)).collect();
    let &Choices { offset, raw_len, places, .. } = choices;
    let case = Case { element: Element::U8, offset, places, what: "with a codebook" };
    back_ends.round_trip_with(&codecs, case, data);
    let _ = back_ends.decode_with(&codecs, case, rest, raw_len);
}

/// Every tensor in its slot, and any bytes as a slot.
fn tensors(codebook: &Codebook, data: &[u8], places: Places) {
    let packers: Vec<Packer> = Cpu::available().map(|cpu| Packer::on(cpu, codebook.clone())).collect();
    let len = codebook.tensor_len();
    let [mut slots, mut tensors] = [len, len].map(Fenced::new);
    for tensor in data.chunks_exact(len) {
        let expected = packers[0].packed(tensor);
        for packer in &packers {
            let slot = slots.place(places.coded, len, 0x3c);
            assert_eq!(packer.packed(tensor), expected, "form of {tensor:02x?}");
            assert_eq!(packer.pack(tensor, slot), expected, "packed form of {tensor:02x?}");
            assert_eq!(slots.harm(), None, "slot of {tensor:02x?}");
            let code = &slots.content()[..expected.len];
            // What lies behind the code does not matter, not even whether it is there.
            let code = tensors.hold(Place::End, code).to_vec();
            let read = unpack(packer, expected.form, &code, &mut tensors, places);
            assert!(read == Ok((expected.len, tensor.to_vec())), "{read:02x?}, not {tensor:02x?}");
        }
    }
    for cluster in 0..=codebook.clusters().len() as u16 {
        let form = Form::Packed { cluster: cluster as u8 };
        let slot = slots.hold(places.coded, &data[data.len() - data.len().min(len)..]);
        let expected = unpack(&packers[0], form, slot, &mut tensors, places);
        for packer in &packers[1..] {
            assert_eq!(unpack(packer, form, slot, &mut tensors, places), expected, "{form:?} of {slot:02x?}");
        }
    }
}

type Unpacked = Result<(usize, Vec<u8>), mgcomp_codecs::ChunkError>;

fn unpack(packer: &Packer, form: Form, slot: &[u8], tensors: &mut Fenced, places: Places) -> Unpacked {
    let tensor = tensors.place(places.raw, packer.codebook().tensor_len(), 0xc3);
    let result = packer.unpack(form, slot, tensor);
    assert_eq!(tensors.harm(), None, "tensor of {slot:02x?}");
    result.map(|len| (len, tensors.content().to_vec()))
}

/// Bodies and sections of several shapes, and every kind of data as tensors of several lengths.
#[must_use]
pub fn seeds() -> Vec<Vec<u8>> {
    let mut seeds = Vec::new();
    for (i, kind) in kinds().enumerate() {
        let raw = kind.fill(&mut Random(i as u64), Element::ALL[i % Element::ALL.len()], 600);
        let tensor_len = [4, 8, 16, 40, 64, 10, 13, 128][i % 8];
        let options = FitOptions { clusters: 1 + i % 3, ..FitOptions::default() };
        if let Ok(codebook) = fit(&raw, tensor_len, options) {
            seeds.push([&[0][..], &codebook.to_bytes()].concat());
            seeds.push([&[1][..], &CodebookSection::Carried(codebook).to_bytes()].concat());
        }
        let choices =
            [2 + i as u8 % 2, tensor_len as u8 - 1, 5 * i as u8, 200, i as u8, 0, 100, 0, 0xff, 0xff];
        seeds.push([&choices[..], &AS_IT_IS, &raw].concat());
    }
    seeds
}

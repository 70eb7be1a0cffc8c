//! The data that transfers are cut from.

use std::path::PathBuf;

use mgcomp_codecs::frame::{Options, sampled_frame_len};
use mgcomp_codecs::{Algorithm, Element, codec};

use crate::codec::Data;
use crate::data::{self, Item, Random, SAMPLES, tile};
use crate::error::BenchError;
use crate::timing::{Buffer, CandidateError};

/// More of the data than the longest transfer needs, so that not all long ones begin at the same place.
const SLACK_BYTES: usize = 4 << 20;
/// Bytes of a file that its kind is told from.
const LOOK_BYTES: usize = 256 << 10;
/// Part of the elements that is zero in maps after ReLU.
const SPARSE: f64 = 0.3;
/// What noise may shrink to.
const NOISE: f64 = 0.99;

/// A kind of data that has a sequence of its own.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    /// Floats of 16 bits, hardly any of them zero.
    Dense,
    /// Floats, many of them zero.
    Relu,
    Indices,
    Noise,
}

impl Kind {
    pub(super) const ALL: [Self; 4] = [Self::Dense, Self::Relu, Self::Indices, Self::Noise];

    pub(super) const fn name(self) -> &'static str {
        match self {
            Self::Dense => "dense",
            Self::Relu => "relu",
            Self::Indices => "indices",
            Self::Noise => "random",
        }
    }

    /// What a file holds, if any of these.
    fn of(element: Element, content: &[u8]) -> Option<Self> {
        let content = &content[..content.len().min(LOOK_BYTES)];
        if is_noise(element, content) {
            return Some(Self::Noise);
        }
        let values = content.chunks_exact(element.width_bytes());
        let zeros = values.clone().filter(|value| value.iter().all(|&byte| byte == 0)).count();
        match element {
            Element::U32 | Element::U64 => Some(Self::Indices),
            Element::F16 | Element::Bf16 | Element::F32 if zeros as f64 >= SPARSE * values.len() as f64 => {
                Some(Self::Relu)
            }
            Element::Bf16 => Some(Self::Dense),
            _ => None,
        }
    }
}

/// Whether no codec that is there to be chosen shortens it.
fn is_noise(element: Element, content: &[u8]) -> bool {
    let options = Options::for_len(content.len());
    Algorithm::ALL.into_iter().filter(|&algorithm| algorithm != Algorithm::Deflate).filter_map(codec).all(
        |codec| {
            let len = sampled_frame_len(codec, element, content, options, LOOK_BYTES / 4);
            len as f64 >= NOISE * content.len() as f64
        },
    )
}

/// A file that transfers are to be cut from.
pub(super) struct Chosen {
    /// Its kind, where it stands for one; a file that flags name stands for itself.
    kind: Option<Kind>,
    item: Item,
    content: Vec<u8>,
}

/// The files that flags name, or one for each kind of data from the folders they name, by chance.
pub(super) fn choose(data: &[Data], seed: u64) -> Result<Vec<Chosen>, BenchError> {
    let read = |item: Item| data::read(&item.path).map(|content| (item, content));
    let files = crate::codec::items_of(data)?.into_iter().map(read).collect::<Result<Vec<_>, _>>()?;
    if !data.is_empty() && data.iter().all(|data| !data.path.is_dir()) {
        return Ok(files.into_iter().map(|(item, content)| Chosen { kind: None, item, content }).collect());
    }
    let mut by_kind: [Vec<(Item, Vec<u8>)>; 4] = Default::default();
    for (item, content) in files {
        if let Some(kind) = Kind::of(item.element, &content) {
            by_kind[kind as usize].push((item, content));
        }
    }
    let mut random = Random::new(seed);
    let mut chosen = Vec::new();
    for (kind, mut files) in Kind::ALL.into_iter().zip(by_kind) {
        if !files.is_empty() {
            let (item, content) = files.swap_remove(random.below(files.len()));
            chosen.push(Chosen { kind: Some(kind), item, content });
        }
    }
    let folder = || data.first().map_or_else(|| PathBuf::from(SAMPLES), |data| data.path.clone());
    if chosen.is_empty() { Err(BenchError::NoFiles { path: folder() }) } else { Ok(chosen) }
}

impl Chosen {
    /// The data repeated until the longest transfer fits.
    pub(super) fn load(self, longest: usize) -> Result<Source, BenchError> {
        let Self { kind, item, content } = self;
        let bytes = longest + SLACK_BYTES.min(longest);
        let mut raw = Buffer::new(bytes).map_err(|source| BenchError::Buffer { bytes, source })?;
        tile(&content, item.element.width_bytes(), &mut raw);
        Ok(Source { kind, item, raw })
    }
}

/// Data to cut transfers from.
pub(super) struct Source {
    pub(super) kind: Option<Kind>,
    pub(super) item: Item,
    raw: Buffer,
}

impl Source {
    /// An algorithm that failed on it.
    pub(super) fn failed(&self, algorithm: Algorithm, source: CandidateError) -> BenchError {
        BenchError::Candidate { path: self.item.path.clone(), algorithm: algorithm.name(), source }
    }

    pub(super) fn raw(&self) -> &[u8] {
        &self.raw
    }
}

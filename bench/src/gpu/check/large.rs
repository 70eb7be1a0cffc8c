//! One buffer of more chunks than the device has blocks, so that blocks wait for each other.

use mgcomp_codecs::frame::ChunkSize;
use mgcomp_codecs::{Algorithm, Element};

use super::case::{self, Case};
use super::error::CheckError;
use super::rig::{Rig, Scratch};
use super::{Extent, Lab};
use crate::data::{Random, tile};

/// What is repeated up to the size.
const SAMPLE_LEN: usize = 3 << 20;

pub(super) fn check(lab: &Lab<'_>, algorithm: Algorithm) -> Result<Extent, CheckError> {
    let Lab { device, stream, effort } = lab;
    let mut random = Random::new(effort.seed + u64::from(algorithm.number()));
    let mut extent = Extent::default();
    for (number, (element, chunk_size)) in
        [(Element::F32, ChunkSize::SMALL), (Element::Bf16, ChunkSize::DEFAULT)].into_iter().enumerate()
    {
        let mut raw = vec![0; effort.large_bytes];
        let sample = case::bytes(SAMPLE_LEN.min(effort.large_bytes), element, &mut random);
        if !sample.is_empty() {
            tile(&sample, element.width_bytes(), &mut raw);
        }
        let coder = device.coder(algorithm, chunk_size)?;
        let rig = Rig::new(
            device,
            stream,
            &coder,
            Case { number, element, raw, offset: 0, back_offset: 0 },
            false,
        )?;
        let len = rig.case.raw.len() as u64;
        let scratch = Scratch::new(device, stream, &coder, &[len])?;
        let mut workspace = scratch.workspace();
        coder.compress(stream, &mut workspace, &[rig.compress()])?;
        coder.decompress(stream, &mut workspace, &[rig.decompress_own()])?;
        coder.estimate(stream, &mut workspace, &[rig.estimate()])?;
        rig.check(stream)?;
        scratch.check(stream, &rig.case)?;
        extent.add(1, len);
    }
    Ok(extent)
}

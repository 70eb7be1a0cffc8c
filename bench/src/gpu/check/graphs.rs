//! Work recorded once and replayed on other data: lengths pass from kernel to kernel on the device alone.
#![allow(unsafe_code)] // launches graphs

use mgcomp_codecs::Algorithm;
use mgcomp_codecs::frame::ChunkSize;

use super::case::{self, Case};
use super::error::CheckError;
use super::rig::{Rig, Scratch};
use super::{Extent, Lab};
use crate::data::Random;

const BUFFERS: usize = 4;
const REPLAYS: usize = 3;

pub(super) fn check(lab: &Lab<'_>, algorithm: Algorithm) -> Result<Extent, CheckError> {
    let Lab { device, stream, effort } = lab;
    let mut random = Random::new(!effort.seed ^ u64::from(algorithm.number()));
    let coder = device.coder(algorithm, ChunkSize::SMALL)?;
    let mut rigs = (0..BUFFERS)
        .map(|n| {
            let case = Case::random(n, ChunkSize::SMALL, &mut random);
            Rig::new(device, stream, &coder, case, false)
        })
        .collect::<Result<Vec<_>, _>>()?;
    let raw_lens: Vec<u64> = rigs.iter().map(|rig| rig.case.raw.len() as u64).collect();
    let scratch = Scratch::new(device, stream, &coder, &raw_lens)?;
    let mut workspace = scratch.workspace();
    let graph = stream.capture(|| {
        coder.compress(stream, &mut workspace, &rigs.iter().map(Rig::compress).collect::<Vec<_>>())?;
        let own: Vec<_> = rigs.iter().map(Rig::decompress_own).collect();
        coder.decompress(stream, &mut workspace, &own)?;
        coder.estimate(stream, &mut workspace, &rigs.iter().map(Rig::estimate).collect::<Vec<_>>())
    })?;
    let mut extent = Extent::default();
    for replay in 0..REPLAYS {
        // SAFETY: the buffers live until the checks below have waited for the work.
        unsafe { graph.launch(stream)? };
        for rig in &rigs {
            rig.check(stream)?;
        }
        scratch.check(stream, &format_args!("replay {replay}"))?;
        extent.add(BUFFERS, raw_lens.iter().sum());
        for rig in &mut rigs {
            let raw = case::bytes(rig.case.raw.len(), rig.case.element, &mut random);
            rig.refill(stream, &coder, raw)?;
        }
    }
    Ok(extent)
}

//! Buffers by chance, several in a launch: the device's frames are the CPU's, it reads the CPU's, and it tells
//! their lengths.

use mgcomp_codecs::Algorithm;
use mgcomp_codecs::frame::ChunkSize;

use super::case::Case;
use super::error::CheckError;
use super::rig::{Rig, Scratch};
use super::{Extent, Lab};
use crate::data::Random;

/// Sizes of batches, by chance. The largest is more than a launch takes.
const BATCHES: [usize; 8] = [1, 1, 1, 2, 3, 5, 9, 70];

pub(super) fn check(lab: &Lab<'_>, algorithm: Algorithm) -> Result<Extent, CheckError> {
    let mut random = Random::new(lab.effort.seed ^ u64::from(algorithm.number()) << 32);
    let mut extent = Extent::default();
    while extent.buffers < lab.effort.cases {
        let size = random.pick(&BATCHES).min(lab.effort.cases - extent.buffers);
        check_batch(lab, algorithm, size, &mut random, &mut extent)?;
    }
    Ok(extent)
}

fn check_batch(
    lab: &Lab<'_>,
    algorithm: Algorithm,
    size: usize,
    random: &mut Random,
    extent: &mut Extent,
) -> Result<(), CheckError> {
    let Lab { device, stream, .. } = lab;
    let log2 = random.pick(&[12, 12, 13, 14, 14, 15, 16]);
    let chunk_size = ChunkSize::from_log2(log2).unwrap_or(ChunkSize::DEFAULT);
    let mut coder = device.coder(algorithm, chunk_size)?;
    if random.percent(20) {
        coder = coder.limit_sms(1 + random.below(3) as u32);
    }
    let rigs = (0..size)
        .map(|n| {
            let case = Case::random(extent.buffers + n, chunk_size, random);
            Rig::new(device, stream, &coder, case, random.percent(30))
        })
        .collect::<Result<Vec<_>, _>>()?;
    let raw_lens: Vec<u64> = rigs.iter().map(|rig| rig.case.raw.len() as u64).collect();
    let scratch = Scratch::new(device, stream, &coder, &raw_lens)?;
    let mut workspace = scratch.workspace();
    coder.compress(stream, &mut workspace, &rigs.iter().map(Rig::compress).collect::<Vec<_>>())?;
    coder.decompress(stream, &mut workspace, &rigs.iter().map(Rig::decompress).collect::<Vec<_>>())?;
    coder.estimate(stream, &mut workspace, &rigs.iter().map(Rig::estimate).collect::<Vec<_>>())?;
    for rig in &rigs {
        rig.check(stream)?;
    }
    scratch.check(stream, &format_args!("{size} buffers in chunks of {} bytes", chunk_size.bytes()))?;
    extent.add(size, raw_lens.iter().sum());
    Ok(())
}

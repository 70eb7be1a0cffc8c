//! Chunks of a frame: stretches of a buffer that is one tensor after the other.

use super::bits::Sink;
use super::packer::{Packer, Part};
use crate::chunk::{ChunkError, SectionReader};

/// The tensors, whole or cut, that `len` bytes of granules lie in, `offset` bytes into the buffer. With one
/// cluster there is nothing to tell tensors apart by, and they are one stretch.
fn tensors(packer: &Packer, offset: u64, len: usize) -> impl Iterator<Item = (usize, usize)> + Clone {
    let tensor_len = packer.codebook().tensor_len();
    let (mut phase, mut left) = ((offset % tensor_len as u64) as usize, len);
    let one = !tells_clusters(packer);
    std::iter::from_fn(move || {
        let len = if one { left } else { left.min(tensor_len - phase) };
        let part = (len > 0).then_some((phase, len));
        left -= len;
        phase = 0;
        part
    })
}

fn tells_clusters(packer: &Packer) -> bool {
    packer.codebook().clusters().len() > 1
}

/// Bytes that name the clusters of a chunk of `raw_len` bytes.
fn clusters_len(packer: &Packer, offset: u64, raw_len: usize) -> usize {
    if tells_clusters(packer) { tensors(packer, offset, packer.whole(raw_len)).count() } else { 0 }
}

/// The most bytes that a chunk of `raw_len` bytes takes, and room for the coders' vectors.
pub(super) fn max_len(packer: &Packer, raw_len: usize) -> usize {
    let most_tensors = raw_len / packer.codebook().tensor_len() + 2;
    let clusters = if tells_clusters(packer) { most_tensors } else { 0 };
    clusters + packer.code_len(raw_len, 0) + 64
}

pub(super) fn encode(packer: &Packer, offset: u64, raw: &[u8], coded: &mut [u8]) -> usize {
    let (mut granules, tail) = raw.split_at(packer.whole(raw.len()));
    let clusters_len = clusters_len(packer, offset, raw.len());
    let (clusters, code) = coded.split_at_mut(clusters_len);
    let (participation, kept) = code.split_at_mut(packer.participation_len(raw.len()));
    let start = clusters_len + participation.len();
    let mut sink = Sink::new(participation, kept);
    for (i, (phase, len)) in tensors(packer, offset, granules.len()).enumerate() {
        let (part, behind) = granules.split_at(len);
        let cluster = if tells_clusters(packer) { packer.best_cluster(phase, part).0 } else { 0 };
        if let Some(name) = clusters.get_mut(i) {
            *name = cluster as u8;
        }
        packer.encode(cluster, phase, part, &mut sink);
        granules = behind;
    }
    let end = start + sink.finish();
    coded[end..end + tail.len()].copy_from_slice(tail);
    end + tail.len()
}

pub(super) fn len(packer: &Packer, offset: u64, raw: &[u8]) -> usize {
    let mut granules = &raw[..packer.whole(raw.len())];
    let mut saved = 0;
    for (phase, len) in tensors(packer, offset, granules.len()) {
        let (part, behind) = granules.split_at(len);
        saved += packer.best_cluster(phase, part).1;
        granules = behind;
    }
    clusters_len(packer, offset, raw.len()) + packer.code_len(raw.len(), saved)
}

pub(super) fn decode(packer: &Packer, offset: u64, coded: &[u8], raw: &mut [u8]) -> Result<(), ChunkError> {
    let mut sections = SectionReader::new(coded);
    let clusters = sections.take(clusters_len(packer, offset, raw.len()))?;
    packer.check_clusters(clusters)?;
    let parts = tensors(packer, offset, packer.whole(raw.len())).enumerate().map(|(i, (phase, len))| {
        let cluster = clusters.get(i).map_or(0, |&cluster| usize::from(cluster));
        Part { cluster, phase, len }
    });
    packer.decode_sections(&mut sections, parts, raw)?;
    sections.finish()
}

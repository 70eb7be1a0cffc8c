//! Records for `replay.cpp`: launches and what a kernel must answer to them.

use super::{Job, Kernel, Launch, Shim, launch};
use mgcomp_codecs::frame::ChunkSize;
use mgcomp_codecs::{Algorithm, Element};

/// The source of a recorded launch.
#[derive(Clone, Copy, Debug)]
pub enum Source<'a> {
    /// A frame, good or bad, for so many raw bytes.
    Frame(&'a [u8], usize),
    /// Raw bytes to encode.
    Raw(Element, &'a [u8], ChunkSize),
    /// Raw bytes to encode with less room than the longest frame needs: so many bytes.
    Cramped(Element, &'a [u8], ChunkSize, usize),
    /// Raw bytes to estimate.
    Estimated(Element, &'a [u8], ChunkSize),
}

/// Appends the record of one launch of `jobs` equal jobs to `file`. The expected answer is that of this build's
/// kernel, which other tests compare with portable code.
pub fn push(
    file: &mut Vec<u8>,
    shim: Shim,
    algorithm: Algorithm,
    source: Source<'_>,
    jobs: u32,
    launch: Launch,
) {
    let (kernel, element, src, chunk_size, job) = match source {
        Source::Frame(frame, dst_len) => {
            let job = Job::decode(frame, dst_len, launch);
            (Kernel::Decode, Element::U8, frame, launch.chunk_limit, job)
        }
        Source::Raw(element, raw, chunk_size) => {
            (Kernel::Encode, element, raw, chunk_size, Job::encode(element, raw, chunk_size, launch))
        }
        Source::Cramped(element, raw, chunk_size, room) => {
            let job = Job::new(element.number().into(), raw, room, launch);
            (Kernel::Encode, element, raw, chunk_size, job)
        }
        Source::Estimated(element, raw, chunk_size) => {
            let job = Job::new(element.number().into(), raw, 0, launch);
            (Kernel::Estimate, element, raw, chunk_size, job)
        }
    };
    let mut job = [job];
    shim.run(algorithm, kernel, &mut job, chunk_size, launch);
    let [job] = job;
    // A decoder leaves no length; `replay` starts with 0.
    let out_len = if kernel == Kernel::Decode { 0 } else { job.out_len() };
    let result = match kernel {
        Kernel::Decode => job.dst(),
        Kernel::Encode => job.frame(),
        Kernel::Estimate => &[],
    };
    let offsets = [launch.src_offset as u32, launch.dst_offset as u32];
    let numbers = [
        algorithm.number().into(),
        kernel.number(),
        element.number().into(),
        chunk_size.log2().into(),
        launch.blocks,
        launch.order.number(),
        launch.os_threads,
        jobs,
    ];
    for number in numbers.into_iter().chain(offsets) {
        file.extend(number.to_le_bytes());
    }
    let code = job.status().code;
    let codebook = job.codebook().unwrap_or_default();
    let lengths = [src, job.dst(), result, codebook].map(|bytes| bytes.len() as u64);
    for field in [code.into(), out_len].into_iter().chain(lengths) {
        file.extend(field.to_le_bytes());
    }
    file.extend_from_slice(codebook);
    file.extend_from_slice(src);
    if code == launch::GOOD {
        file.extend_from_slice(result);
    }
}

//! The process whose instructions are counted.

use std::hint::black_box;

use nix::sys::ptrace;
use nix::sys::signal::{Signal, raise};

use super::{CountError, Subject};

/// Does everything once to warm up and once for the tracer, which is told by stops before and after.
pub(super) fn run(subjects: &[Subject]) -> Result<(), CountError> {
    ptrace::traceme()?;
    // What stopping takes itself.
    count(|| ())?;
    for subject in subjects {
        operations(subject)?;
    }
    Ok(())
}

fn count<T>(work: impl FnOnce() -> T) -> Result<T, CountError> {
    raise(Signal::SIGSTOP)?;
    let result = black_box(work());
    raise(Signal::SIGSTOP)?;
    Ok(result)
}

fn operations(subject: &Subject) -> Result<(), CountError> {
    let (codec, element) = (subject.codec(), subject.element);
    let mut codes: Vec<Vec<u8>> =
        subject.chunks().map(|chunk| vec![0; codec.max_chunk_len(element, chunk.len())]).collect();
    let mut lens = vec![0; codes.len()];
    let mut encode = |lens: &mut Vec<usize>| {
        for ((chunk, code), len) in subject.chunks().zip(&mut codes).zip(lens) {
            *len = codec.encode_chunk(element, black_box(chunk), code);
        }
    };
    encode(&mut lens);
    count(|| encode(&mut lens))?;
    let mut raw = vec![0; subject.raw.len()];
    let chunk_len = subject.chunks().next().map_or(1, <[u8]>::len);
    let decode = |raw: &mut Vec<u8>| {
        for ((chunk, code), &len) in raw.chunks_mut(chunk_len).zip(&codes).zip(&lens) {
            let _ = black_box(codec.decode_chunk(element, &code[..len], chunk));
        }
    };
    decode(&mut raw);
    count(|| decode(&mut raw))?;
    if let Some(offset) = raw.iter().zip(&subject.raw).position(|(a, b)| a != b) {
        return Err(CountError::RoundTrip { algorithm: subject.algorithm, offset });
    }
    let estimate = || subject.chunks().map(|chunk| codec.chunk_len(element, black_box(chunk))).sum::<usize>();
    estimate();
    count(estimate)?;
    Ok(())
}

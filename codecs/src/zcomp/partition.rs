//! Whole buffers: independent partitions, one stream each.

use super::{Condition, Lane, VECTOR_LEN, Vector, ZcompError, check_header, load, store, store_room};
use crate::Cpu;

/// Where headers stand.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Headers {
    /// Each in front of its elements.
    Interleaved,
    /// In an array of their own.
    Separate,
}

/// One part of a buffer, compressed on its own.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Partition {
    /// Raw bytes; a multiple of 64 in all partitions but the last.
    pub raw_len: usize,
    /// The headers where they are separate, else nothing.
    pub headers: Vec<u8>,
    /// Kept elements, with their headers in front where those are interleaved; then the bytes behind the last
    /// whole element.
    pub data: Vec<u8>,
}

/// A compressed buffer. Nothing in it is trusted: it may be put together by hand.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Compressed {
    /// What the elements are.
    pub lane: Lane,
    /// Where the headers stand.
    pub headers: Headers,
    /// The parts, in the order of the buffer.
    pub partitions: Vec<Partition>,
}

impl Compressed {
    /// Compresses `raw` in at most `partitions` parts of about the same length, on `threads` threads, the caller's
    /// included.
    ///
    /// # Errors
    /// [`ZcompError::None`] if there is to be no partition or no thread.
    ///
    /// # Panics
    /// If the system cannot start a thread.
    pub fn new(
        cpu: Cpu,
        lane: Lane,
        headers: Headers,
        condition: Condition,
        raw: &[u8],
        partitions: usize,
        threads: usize,
    ) -> Result<Self, ZcompError> {
        if partitions == 0 || threads == 0 {
            return Err(ZcompError::None);
        }
        let vectors = raw.len().div_ceil(VECTOR_LEN).div_ceil(partitions).max(1);
        let jobs = raw.chunks(vectors * VECTOR_LEN).collect();
        let partitions =
            on_threads(jobs, threads, &|part| compress_partition(cpu, lane, headers, condition, part));
        Ok(Self { lane, headers, partitions })
    }

    /// Raw bytes of all partitions together.
    #[must_use]
    pub fn raw_len(&self) -> usize {
        self.partitions.iter().fold(0, |sum, part| sum.saturating_add(part.raw_len))
    }

    /// Compressed bytes of all partitions together, headers included.
    #[must_use]
    pub fn coded_len(&self) -> usize {
        self.partitions.iter().map(|part| part.headers.len() + part.data.len()).sum()
    }

    /// Fills `raw`, on `threads` threads, the caller's included.
    ///
    /// # Errors
    /// [`ZcompError`] if `raw` has another length than the partitions, or one of them does not hold together, the
    /// first of these in order; `raw` then holds anything.
    ///
    /// # Panics
    /// If the system cannot start a thread.
    pub fn expand_into(&self, cpu: Cpu, raw: &mut [u8], threads: usize) -> Result<(), ZcompError> {
        if threads == 0 {
            return Err(ZcompError::None);
        }
        if raw.len() != self.raw_len() {
            return Err(ZcompError::RawLength { needed: self.raw_len(), got: raw.len() });
        }
        let mut rest = raw;
        let mut jobs = Vec::with_capacity(self.partitions.len());
        for (index, part) in self.partitions.iter().enumerate() {
            if part.raw_len % VECTOR_LEN != 0 && index + 1 != self.partitions.len() {
                return Err(ZcompError::Uneven { index, raw_len: part.raw_len });
            }
            let (front, back) = rest.split_at_mut(part.raw_len);
            rest = back;
            jobs.push((part, front));
        }
        let expand =
            |(part, raw): (&Partition, &mut [u8])| expand_partition(cpu, self.lane, self.headers, part, raw);
        on_threads(jobs, threads, &expand).into_iter().collect()
    }
}

/// Does `work` on each job; neighbouring jobs share a thread. Results are in the order of the jobs.
fn on_threads<J: Send, R: Send>(jobs: Vec<J>, threads: usize, work: &(dyn Fn(J) -> R + Sync)) -> Vec<R> {
    let share = jobs.len().div_ceil(threads).max(1);
    let mut jobs = jobs.into_iter();
    let mut shares: Vec<Vec<J>> = Vec::new();
    while jobs.len() > 0 {
        shares.push(jobs.by_ref().take(share).collect());
    }
    let Some(own) = shares.pop() else { return Vec::new() };
    std::thread::scope(|scope| {
        let others: Vec<_> = shares
            .into_iter()
            .map(|share| scope.spawn(move || share.into_iter().map(work).collect::<Vec<R>>()))
            .collect();
        let own: Vec<R> = own.into_iter().map(work).collect();
        let join = |other: std::thread::ScopedJoinHandle<'_, Vec<R>>| {
            other.join().unwrap_or_else(|payload| std::panic::resume_unwind(payload))
        };
        others.into_iter().flat_map(join).chain(own).collect()
    })
}

fn compress_partition(cpu: Cpu, lane: Lane, headers: Headers, condition: Condition, raw: &[u8]) -> Partition {
    let (vectors, rest) = raw.as_chunks();
    let (last, tail) = rest.split_at(rest.len() - rest.len() % lane.width_bytes());
    let mut short: Vector = [0; VECTOR_LEN];
    short[..last.len()].copy_from_slice(last);
    let short = if rest.is_empty() { &[][..] } else { std::slice::from_ref(&short) };

    let count = vectors.len() + short.len();
    let mut own = match headers {
        Headers::Interleaved => Vec::new(),
        Headers::Separate => vec![0; count * lane.header_len()],
    };
    let (own_whole, own_short) = match headers {
        Headers::Interleaved => (None, None),
        Headers::Separate => {
            let (whole, short) = own.split_at_mut(vectors.len() * lane.header_len());
            (Some(whole), Some(short))
        }
    };
    let mut data = vec![0; store_room(lane, count) + tail.len()];
    let mut len = store(cpu, lane, condition, vectors, own_whole, &mut data);
    len += store(cpu, lane, condition, short, own_short, &mut data[len..]);
    data[len..len + tail.len()].copy_from_slice(tail);
    data.truncate(len + tail.len());
    Partition { raw_len: raw.len(), headers: own, data }
}

fn expand_partition(
    cpu: Cpu,
    lane: Lane,
    headers: Headers,
    part: &Partition,
    raw: &mut [u8],
) -> Result<(), ZcompError> {
    let (vectors, rest) = raw.as_chunks_mut();
    let whole_len = vectors.len() * lane.header_len();
    let (whole, short) = match headers {
        Headers::Interleaved => {
            check_header(0, part.headers.len())?;
            (None, None)
        }
        Headers::Separate => {
            let short_len = if rest.is_empty() { 0 } else { lane.header_len() };
            check_header(whole_len + short_len, part.headers.len())?;
            let (whole, short) = part.headers.split_at(whole_len);
            (Some(whole), Some(short))
        }
    };
    let mut at = load(cpu, lane, whole, &part.data, vectors)?;
    if !rest.is_empty() {
        at += expand_short(cpu, lane, short, &part.data[at..], rest).map_err(|error| error.behind(at))?;
    }
    match part.data.len() - at {
        0 => Ok(()),
        extra => Err(ZcompError::Trailing { offset: at, extra }),
    }
}

/// Fills the vector that `raw` is too short for, and the bytes behind its last element; returns the bytes read.
fn expand_short(
    cpu: Cpu,
    lane: Lane,
    header: Option<&[u8]>,
    data: &[u8],
    raw: &mut [u8],
) -> Result<usize, ZcompError> {
    let (elements, tail) = raw.split_at_mut(raw.len() - raw.len() % lane.width_bytes());
    let mut vector: Vector = [0; VECTOR_LEN];
    let mut at = load(cpu, lane, header, data, std::slice::from_mut(&mut vector))?;
    // It was there, or the load had failed.
    let header = header.unwrap_or_else(|| &data[..lane.header_len()]);
    let mut mask = [0; 8];
    mask[..header.len()].copy_from_slice(header);
    if u64::from_le_bytes(mask) >> (elements.len() / lane.width_bytes()) != 0 {
        return Err(ZcompError::HeaderBits);
    }
    elements.copy_from_slice(&vector[..elements.len()]);
    let left = &data[at..];
    let (offset, needed, got) = (at, tail.len(), left.len());
    tail.copy_from_slice(left.get(..needed).ok_or(ZcompError::Truncated { offset, needed, got })?);
    at += needed;
    Ok(at)
}

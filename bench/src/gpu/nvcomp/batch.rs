//! One format of nvCOMP on the buffers of a place, each in chunks.
#![allow(unsafe_code)] // calls into the library

use std::ptr;

use mgcomp_codecs::device::{Buffer, Device, Region, Stream};

use super::NvcompError;
use super::library::{Alignments, Functions, Library, Method, Options};
use crate::gpu::time::{Operation, Place, TimeError, TimedSubject};

/// Raw bytes of a chunk: what nvCOMP's own benchmarks take.
const CHUNK_BYTES: usize = 64 << 10;
/// Of more buffers in a place, so many are coded: some formats take milliseconds for the shortest.
const SETS: usize = 25;
/// Chunks, codes and scratch lie on multiples of this.
const ALIGN: usize = 256;

/// Arrays in device memory, one entry of 8 bytes a chunk each, and the statuses of 4.
const ARRAYS: usize = 6;

/// A format, and all that its calls need on the device.
pub(in crate::gpu) struct Batch<'a> {
    method: Method,
    functions: Functions,
    options: [Options; 2],
    sets: usize,
    chunks: usize,
    bytes: usize,
    arrays: Buffer,
    statuses: Buffer,
    temp: Buffer,
    coded: Buffer,
    _library: &'a Library,
}

/// Which array.
#[derive(Clone, Copy)]
enum Array {
    Raw,
    RawLens,
    Coded,
    CodedLens,
    Back,
    BackLens,
}

impl<'a> Batch<'a> {
    pub(in crate::gpu) fn new(
        library: &'a Library,
        method: Method,
        device: &Device,
        stream: &Stream,
        place: &Place,
    ) -> Result<Self, TimeError> {
        let functions = library.functions(method)?;
        let (compress, width) = method.compress_options(place.element);
        if !place.bytes.is_multiple_of(width) {
            return Err(NvcompError::Elements { bytes: place.bytes, width }.into());
        }
        let options = [compress, method.decompress_options(place.element)];
        check_alignments(method, &functions, options)?;
        let chunks = place.bytes.div_ceil(CHUNK_BYTES);
        let max_len = max_output(method, &functions, compress)?.next_multiple_of(ALIGN);
        let temp_len = temp_len(method, &functions, options, chunks, place.bytes, stream)?;
        let sets = place.sets.min(SETS);
        let count = sets * chunks;
        let coded = device.alloc((count * max_len) as u64)?;
        let batch = Self {
            method,
            functions,
            options,
            sets,
            chunks,
            bytes: place.bytes,
            arrays: device.alloc((ARRAYS * 8 * count) as u64)?,
            statuses: device.alloc((2 * 4 * count) as u64)?,
            temp: device.alloc(temp_len as u64)?,
            coded,
            _library: library,
        };
        batch.fill(stream, place, max_len)?;
        Ok(batch)
    }

    /// Writes the addresses and lengths of all chunks.
    fn fill(&self, stream: &Stream, place: &Place, max_len: usize) -> Result<(), TimeError> {
        let mut words = vec![0u64; ARRAYS * self.sets * self.chunks];
        for set in 0..self.sets {
            let (raw, back) = (place.raw(set).address(), place.back(set).address());
            for chunk in 0..self.chunks {
                let at = set * self.chunks + chunk;
                let start = (chunk * CHUNK_BYTES) as u64;
                let mut put =
                    |array: Array, value| words[array as usize * self.sets * self.chunks + at] = value;
                put(Array::Raw, raw + start);
                put(Array::RawLens, self.chunk_len(chunk));
                put(Array::Coded, self.coded.region().address() + (at * max_len) as u64);
                put(Array::Back, back + start);
            }
        }
        let bytes: Vec<u8> = words.iter().flat_map(|word| word.to_le_bytes()).collect();
        stream.upload(&bytes, self.arrays.region())?;
        Ok(())
    }

    fn chunk_len(&self, chunk: usize) -> u64 {
        (self.bytes - chunk * CHUNK_BYTES).min(CHUNK_BYTES) as u64
    }

    /// The part of an array that is about one buffer.
    fn array<T>(&self, array: Array, set: usize) -> *mut T {
        let at = (array as usize * self.sets + set) * self.chunks;
        pointer(self.arrays.region(), 8 * at)
    }

    /// The statuses of compressing or decompressing one buffer.
    fn status(&self, direction: usize, set: usize) -> *mut u32 {
        pointer(self.statuses.region(), 4 * (direction * self.sets + set) * self.chunks)
    }

    fn check(&self, call: &str, status: u32) -> Result<(), NvcompError> {
        check(self.method, call, status)
    }

    /// The words of an array, of all buffers.
    fn read(&self, stream: &Stream, array: Array) -> Result<Vec<u64>, TimeError> {
        let len = 8 * self.sets * self.chunks;
        let start = (array as usize * len) as u64;
        let mut bytes = vec![0; len];
        stream.download(self.arrays.slice(start..start + len as u64), &mut bytes)?;
        Ok(bytes.as_chunks().0.iter().map(|word| u64::from_le_bytes(*word)).collect())
    }
}

impl TimedSubject for Batch<'_> {
    const IS_LIBRARY: bool = true;
    const ESTIMATES: bool = false;

    fn sets(&self, _: &Place) -> usize {
        self.sets
    }

    fn enqueue(
        &mut self,
        operation: Operation,
        set: usize,
        place: &Place,
        stream: &Stream,
    ) -> Result<(), TimeError> {
        let temp = (pointer(self.temp.region(), 0), self.temp.region().len() as usize);
        match operation {
            // SAFETY: the arrays hold as many entries as it says, of chunks and room for codes as the library
            // wants them, and live until the stream has been waited for.
            Operation::Encode => self.check("CompressAsync", unsafe {
                (self.functions.compress)(
                    self.array(Array::Raw, set),
                    self.array(Array::RawLens, set),
                    CHUNK_BYTES,
                    self.chunks,
                    temp.0,
                    temp.1,
                    self.array(Array::Coded, set),
                    self.array(Array::CodedLens, set),
                    self.options[0],
                    self.status(0, set),
                    stream.as_raw(),
                )
            })?,
            // SAFETY: as above.
            Operation::Decode => self.check("DecompressAsync", unsafe {
                (self.functions.decompress)(
                    self.array(Array::Coded, set),
                    self.array(Array::CodedLens, set),
                    self.array(Array::RawLens, set),
                    self.array(Array::BackLens, set),
                    self.chunks,
                    temp.0,
                    temp.1,
                    self.array(Array::Back, set),
                    self.options[1],
                    self.status(1, set),
                    stream.as_raw(),
                )
            })?,
            Operation::Copy => stream.copy(place.raw(set), place.back(set))?,
            Operation::Estimate => {}
        }
        Ok(())
    }

    fn settle(&mut self, stream: &Stream) -> Result<u64, TimeError> {
        let mut bytes = vec![0; self.statuses.region().len() as usize];
        stream.download(self.statuses.region(), &mut bytes)?;
        let mut statuses = bytes.as_chunks().0.iter().map(|status| u32::from_le_bytes(*status)).enumerate();
        if let Some((at, status)) = statuses.find(|(_, status)| *status != 0) {
            return Err(NvcompError::Chunk { chunk: at % self.chunks, status }.into());
        }
        for (at, got) in self.read(stream, Array::BackLens)?.into_iter().enumerate() {
            let (chunk, wanted) = (at % self.chunks, self.chunk_len(at % self.chunks));
            if got != wanted {
                return Err(NvcompError::Length { chunk, got, wanted }.into());
            }
        }
        Ok(self.read(stream, Array::CodedLens)?.iter().sum())
    }
}

fn check(method: Method, call: &str, status: u32) -> Result<(), NvcompError> {
    match status {
        0 => Ok(()),
        _ => Err(NvcompError::Call { call: format!("{} {call}", method.name()), status }),
    }
}

/// The place `offset` bytes into a region, as the library wants it.
fn pointer<T>(region: Region<'_>, offset: usize) -> *mut T {
    ptr::with_exposed_provenance_mut(region.address() as usize + offset)
}

fn check_alignments(method: Method, functions: &Functions, options: [Options; 2]) -> Result<(), NvcompError> {
    let calls = [functions.compress_alignments, functions.decompress_alignments];
    for (call, options) in calls.into_iter().zip(options) {
        let mut alignments = Alignments::default();
        // SAFETY: `alignments` is a live variable.
        check(method, "GetRequiredAlignments", unsafe { call(options, &raw mut alignments) })?;
        let needed = alignments.input.max(alignments.output).max(alignments.temp);
        if needed > ALIGN {
            return Err(NvcompError::Alignment { call: method.name().into(), needed, has: ALIGN });
        }
    }
    Ok(())
}

fn max_output(method: Method, functions: &Functions, options: Options) -> Result<usize, NvcompError> {
    let mut len = 0;
    // SAFETY: `len` is a live variable.
    let status = unsafe { (functions.max_output)(CHUNK_BYTES, options, &raw mut len) };
    check(method, "CompressGetMaxOutputChunkSize", status).map(|()| len)
}

/// Scratch for both directions.
fn temp_len(
    method: Method,
    functions: &Functions,
    options: [Options; 2],
    chunks: usize,
    bytes: usize,
    stream: &Stream,
) -> Result<usize, NvcompError> {
    let mut most = 0;
    let calls = [functions.compress_temp_size, functions.decompress_temp_size];
    for (call, options) in calls.into_iter().zip(options) {
        let mut len = 0;
        // SAFETY: `len` is a live variable, and the stream lives.
        let status = unsafe { call(chunks, CHUNK_BYTES, options, &raw mut len, bytes, stream.as_raw()) };
        check(method, "GetTempSize", status)?;
        most = most.max(len);
    }
    Ok(most)
}

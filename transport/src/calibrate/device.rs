//! How fast the kernels are on a device, by its own clock.

use std::time::Duration;

use mgcomp_codecs::device::{
    Buffer, Coder, Compress, Decompress, Device, DeviceError, Estimate, Event, Status, Stream, Word,
    Workspace, algorithms, workspace_len,
};
use mgcomp_codecs::frame::{ChunkSize, Options, max_frame_len};
use mgcomp_codecs::{Algorithm, Element, ElementSet};
use mgcomp_selector::speeds::{CodecSpeed, Point, Series, Speeds};

use super::data::Kind;
use super::{CalibrateError, sort};

/// Lengths at which data of each kind is timed: where launches count, where they no longer do, and beyond the caches.
const LENGTHS: [usize; 3] = [64 << 10, 1 << 20, 32 << 20];
/// So much data is made, and longer buffers hold it again and again: chunks, on which codecs work, are far shorter.
const MADE: usize = 1 << 20;
/// A codec that takes longer for the length before is not timed at the next: it is in proportion.
const SLOW: Duration = Duration::from_millis(4);
/// Everything is timed so often, after a first time that is not counted.
const REPETITIONS: usize = 7;
/// Words of a buffer: the frame's length, the encoder's status, the decoder's; length and status of the estimate.
const WORDS: u64 = 5;
const WORD_BYTES: u64 = 8;

/// Times the kernels of `device` on `elements`, which takes some seconds for all of them on a GPU. `progress` hears how many of
/// the [`calibrated_device_bytes`] are done. IBP is not among them: it needs codebooks, which are fitted to data.
///
/// # Errors
/// [`CalibrateError`] if kernels do not bring back what they were given, or the device fails: nothing is measured then.
pub fn calibrate_device(
    device: &Device,
    elements: ElementSet,
    progress: &dyn Fn(u64),
) -> Result<Speeds, CalibrateError> {
    let mut bench = Bench::new(device)?;
    let (mut speeds, mut done) = (Vec::new(), 0);
    for element in elements.iter() {
        let kinds = Kind::ALL.map(|kind| kind.fill(element, MADE));
        for algorithm in timed() {
            match bench.time_codec(algorithm, element, &kinds) {
                Ok(speed) => speeds.push(speed),
                Err(CalibrateError::Device(error)) if error.is_for_good() => {
                    tracing::warn!(%algorithm, %error, "not timed: the device cannot have these kernels");
                }
                Err(error) => return Err(error),
            }
            done += LENGTHS[LENGTHS.len() - 1] as u64;
            progress(done);
        }
    }
    Ok(Speeds::try_new(speeds)?)
}

/// Bytes of the longest buffers that [`calibrate_device`] times.
#[must_use]
pub fn calibrated_device_bytes(elements: ElementSet) -> u64 {
    (elements.iter().count() * timed().count() * LENGTHS[LENGTHS.len() - 1]) as u64
}

fn timed() -> impl Iterator<Item = Algorithm> {
    algorithms().filter(|&algorithm| algorithm != Algorithm::Ibp)
}

/// What everything is timed with.
struct Bench {
    device: Device,
    marks: [Event; 2],
    raw: Buffer,
    coded: Buffer,
    back: Buffer,
    words: Buffer,
    workspace: Workspace<'static>,
    stream: Stream,
}

/// What is timed: one codec on values of one element.
#[derive(Clone, Copy)]
struct Subject<'a> {
    coder: &'a Coder,
    element: Element,
}

impl Bench {
    fn new(device: &Device) -> Result<Self, DeviceError> {
        let longest = LENGTHS[LENGTHS.len() - 1];
        let room = LENGTHS.map(|len| max_frame_len(len, options(len)));
        let (raw, back) = (device.alloc(longest as u64)?, device.alloc(longest as u64)?);
        let coded = device.alloc(room.into_iter().max().unwrap_or(0) as u64)?;
        let words = device.alloc(WORDS * WORD_BYTES)?;
        let marks = [device.event()?, device.event()?];
        let stream = device.stream()?;
        let needed = LENGTHS.map(|len| workspace_len(options(len).chunk_size, &[len as u64]));
        let workspace = device.workspace(&stream, needed.into_iter().max().unwrap_or(0))?;
        Ok(Self { device: device.clone(), marks, raw, coded, back, words, workspace, stream })
    }

    fn time_codec(
        &mut self,
        algorithm: Algorithm,
        element: Element,
        kinds: &[Vec<u8>],
    ) -> Result<CodecSpeed, CalibrateError> {
        let coders = LENGTHS.map(|len| self.device.coder(algorithm, options(len).chunk_size));
        let [short, middle, long] = coders;
        let coders = [short?, middle?, long?];
        let (mut series, mut looks) = (Vec::new(), Vec::new());
        for made in kinds {
            let (of_kind, estimates) = self.time_kind(&coders, element, made)?;
            series.push(of_kind);
            looks = estimates;
        }
        sort(&mut series);
        let (call_ns, ns_per_byte) = line(&looks);
        Ok(CodecSpeed {
            algorithm: algorithm.name().to_owned(),
            element: element.name().to_owned(),
            estimate_call_ns: call_ns,
            estimate_ns_per_byte: ns_per_byte,
            series,
        })
    }

    /// One kind of data. Returns also what its estimates take.
    fn time_kind(
        &mut self,
        coders: &[Coder],
        element: Element,
        made: &[u8],
    ) -> Result<(Series, Vec<(usize, f64)>), CalibrateError> {
        let (mut points, mut looks, mut fraction) = (Vec::new(), Vec::new(), 1.0);
        for (len, coder) in LENGTHS.into_iter().zip(coders) {
            let raw: Vec<u8> = made.iter().copied().cycle().take(len).collect();
            self.stream.upload(&raw, self.raw.slice(0..len as u64))?;
            let subject = Subject { coder, element };
            let took = self.time_all(subject, len as u64)?;
            let coded_len = self.check(subject, &raw)?;
            // Whatever the clock shows, nothing is for free.
            let [encode_ns, decode_ns, estimate_ns] = took.map(|time| time.as_nanos().max(1) as f64);
            points.push(Point { raw_bytes: len as u64, encode_ns, decode_ns });
            looks.push((len, estimate_ns));
            fraction = coded_len as f64 / len as f64;
            if took.into_iter().max().is_some_and(|took| took > SLOW) {
                break;
            }
        }
        Ok((Series { fraction, points }, looks))
    }

    /// What encoding, decoding and estimating take.
    fn time_all(&mut self, subject: Subject<'_>, len: u64) -> Result<[Duration; 3], DeviceError> {
        let encode = self.time(|bench| bench.encode(subject, len))?;
        let decode = self.time(|bench| bench.decode(subject, len))?;
        let estimate = self.time(|bench| bench.estimate(subject, len))?;
        Ok([encode, decode, estimate])
    }

    /// What `work` takes on the device where nothing comes between: of four times, three are longer.
    fn time(
        &mut self,
        mut work: impl FnMut(&mut Self) -> Result<(), DeviceError>,
    ) -> Result<Duration, DeviceError> {
        let mut times = Vec::new();
        while times.len() < 2 || (times.len() <= REPETITIONS && times.last().is_none_or(|&took| took <= SLOW))
        {
            self.stream.record(&self.marks[0])?;
            work(self)?;
            self.stream.record(&self.marks[1])?;
            self.stream.wait()?;
            times.push(self.marks[1].since(&self.marks[0])?);
        }
        // The first one has found nothing where it needs it.
        let counted = &mut times[1..];
        counted.sort_unstable();
        Ok(counted[counted.len() / 4])
    }

    fn encode(&mut self, subject: Subject<'_>, len: u64) -> Result<(), DeviceError> {
        let Subject { coder, element } = subject;
        let dst = self.coded.slice(0..coder.max_frame_len(len));
        let (src, [len, status, ..]) = (self.raw.slice(0..len), words(&self.words));
        let job = Compress { element, src, dst, codebook: None, len, status };
        coder.compress(&self.stream, &mut self.workspace, &[job])
    }

    fn decode(&mut self, subject: Subject<'_>, len: u64) -> Result<(), DeviceError> {
        let src = self.coded.slice(0..subject.coder.max_frame_len(len));
        let (dst, [src_len, _, status, ..]) = (self.back.slice(0..len), words(&self.words));
        let job = Decompress { src, src_len: Some(src_len), dst, status };
        subject.coder.decompress(&self.stream, &mut self.workspace, &[job])
    }

    fn estimate(&mut self, subject: Subject<'_>, len: u64) -> Result<(), DeviceError> {
        let Subject { coder, element } = subject;
        let (src, [.., len, status]) = (self.raw.slice(0..len), words(&self.words));
        let job = Estimate { element, src, codebook: None, len, status };
        coder.estimate(&self.stream, &mut self.workspace, &[job])
    }

    /// Whether all went well and brought `raw` back; how long the frame is.
    fn check(&self, subject: Subject<'_>, raw: &[u8]) -> Result<u64, CalibrateError> {
        let (algorithm, element) = (subject.coder.algorithm(), subject.element);
        let [len, encoded, decoded, estimate, estimated] = words(&self.words);
        for status in [encoded, decoded, estimated] {
            let checked = Status::from_word(self.stream.read(status)?).check();
            checked.map_err(|refused| CalibrateError::Kernel { algorithm, element, refused })?;
        }
        let mut back = vec![0; raw.len()];
        self.stream.download(self.back.slice(0..raw.len() as u64), &mut back)?;
        let len = self.stream.read(len)?;
        if back != raw || self.stream.read(estimate)? != len {
            return Err(CalibrateError::NotEqual { algorithm, element });
        }
        Ok(len)
    }
}

fn words(buffer: &Buffer) -> [Word<'_>; WORDS as usize] {
    [0, 1, 2, 3, 4].map(|word| buffer.region().word(WORD_BYTES * word))
}

fn options(len: usize) -> Options {
    Options { chunk_size: ChunkSize::for_len(len), checksum: false }
}

/// What is there at no length, and what comes with each byte, of times at some lengths: through the first and the last.
fn line(times: &[(usize, f64)]) -> (f64, f64) {
    let (Some(&(short, short_ns)), Some(&(long, long_ns))) = (times.first(), times.last()) else {
        return (0.0, 0.0); // at least one length is timed
    };
    if short == long {
        return (0.0, short_ns / short as f64);
    }
    let ns_per_byte = ((long_ns - short_ns) / (long - short) as f64).max(0.0);
    ((short_ns - ns_per_byte * short as f64).max(0.0), ns_per_byte)
}

impl Drop for Bench {
    /// After an error work may be under way that uses what goes now.
    fn drop(&mut self) {
        if let Err(error) = self.stream.wait() {
            tracing::warn!(%error, "a stream does not come to its end");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn estimates_are_on_a_line() {
        let (call_ns, ns_per_byte) = line(&[(1000, 700.0), (2000, 800.0), (3000, 1100.0)]);
        assert!((call_ns - 500.0).abs() < 1e-9 && (ns_per_byte - 0.2).abs() < 1e-9);
        assert_eq!(line(&[(1000, 700.0)]), (0.0, 0.7));
        assert_eq!(line(&[(1000, 700.0), (2000, 600.0)]), (700.0, 0.0), "noise");
    }
}

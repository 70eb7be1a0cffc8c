//! Which work is done sooner by the thread that asks for it than by one that has to be woken for it.
//!
//! Where all cores are busy, with ranks that wait for each other, say, a thread may take 100 µs to wake; on idle ones it takes 5.
//! A rank that has less than two cores for itself gains nothing by a second thread, for then the two take turns.

use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use mgcomp_codecs::Algorithm;
use mgcomp_selector::SampleSize;

use super::Work;

/// Raw bytes that are copied at once, at least: to wake a thread for these takes longer.
const COPY_BYTES: u64 = 256 << 10;
/// Codecs work on up to this many bytes at once, however fast they are.
const SHORT_BYTES: u64 = 16 << 10;
/// The same for a link, where that is quick: parts of long transfers are as long as the first, and codec threads, if there are
/// several, work on them side by side.
const LONG_BYTES: [u64; 2] = [256 << 10, 128 << 10];
/// The same where a rank has no core to spare: parts of most transfers.
const LONGEST_BYTES: u64 = 1 << 20;
/// Cores of a rank from which on there is one to spare.
const SPARE: f64 = 2.0;
/// Estimators look at up to this many bytes at once, all together; the second where there is no core to spare.
const SAMPLE_BYTES: [u64; 2] = [64 << 10, 256 << 10];
/// What work is expected to take that is done at once, at most; the second where there is no core to spare.
const MOST: [Duration; 2] = [Duration::from_micros(50), Duration::from_micros(500)];
/// Shorter work says little of how long longer work takes.
const TELLING_BYTES: u64 = 8 << 10;
/// What a codec is taken to need that has not worked yet, in nanoseconds per byte, and after the first time at most.
const UNKNOWN: f32 = 0.25;
const MOST_AT_FIRST: f32 = 8.0;
/// The weight of the latest time.
const WEIGHT: f32 = 0.125;

/// How fast codecs have been lately, on any of the threads.
#[derive(Debug)]
pub(super) struct Paces {
    /// Codecs work on no more bytes at once, nor longer.
    most_bytes: u64,
    most: Duration,
    /// Estimators look at no more bytes at once.
    sample_bytes: u64,
    /// By algorithm: nanoseconds per raw byte of encoding and of decoding, as bits; 0 if it has not worked yet.
    ns_per_byte: [[AtomicU32; 2]; 16],
}

/// Whom codecs work for.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum For {
    /// A link of a rank with so many cores: what comes after it waits for it.
    Link { cores: f64 },
    /// Copies, of which many are under way: all threads are to have something to do.
    Copies,
}

impl Paces {
    /// Nothing is known yet of codecs that work for that on so many threads.
    pub(super) fn new(whom: For, threads: usize) -> Self {
        let (most_bytes, is_crowded) = match whom {
            For::Copies => (SHORT_BYTES, false),
            For::Link { cores } if cores < SPARE => (LONGEST_BYTES, true),
            For::Link { .. } => (LONG_BYTES[usize::from(threads > 1)], false),
        };
        let (most, sample_bytes) = (MOST[usize::from(is_crowded)], SAMPLE_BYTES[usize::from(is_crowded)]);
        Self { most_bytes, most, sample_bytes, ns_per_byte: Default::default() }
    }

    /// Whether work is to be done at once.
    pub(super) fn is_brief(&self, work: &Work) -> bool {
        match work {
            Work::Encode { algorithm: Algorithm::None, lent: true, .. } => true,
            work if work.is_in_place() => true,
            // To fetch it waits for a device, for as long as that takes.
            #[cfg(feature = "cuda")]
            Work::Decode { payload, .. } if payload.on_device().is_some() => false,
            Work::Estimate { source, algorithms, sample, .. } => {
                let bytes = match sample {
                    SampleSize::Whole => source.capacity(),
                    SampleSize::Bytes(bytes) => source.capacity().min(*bytes),
                };
                let is_slow = algorithms.contains(Algorithm::Deflate);
                let most = if is_slow { SHORT_BYTES } else { self.sample_bytes };
                bytes * algorithms.iter().count() as u64 <= most
            }
            Work::Encode { algorithm: Algorithm::None, source: raw, .. }
            | Work::Decode { algorithm: Algorithm::None, destination: raw, .. } => {
                raw.capacity() <= COPY_BYTES.max(self.most_bytes)
            }
            // It takes milliseconds, as a rule.
            Work::Encode { algorithm: Algorithm::Deflate, .. }
            | Work::Decode { algorithm: Algorithm::Deflate, .. } => false,
            Work::Encode { source: raw, .. } | Work::Decode { destination: raw, .. } => {
                let bytes = raw.capacity();
                if bytes <= SHORT_BYTES {
                    return true;
                }
                let (pace, most_bytes) = match self.pace(work) {
                    Some(pace) => (pace, self.most_bytes),
                    None => (UNKNOWN, self.most_bytes.min(LONG_BYTES[0])),
                };
                bytes <= most_bytes && bytes as f32 * pace <= self.most.as_nanos() as f32
            }
        }
    }

    /// Learns what work took.
    pub(super) fn learn(&self, work: &Work, took: Duration) {
        let (Work::Encode { source: raw, .. } | Work::Decode { destination: raw, .. }) = work else { return };
        // To fetch what is on a device takes time as well.
        #[cfg(feature = "cuda")]
        if let Work::Decode { payload, .. } = work
            && payload.on_device().is_some()
        {
            return;
        }
        if raw.capacity() < TELLING_BYTES {
            return;
        }
        let Some(cell) = self.cell(work) else { return };
        let new = took.as_nanos() as f32 / raw.capacity() as f32;
        let pace = match self.pace(work) {
            // What took far longer was interrupted.
            Some(known) => known + WEIGHT * (new.min(2.0 * known) - known),
            None => new.min(MOST_AT_FIRST),
        };
        cell.store(pace.max(f32::MIN_POSITIVE).to_bits(), Ordering::Relaxed);
    }

    fn pace(&self, work: &Work) -> Option<f32> {
        let bits = self.cell(work)?.load(Ordering::Relaxed);
        (bits != 0).then(|| f32::from_bits(bits))
    }

    fn cell(&self, work: &Work) -> Option<&AtomicU32> {
        let (algorithm, direction) = match work {
            Work::Encode { algorithm, .. } => (*algorithm, 0),
            Work::Decode { algorithm, .. } => (*algorithm, 1),
            Work::Estimate { .. } => return None,
        };
        let is_coded = algorithm != Algorithm::None;
        is_coded.then(|| &self.ns_per_byte[usize::from(algorithm.number())][direction])
    }
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;
    use mgcomp_codecs::Element;

    use super::*;
    use crate::payload::Payload;

    const KIB: usize = 1 << 10;
    const ROOMY: For = For::Link { cores: 2.0 };
    const CROWDED: For = For::Link { cores: 1.9 };

    fn bytes(len: usize) -> Payload {
        Payload::from_bytes(Bytes::from(vec![0; len]))
    }

    fn encode(algorithm: Algorithm, len: usize) -> Work {
        Work::Encode { source: bytes(len), element: Element::F32, algorithm, lent: false, shelf: None }
    }

    fn decode(algorithm: Algorithm, len: usize) -> Work {
        Work::Decode { payload: bytes(1), algorithm, destination: bytes(len), all_or_nothing: false }
    }

    #[test]
    fn what_takes_long_is_left_to_threads() {
        let paces = Paces::new(ROOMY, 1);
        for work in [encode, decode] {
            // A quarter of a nanosecond for each byte: 50 us are 200,000 of them.
            assert!(paces.is_brief(&work(Algorithm::Zvc, 199_999)));
            assert!(!paces.is_brief(&work(Algorithm::Zvc, 200_001)));
            paces.learn(&work(Algorithm::Zvc, 100_000), Duration::from_micros(10));
            assert!(paces.is_brief(&work(Algorithm::Zvc, 256 * KIB)));
            assert!(!paces.is_brief(&work(Algorithm::Zvc, 256 * KIB + 1)));
            assert!(paces.is_brief(&work(Algorithm::None, 256 * KIB)));
            assert!(!paces.is_brief(&work(Algorithm::None, 256 * KIB + 1)));
            assert!(!paces.is_brief(&work(Algorithm::Deflate, 1)));
        }
        let lent = Work::Encode {
            source: bytes(KIB * KIB),
            element: Element::U8,
            algorithm: Algorithm::None,
            lent: true,
            shelf: None,
        };
        assert!(paces.is_brief(&lent), "nothing is copied");
        let sample = |algorithms: &[Algorithm], len| Work::Estimate {
            source: bytes(64 * KIB),
            element: Element::U8,
            algorithms: algorithms.iter().copied().collect(),
            sample: SampleSize::Bytes(len),
        };
        assert!(paces.is_brief(&sample(&[Algorithm::Zvc], 1 << 20)));
        assert!(!paces.is_brief(&sample(&[Algorithm::Zvc, Algorithm::Xp], 1 << 20)));
        assert!(paces.is_brief(&sample(&[Algorithm::Zvc, Algorithm::Xp], 32 << 10)));
        assert!(!paces.is_brief(&sample(&[Algorithm::Zvc, Algorithm::Deflate], 32 << 10)));
        assert!(paces.is_brief(&sample(&[Algorithm::Zvc, Algorithm::Deflate], 8 << 10)));
    }

    #[test]
    fn what_threads_can_do_side_by_side_is_left_to_them() {
        for (whom, threads, most) in
            [(ROOMY, 1, 256), (ROOMY, 2, 128), (For::Copies, 1, 16), (For::Copies, 2, 16)]
        {
            let paces = Paces::new(whom, threads);
            paces.learn(&encode(Algorithm::Zvc, 100_000), Duration::from_micros(1));
            assert!(paces.is_brief(&encode(Algorithm::Zvc, most * KIB)), "{whom:?}, {threads}");
            assert!(!paces.is_brief(&encode(Algorithm::Zvc, most * KIB + 1)), "{whom:?}, {threads}");
        }
    }

    #[test]
    fn raw_bytes_are_copied_at_once_up_to_a_length() {
        for (whom, most) in [(ROOMY, 256), (CROWDED, 1024), (For::Copies, 256)] {
            let paces = Paces::new(whom, 2);
            for work in [encode, decode] {
                assert!(paces.is_brief(&work(Algorithm::None, most * KIB)), "{whom:?}");
                assert!(!paces.is_brief(&work(Algorithm::None, most * KIB + 1)), "{whom:?}");
            }
        }
    }

    #[test]
    fn who_has_no_core_to_spare_leaves_less_to_threads() {
        for threads in [1, 2] {
            let paces = Paces::new(CROWDED, threads);
            for work in [encode, decode] {
                // Until it is known how fast it is, no more than elsewhere.
                assert!(paces.is_brief(&work(Algorithm::Zvc, 256 * KIB)));
                assert!(!paces.is_brief(&work(Algorithm::Zvc, 256 * KIB + 1)));
                paces.learn(&work(Algorithm::Zvc, 100_000), Duration::from_micros(25));
                assert!(paces.is_brief(&work(Algorithm::Zvc, KIB * KIB)));
                assert!(!paces.is_brief(&work(Algorithm::Zvc, KIB * KIB + 1)));
                // 1 ns a byte: 500 us are 500,000 of them.
                paces.learn(&work(Algorithm::Bpc, 100_000), Duration::from_micros(100));
                assert!(paces.is_brief(&work(Algorithm::Bpc, 499_000)));
                assert!(!paces.is_brief(&work(Algorithm::Bpc, 501_000)));
            }
            let sample = |len| Work::Estimate {
                source: bytes(KIB * KIB),
                element: Element::U8,
                algorithms: [Algorithm::Zvc, Algorithm::Xp].into_iter().collect(),
                sample: SampleSize::Bytes(len),
            };
            assert!(paces.is_brief(&sample(128 << 10)));
            assert!(!paces.is_brief(&sample((128 << 10) + 1)));
        }
    }

    #[test]
    fn codecs_that_are_slow_here_are_left_to_threads_sooner() {
        let paces = Paces::new(ROOMY, 1);
        // 2 ns a byte: 50 us are 25,000 bytes.
        paces.learn(&encode(Algorithm::Bpc, 100_000), Duration::from_micros(200));
        assert!(paces.is_brief(&encode(Algorithm::Bpc, 24_900)));
        assert!(!paces.is_brief(&encode(Algorithm::Bpc, 25_100)));
        assert!(paces.is_brief(&decode(Algorithm::Bpc, 128 * KIB)), "nothing is known of that");
        assert!(paces.is_brief(&encode(Algorithm::Zvc, 128 * KIB)), "nor of that");
        // What is short says nothing, and is done at once however slow it is.
        paces.learn(&decode(Algorithm::Bpc, 8 * KIB - 1), Duration::from_secs(1));
        assert!(paces.is_brief(&decode(Algorithm::Bpc, 128 * KIB)));
        paces.learn(&decode(Algorithm::Bpc, 8 * KIB), Duration::from_secs(1));
        assert!(!paces.is_brief(&decode(Algorithm::Bpc, 16 * KIB + 1)));
        assert!(paces.is_brief(&decode(Algorithm::Bpc, 16 * KIB)));
    }

    #[test]
    fn one_interruption_does_not_count_for_much() {
        let paces = Paces::new(ROOMY, 1);
        // 0.1 ns a byte, and once 100 ms: then 0.1 + 0.1 / 8 ns.
        let work = encode(Algorithm::Xp, 100_000);
        paces.learn(&work, Duration::from_micros(10));
        paces.learn(&work, Duration::from_millis(100));
        let pace = paces.pace(&work).unwrap();
        assert!((pace - 0.1125).abs() < 1e-4, "{pace}");
        // Where it is so each time, it does.
        (0..100).for_each(|_| paces.learn(&work, Duration::from_micros(1000)));
        assert!(paces.pace(&work).unwrap() > 9.9);
        assert!(!paces.is_brief(&encode(Algorithm::Xp, 17 * KIB)));
        // The first time may have been interrupted, too: 8 ns, and then less by an eighth of the difference each time.
        let work = decode(Algorithm::Xp, 100_000);
        paces.learn(&work, Duration::from_millis(100));
        assert_eq!(paces.pace(&work), Some(8.0));
        (0..60).for_each(|_| paces.learn(&work, Duration::from_micros(10)));
        assert!(paces.is_brief(&decode(Algorithm::Xp, 256 * KIB)));
    }
}

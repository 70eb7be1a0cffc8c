//! How fast the codecs are on a thread of this machine.

use std::hint::black_box;
use std::time::{Duration, Instant};

use mgcomp_codecs::frame::{self, ChunkSize, Frame, Options};
use mgcomp_codecs::{Codec, Element, ElementSet, codecs};
use mgcomp_selector::speeds::{CodecSpeed, EstimateTimes, Point, Series, Speeds};

use super::data::Kind;
use super::{CalibrateError, sort};

/// Lengths at which data of each kind is timed: on both sides of the one from which chunks are larger, which most codecs
/// are much quicker on.
const LENGTHS: [usize; 5] = [512, 4 << 10, 64 << 10, 80 << 10, 1 << 20];
/// A length beyond most caches, timed on dense data alone; the other kinds are taken to slow down as that does.
const LONG: usize = 8 << 20;
/// A codec that takes longer for the length before is not timed at the next: it is in proportion.
const SLOW: Duration = Duration::from_millis(4);
/// Everything is timed so often, from the first to the last: what else ran for a while does not spoil the better time of two.
const PASSES: usize = 2;
/// How long one thing is timed at least in a pass, over all repetitions.
const LEAST_TIME: Duration = Duration::from_micros(150);
/// The fewest and the most repetitions in a pass.
const REPETITIONS: (usize, usize) = (3, 32);
/// Bytes that estimators are timed on: what samples look at, little and much.
const SAMPLE_LENGTHS: [usize; 2] = [4 << 10, 64 << 10];
/// Bytes by which two times of an estimator are compared.
const SAMPLED_BYTES: f64 = 16384.0;

/// Times every codec on `elements`, which takes 10 to 15 seconds for all of them. `progress` hears how many of the
/// [`calibrated_bytes`] are done.
///
/// # Errors
/// [`CalibrateError`] if a codec does not bring back what it was given: nothing is measured then.
pub fn calibrate(elements: ElementSet, progress: &dyn Fn(u64)) -> Result<Speeds, CalibrateError> {
    let pairs: Vec<(Element, &dyn Codec)> =
        elements.iter().flat_map(|element| codecs().map(move |codec| (element, codec))).collect();
    let mut speeds = Vec::<CodecSpeed>::with_capacity(pairs.len());
    for pass in 0..PASSES {
        let mut kinds: Option<(Element, Vec<Vec<u8>>)> = None;
        for (step, &(element, codec)) in pairs.iter().enumerate() {
            progress(((pass * pairs.len() + step) * LONG / PASSES) as u64);
            if kinds.as_ref().is_none_or(|(of, _)| *of != element) {
                kinds = Some((element, Kind::ALL.map(|kind| kind.fill(element, longest(kind))).into()));
            }
            let raw = kinds.as_ref().map_or(&[][..], |(_, raw)| raw);
            let speed = time_codec(codec, element, raw)?;
            match speeds.get_mut(step) {
                Some(before) => improve(before, speed),
                None => speeds.push(speed),
            }
        }
    }
    progress((pairs.len() * LONG) as u64);
    Ok(Speeds::try_new(speeds)?)
}

/// Takes the better of the times of two passes.
fn improve(known: &mut CodecSpeed, speed: CodecSpeed) {
    if speed.estimate_call_ns + speed.estimate_ns_per_byte * SAMPLED_BYTES
        < known.estimate_call_ns + known.estimate_ns_per_byte * SAMPLED_BYTES
    {
        (known.estimate_call_ns, known.estimate_ns_per_byte) =
            (speed.estimate_call_ns, speed.estimate_ns_per_byte);
    }
    // The data is the same, so the series are; but a codec that was disturbed may have been too slow for the long length.
    for (known, series) in known.series.iter_mut().zip(speed.series) {
        for (known, point) in known.points.iter_mut().zip(&series.points) {
            known.encode_ns = known.encode_ns.min(point.encode_ns);
            known.decode_ns = known.decode_ns.min(point.decode_ns);
        }
        known.points.extend(series.points.get(known.points.len()..).unwrap_or_default());
    }
}

/// Bytes of the longest buffers that [`calibrate`] times.
#[must_use]
pub fn calibrated_bytes(elements: ElementSet) -> u64 {
    (elements.iter().count() * codecs().count() * LONG) as u64
}

/// How much data of a kind is needed.
const fn longest(kind: Kind) -> usize {
    match kind {
        Kind::Dense => LONG,
        Kind::Sparse | Kind::Noise => LENGTHS[LENGTHS.len() - 1],
    }
}

/// One codec on one element; `raw` holds the data of each kind.
fn time_codec(codec: &dyn Codec, element: Element, raw: &[Vec<u8>]) -> Result<CodecSpeed, CalibrateError> {
    let mut series = Vec::<Series>::new();
    let mut buffers = Buffers::default();
    for (kind, raw) in Kind::ALL.into_iter().zip(raw) {
        debug_assert_eq!(raw.len(), longest(kind));
        series.push(time_kind(codec, element, raw, &mut buffers)?);
    }
    slow_down_alike(&mut series);
    sort(&mut series);
    let estimate = time_estimate(codec, element, &raw[Kind::Dense as usize]);
    Ok(CodecSpeed {
        algorithm: codec.algorithm().name().to_owned(),
        element: element.name().to_owned(),
        estimate_call_ns: estimate.call_ns,
        estimate_ns_per_byte: estimate.ns_per_byte,
        series,
    })
}

#[derive(Default)]
struct Buffers {
    frame: Vec<u8>,
    back: Vec<u8>,
}

fn time_kind(
    codec: &dyn Codec,
    element: Element,
    raw: &[u8],
    Buffers { frame, back }: &mut Buffers,
) -> Result<Series, CalibrateError> {
    let (mut points, mut fraction) = (Vec::new(), 1.0);
    for raw in LENGTHS.into_iter().chain([LONG]).filter_map(|len| raw.get(..len)) {
        let options = Options { chunk_size: ChunkSize::for_len(raw.len()), checksum: true };
        frame.resize(frame.len().max(frame::max_frame_len(raw.len(), options)), 0);
        let mut frame_len = 0;
        let encode = undisturbed(|| {
            let encoded = frame::encode_to(codec, element, raw, options, frame);
            frame_len = black_box(encoded).unwrap_or_default();
            frame_len > 0
        });
        let frame = &frame[..frame_len];
        back.resize(raw.len(), 0);
        let parsed = Frame::parse(frame).ok().filter(|_| encode.is_some());
        let decode = parsed.and_then(|parsed| undisturbed(|| black_box(parsed.decode_into(back)).is_ok()));
        let (Some(encode), Some(decode)) = (encode, decode) else {
            return Err(CalibrateError::Codec { algorithm: codec.algorithm(), element });
        };
        if back != raw {
            return Err(CalibrateError::NotEqual { algorithm: codec.algorithm(), element });
        }
        // Whatever the clock shows, nothing is for free.
        let ns = |time: Duration| time.as_nanos().max(1) as f64;
        let raw_bytes = raw.len() as u64;
        points.push(Point { raw_bytes, encode_ns: ns(encode), decode_ns: ns(decode) });
        fraction = frame.len() as f64 / raw.len() as f64;
        if encode.max(decode) > SLOW {
            break;
        }
    }
    Ok(Series { fraction, points })
}

/// Gives each series the long length that only one was timed at, slowed down as that one is.
fn slow_down_alike(series: &mut [Series]) {
    let timed = |series: &Series| {
        let [.., short, long] = series.points[..] else { return None };
        (long.raw_bytes == LONG as u64).then_some((short, long))
    };
    let Some((short, long)) = series.iter().find_map(timed) else { return };
    for points in series.iter_mut().map(|series| &mut series.points) {
        if let Some(last) = points.last().copied().filter(|last| last.raw_bytes == short.raw_bytes) {
            points.push(Point {
                raw_bytes: long.raw_bytes,
                encode_ns: last.encode_ns * (long.encode_ns / short.encode_ns),
                decode_ns: last.decode_ns * (long.decode_ns / short.decode_ns),
            });
        }
    }
}

fn time_estimate(codec: &dyn Codec, element: Element, raw: &[u8]) -> EstimateTimes {
    let options = Options::for_len(raw.len());
    let [little_ns, much_ns] = SAMPLE_LENGTHS.map(|sample_len| {
        let time = undisturbed(|| {
            black_box(frame::sampled_frame_len(codec, element, raw, options, sample_len));
            true
        });
        time.map_or(0.0, |time| time.as_nanos() as f64)
    });
    let [little, much] = SAMPLE_LENGTHS.map(|len| len as f64);
    let ns_per_byte = ((much_ns - little_ns) / (much - little)).max(0.0);
    EstimateTimes { call_ns: (little_ns - ns_per_byte * little).max(0.0), ns_per_byte }
}

/// What `work` takes where nothing comes between, after a first run that fetches what it needs: of four times, three are
/// longer. `None` if it says that it failed.
fn undisturbed(mut work: impl FnMut() -> bool) -> Option<Duration> {
    if !work() {
        return None;
    }
    let (mut times, mut total, mut least) = (Vec::new(), Duration::ZERO, Duration::MAX);
    while times.len() < REPETITIONS.0 || (times.len() < REPETITIONS.1 && total < LEAST_TIME) {
        let started = Instant::now();
        if !work() {
            return None;
        }
        let took = started.elapsed();
        times.push(took);
        (total, least) = (total + took, least.min(took));
        // A single time may be that of an interrupt.
        if times.len() > 1 && least > 4 * SLOW {
            break; // so slow that its noise does not matter
        }
    }
    times.sort_unstable();
    Some(times[times.len() / 4])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_codec_is_timed_at_more_than_one_fraction() {
        let elements = ElementSet::from_iter([Element::F32]);
        let done = std::cell::Cell::new(0);
        let speeds = calibrate(elements, &|done_bytes| done.set(done_bytes)).unwrap();
        assert_eq!(done.get(), calibrated_bytes(elements));
        for codec in codecs() {
            let algorithm = codec.algorithm();
            let times = |bytes, fraction| speeds.times(algorithm, Element::F32, bytes, fraction).unwrap();
            assert!(times(1 << 20, 0.5).encode_ns > times(64 << 10, 0.5).encode_ns, "{algorithm}");
            let estimate = speeds.estimate(algorithm, Element::F32).unwrap();
            assert!(estimate.ns(64 << 10) > 0.0, "{algorithm}: {estimate:?}");
            assert_eq!(speeds.times(algorithm, Element::F16, 4096, 1.0), None);
        }
        // What was slow, as where others run meanwhile, is not timed at the longer lengths.
        let is_whole = |speeds: &Speeds| {
            let xp = speeds.codecs().iter().find(|codec| codec.algorithm == "xp").unwrap();
            xp.series.len() == 3 && xp.series.iter().all(|series| series.points.len() == 6)
        };
        assert!(is_whole(&speeds) || (0..9).any(|_| is_whole(&calibrate(elements, &|_| {}).unwrap())));
    }

    #[test]
    fn the_long_length_of_one_series_stands_for_all() {
        let point = |raw_bytes, ns| Point { raw_bytes, encode_ns: ns, decode_ns: ns / 2.0 };
        let long = LONG as u64;
        let series = |points| Series { fraction: 1.0, points };
        let mut all = [
            series(vec![point(1000, 100.0), point(long, 300.0)]),
            series(vec![point(1000, 10.0)]),
            series(vec![point(500, 7.0)]),
        ];
        slow_down_alike(&mut all);
        assert_eq!(all[1].points, [point(1000, 10.0), point(long, 30.0)]);
        assert_eq!(
            all[2].points,
            [point(500, 7.0)],
            "too slow for the length that the other was compared at"
        );
    }

    #[test]
    fn the_better_of_two_passes_counts() {
        let speed = |call_ns, points: &[(u64, f64, f64)]| CodecSpeed {
            algorithm: "xp".into(),
            element: "f32".into(),
            estimate_call_ns: call_ns,
            estimate_ns_per_byte: 0.1,
            series: vec![Series {
                fraction: 0.5,
                points: points
                    .iter()
                    .map(|&(raw_bytes, encode_ns, decode_ns)| Point { raw_bytes, encode_ns, decode_ns })
                    .collect(),
            }],
        };
        let mut known = speed(300.0, &[(1000, 50.0, 20.0), (2000, 70.0, 60.0)]);
        improve(&mut known, speed(200.0, &[(1000, 40.0, 30.0), (2000, 90.0, 50.0), (3000, 100.0, 80.0)]));
        let better = [(1000, 40.0, 20.0), (2000, 70.0, 50.0), (3000, 100.0, 80.0)];
        assert_eq!(known, speed(200.0, &better));
        improve(&mut known, speed(250.0, &[(1000, 45.0, 25.0)]));
        assert_eq!(known, speed(200.0, &better));
    }

    #[test]
    fn work_that_fails_has_no_time() {
        assert_eq!(undisturbed(|| false), None);
        let mut runs = 0;
        let failing_later = || {
            runs += 1;
            runs < 3
        };
        assert_eq!(undisturbed(failing_later), None);
    }
}

//! Measured times as pieces of straight lines, which are quickly asked.

use super::{CodecSpeed, CodecTimes, Point, Series};

/// Data of which so much is left was not coded, for the most part.
const STORED: f64 = 0.99;

/// One codec on one element.
#[derive(Clone, Debug)]
pub(super) struct Curves {
    /// By rising fraction.
    by_fraction: Vec<(f64, Curve)>,
    /// What coding takes at least, whatever the data becomes.
    floor: Curve,
}

impl Curves {
    pub(super) fn of(codec: &CodecSpeed) -> Self {
        let by_fraction: Vec<_> =
            codec.series.iter().map(|series| (series.fraction, Curve::through(&series.points))).collect();
        let floor = floor(&codec.series, &by_fraction);
        Self { by_fraction, floor }
    }

    /// What coding `raw_bytes` takes that become `fraction` as many. Outside of what was measured: as at its edge. Chunks that do
    /// not shrink are stored as they are; what shrinks at all is coded, and takes what that takes.
    pub(super) fn times(&self, raw_bytes: u64, fraction: f64) -> CodecTimes {
        let above = self.by_fraction.partition_point(|(of, _)| *of < fraction);
        let (Some((low, curve)), high) =
            (self.by_fraction.get(above.saturating_sub(1)), self.by_fraction.get(above))
        else {
            return CodecTimes::default(); // no table without a series gets in
        };
        let at_low = curve.times(raw_bytes);
        match high {
            Some((high, curve)) if above > 0 && (*high < STORED || fraction >= STORED) => {
                at_low.towards(curve.times(raw_bytes), (fraction - low) / (high - low))
            }
            _ => at_low,
        }
    }

    pub(super) fn least_times(&self, raw_bytes: u64) -> CodecTimes {
        self.floor.times(raw_bytes)
    }
}

/// The least of all curves at every length that one of them was measured at. Between two of these each is a straight
/// line, so none of them comes below the line from one to the next.
fn floor(series: &[Series], curves: &[(f64, Curve)]) -> Curve {
    let mut lengths: Vec<u64> =
        series.iter().flat_map(|series| &series.points).map(|point| point.raw_bytes).collect();
    lengths.sort_unstable();
    lengths.dedup();
    let least = |raw_bytes| {
        let times = curves.iter().map(|(_, curve)| curve.times(raw_bytes));
        let least = times.reduce(|a, b| CodecTimes {
            encode_ns: a.encode_ns.min(b.encode_ns),
            decode_ns: a.decode_ns.min(b.decode_ns),
        });
        let CodecTimes { encode_ns, decode_ns } = least.unwrap_or_default();
        Point { raw_bytes, encode_ns, decode_ns }
    };
    Curve::through(&lengths.into_iter().map(least).collect::<Vec<_>>())
}

/// Times over the length of the buffer.
#[derive(Clone, Debug)]
struct Curve {
    /// By rising length.
    pieces: Vec<Piece>,
}

/// A straight line, from a length on.
#[derive(Clone, Copy, Debug)]
struct Piece {
    from: f64,
    at: CodecTimes,
    /// For each byte more.
    slope: CodecTimes,
}

impl Curve {
    /// Straight from point to point. Shorter than all that was measured, a call costs something by itself; longer, it is
    /// in proportion.
    fn through(points: &[Point]) -> Self {
        let Some(first) = points.first() else { return Self { pieces: Vec::new() } };
        let short = Piece { from: 0.0, at: first.times(), slope: CodecTimes::default() };
        let from_origin = Point { raw_bytes: 0, encode_ns: 0.0, decode_ns: 0.0 };
        let piece = |(at, point): (usize, &Point)| {
            // The last one goes on as from nothing to there.
            let (a, b) = points.get(at + 1).map_or((&from_origin, point), |next| (point, next));
            let bytes = (b.raw_bytes - a.raw_bytes) as f64;
            let slope = CodecTimes {
                encode_ns: (b.encode_ns - a.encode_ns) / bytes,
                decode_ns: (b.decode_ns - a.decode_ns) / bytes,
            };
            Piece { from: point.raw_bytes as f64, at: point.times(), slope }
        };
        Self { pieces: std::iter::once(short).chain(points.iter().enumerate().map(piece)).collect() }
    }

    fn times(&self, raw_bytes: u64) -> CodecTimes {
        let raw = raw_bytes as f64;
        // Short transfers have the least time for this, so the search begins with theirs.
        let piece = self.pieces.iter().take_while(|piece| piece.from <= raw).last();
        piece.map_or(CodecTimes::default(), |Piece { from, at, slope }| CodecTimes {
            encode_ns: at.encode_ns + slope.encode_ns * (raw - from),
            decode_ns: at.decode_ns + slope.decode_ns * (raw - from),
        })
    }
}

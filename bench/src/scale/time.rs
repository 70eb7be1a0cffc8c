//! How long steps take.

use super::collective::{Collective, Fabric, Steps};
use super::rates::{CodecRates, PLAUSIBLE};

/// Bytes of a frame beside its chunks: header and the least of tables.
const FRAME_BYTES: f64 = 32.0;

/// Compression pays where it makes all at least so many times as fast: nobody would notice less.
pub(super) const PAYS: f64 = 1.01;

/// How a message is sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Sending {
    Raw,
    /// Encode, send, decode, one after the other.
    InTurn,
    /// Encode, send and decode work on segments of a message at the same time.
    Overlapped,
}

/// What the time of a message depends on.
#[derive(Clone, Debug)]
pub(super) struct Model {
    pub(super) rates: CodecRates,
    /// Of one link.
    pub(super) latency_s: f64,
    /// Fixed time of an encoder or decoder for each frame.
    pub(super) codec_s: f64,
    pub(super) segment_bytes: f64,
}

/// A collective on a fabric.
#[derive(Clone, Copy, Debug)]
pub(super) struct Case {
    pub(super) collective: Collective,
    pub(super) fabric: Fabric,
    pub(super) gpus: u64,
    pub(super) bytes: usize,
}

impl Model {
    /// Seconds for all steps.
    pub(super) fn seconds(&self, case: &Case, link_gbps: f64, sending: Sending) -> f64 {
        let steps = case.collective.steps(case.fabric, case.gpus, case.bytes as f64);
        steps.iter().map(|steps| steps.count as f64 * self.step_seconds(steps, link_gbps, sending)).sum()
    }

    /// How many times as fast as raw.
    pub(super) fn speed_up(&self, case: &Case, link_gbps: f64, sending: Sending) -> f64 {
        self.seconds(case, link_gbps, Sending::Raw) / self.seconds(case, link_gbps, sending)
    }

    fn step_seconds(&self, steps: &Steps, link_gbps: f64, sending: Sending) -> f64 {
        let bytes_per_s = link_gbps * 1e9 / 8.0 / steps.slowdown;
        let latency = steps.hops * self.latency_s;
        // What would not shrink goes raw, and no codec is called for it.
        let share = self.coded_share(steps.frame_bytes);
        if sending == Sending::Raw || share >= 1.0 {
            return latency + steps.wire_bytes / bytes_per_s;
        }
        let wire = steps.wire_bytes * share / bytes_per_s;
        let encode = self.codec_seconds(steps.encode_bytes, steps.frame_bytes, self.rates.encode_gbytes);
        let decode = self.codec_seconds(steps.decode_bytes, steps.frame_bytes, self.rates.decode_gbytes);
        let sum = encode + wire + decode;
        if sending == Sending::InTurn {
            return latency + sum;
        }
        // The first segment passes all stages; the others follow at the pace of the slowest.
        let raw = steps.encode_bytes.max(steps.decode_bytes);
        let segments = (raw / self.segment_bytes).ceil().max(raw / steps.frame_bytes).max(1.0);
        let in_segments =
            |sum: f64, slowest: f64| latency + sum / segments + slowest * (1.0 - 1.0 / segments);
        if steps.is_forwarded {
            // Its decoder may take the time of the next step as well.
            return in_segments(encode + wire, encode.max(wire)).max(decode);
        }
        in_segments(sum, encode.max(wire).max(decode))
    }

    /// A frame of so many raw bytes, as a part of them.
    fn coded_share(&self, frame_bytes: f64) -> f64 {
        1.0 / self.rates.ratio + FRAME_BYTES / frame_bytes
    }

    fn codec_seconds(&self, bytes: f64, frame_bytes: f64, gbytes: f64) -> f64 {
        self.codec_s * bytes / frame_bytes + bytes / (gbytes * 1e9)
    }

    /// The fastest link in Gb/s with which compression still pays, if it does with any: the faster the link, the
    /// less there is to gain.
    pub(super) fn break_even_gbps(&self, case: &Case, sending: Sending) -> Option<f64> {
        let pays = |gbps: f64| self.speed_up(case, gbps, sending) >= PAYS;
        largest(PLAUSIBLE, pays)
    }

    /// The least codec rate in GB/s, for encoder and decoder alike, with which compression pays on links of
    /// `link_gbps`.
    pub(super) fn needed_gbytes(&self, case: &Case, link_gbps: f64, sending: Sending) -> Option<f64> {
        let pays = |slowness: f64| {
            let rate = 1.0 / slowness;
            let rates = CodecRates { encode_gbytes: rate, decode_gbytes: rate, ..self.rates.clone() };
            Self { rates, ..self.clone() }.speed_up(case, link_gbps, sending) >= PAYS
        };
        let (least, most) = PLAUSIBLE;
        largest((1.0 / most, 1.0 / least), pays).map(|slowness| 1.0 / slowness)
    }
}

/// The largest number between two for which `holds`, where it holds for all smaller ones; none if it holds for
/// none.
fn largest((low, high): (f64, f64), holds: impl Fn(f64) -> bool) -> Option<f64> {
    if !holds(low) {
        return None;
    }
    if holds(high) {
        return Some(high);
    }
    let (mut good, mut bad) = (low.ln(), high.ln());
    for _ in 0..60 {
        let middle = f64::midpoint(good, bad);
        if holds(middle.exp()) { good = middle } else { bad = middle }
    }
    Some(good.exp())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn model() -> Model {
        let rates =
            CodecRates { source: String::new(), ratio: 2.0, encode_gbytes: 10.0, decode_gbytes: 20.0 };
        Model { rates, latency_s: 1e-6, codec_s: 1e-6, segment_bytes: 1e6 }
    }

    fn pair() -> Case {
        Case { collective: Collective::AllGather, fabric: Fabric::Ring, gpus: 2, bytes: 20_000_000 }
    }

    #[test]
    fn one_message_by_hand() {
        let close = |seconds: f64, us: f64| assert!((seconds * 1e6 - us).abs() < 0.01, "{seconds} {us}");
        // Two GPUs, 10 MB each way at 8 Gb/s, 1 GB/s: 10 ms and a µs.
        close(model().seconds(&pair(), 8.0, Sending::Raw), 10_001.0);
        // Encode 1000 + 1, wire 5000 (and 32 bytes), decode 500 + 1.
        close(model().seconds(&pair(), 8.0, Sending::InTurn), 1.0 + 1001.0 + 5000.032 + 501.0);
        // Ten segments: a tenth of the sum, and nine tenths of the slowest.
        close(model().seconds(&pair(), 8.0, Sending::Overlapped), 1.0 + 650.2032 + 0.9 * 5000.032);
    }

    #[test]
    fn forwarding_hides_decoders() {
        let us = |gpus: u64, block: usize| {
            let ring = Case { gpus, bytes: gpus as usize * block, ..pair() };
            1e6 * model().seconds(&ring, 8.0, Sending::Overlapped)
        };
        let close = |us: f64, expected: f64| assert!((us - expected).abs() < 0.01, "{us} {expected}");
        // Three GPUs, two steps of ten segments at 8 Gb/s: encode 1001 with wire 5000, then wire 5000 with decode 501.
        let first = 1.0 + (1001.0 + 5000.032) / 10.0 + 0.9 * 5000.032;
        let last = 1.0 + (5000.032 + 501.0) / 10.0 + 0.9 * 5000.032;
        close(us(3, 10_000_000), first + last);
        // Two more GPUs are two more steps of wire 5000 alone.
        close(us(5, 10_000_000), first + 2.0 * (1.0 + 5000.032) + last);
        // Blocks of one segment: encode 101, then wire 500, and in the second step wire 500, then decode 51.
        close(us(3, 1_000_000), (1.0 + 101.0 + 500.032) + (1.0 + 500.032 + 51.0));
    }

    #[test]
    fn every_forwarded_block_has_a_header_and_calls_of_its_own() {
        // Four GPUs on a switch, blocks of 10 MB at 8 Gb/s: one block is encoded and sent, then two are forwarded; three
        // are decoded.
        let switch = Case { fabric: Fabric::Switch, gpus: 4, bytes: 40_000_000, ..pair() };
        let us = 1e6 * model().seconds(&switch, 8.0, Sending::InTurn);
        let expected = (2.0 + 1001.0 + 5000.032 + 501.0) + (2.0 + 2.0 * 5000.032 + 2.0 * 501.0);
        assert!((us - expected).abs() < 0.01, "{us} {expected}");
    }

    #[test]
    fn blocks_go_raw_where_frames_are_no_shorter() {
        // 16 bytes for each of 65,536 GPUs: a frame would have 32 + 16 / 2. With all to all on a ring, 65,536² / 8 blocks
        // pass over a link: 8.6 GB, 8.59 s at 8 Gb/s, and 32,768 links on the way.
        let ring = Case { collective: Collective::AllToAll, gpus: 65_536, bytes: 1 << 20, ..pair() };
        for sending in [Sending::Raw, Sending::InTurn, Sending::Overlapped] {
            let seconds = model().seconds(&ring, 8.0, sending);
            assert!((seconds - (8.589_934_592 + 0.032_768)).abs() < 1e-9, "{sending:?} {seconds}");
        }
        assert_eq!(model().break_even_gbps(&ring, Sending::Overlapped), None);
        // With ratio 2, a block of 64 bytes is as long as its frame; one of 80 has a frame of 72. At 8 Mb/s, 1 byte takes 1 µs,
        // two links 2 µs and two calls of codecs another 2.
        let us = |bytes: usize| {
            let case = Case { fabric: Fabric::Switch, gpus: 2, bytes: 2 * bytes, ..ring };
            1e6 * model().seconds(&case, 8e-3, Sending::InTurn)
        };
        assert!((us(64) - 66.0).abs() < 1e-6, "{}", us(64));
        assert!((us(80) - (72.0 + 2.0 + 2.0 + 0.008 + 0.004)).abs() < 1e-6, "{}", us(80));
    }

    #[test]
    fn break_even_by_hand() {
        // In turn: 1/B = 1.01 (1/(2 B) + 1/10 + 1/20) ns per byte: B = 3.27 GB/s = 26.1 Gb/s, less what is fixed.
        let in_turn = model().break_even_gbps(&pair(), Sending::InTurn).unwrap();
        assert!((in_turn - 26.14).abs() < 0.1, "{in_turn}");
        // Overlapped, it is near the encoder's 80 Gb/s.
        let overlapped = model().break_even_gbps(&pair(), Sending::Overlapped).unwrap();
        assert!((65.0..80.0).contains(&overlapped), "{overlapped}");
        // The other way round: 1/10 = 1.01 (1/20 + 2/C) ns for codecs of equal rate; for no gain they would need 2 · 2 times
        // the link's.
        let needed = model().needed_gbytes(&pair(), 80.0, Sending::InTurn).unwrap();
        assert!((needed - 40.81).abs() < 0.25, "{needed}");
    }

    #[test]
    fn slow_codecs_break_even_on_links_that_are_slower_still() {
        // As above, with all rates a hundred thousandth, where what is fixed is nothing.
        let mut slow = model();
        (slow.rates.encode_gbytes, slow.rates.decode_gbytes) = (1e-4, 2e-4);
        let limit = slow.break_even_gbps(&pair(), Sending::InTurn).unwrap();
        assert!((limit - 26.14e-5).abs() < 0.01e-5, "{limit}");
        assert!(slow.speed_up(&pair(), 0.99 * limit, Sending::InTurn) >= PAYS);
        // Links of 1 kb/s, which take 80 s for each 10 kB, need codecs of four times their rate.
        let needed = model().needed_gbytes(&pair(), 1e-6, Sending::InTurn).unwrap();
        assert!((1e-6..1e-5).contains(&needed), "{needed}");
    }

    #[test]
    fn a_gain_that_nobody_would_notice_does_not_pay() {
        // A ring with blocks of 16 KiB: 65,535 steps of 1 µs and the wire, or half of it and 32 bytes; codecs take next to
        // nothing. Any link is faster with compression, but to gain 1 % of 1 µs + w · 0.50195, the other 0.49805 w must be so
        // much: w = 20.3 ns, and 16 KiB in that are 6460 Gb/s.
        let mut quick = model();
        quick.codec_s = 1e-12;
        (quick.rates.encode_gbytes, quick.rates.decode_gbytes) = (1e6, 1e6);
        let ring = Case { gpus: 65_536, bytes: 1 << 30, ..pair() };
        let limit = quick.break_even_gbps(&ring, Sending::Overlapped).unwrap();
        assert!((limit - 6460.0).abs() < 10.0, "{limit}");
        assert!(quick.speed_up(&ring, 1e5, Sending::Overlapped) > 1.0);
        // No codec makes it gain that much on a link that is twice as fast, and on one half as fast any that is not slow.
        assert_eq!(quick.needed_gbytes(&ring, 2.0 * limit, Sending::Overlapped), None);
        let needed = quick.needed_gbytes(&ring, limit / 2.0, Sending::Overlapped).unwrap();
        assert!((10.0..20.0).contains(&needed), "{needed}");
        // What shrinks by less than that never pays.
        quick.rates.ratio = 1.009;
        assert_eq!(quick.break_even_gbps(&pair(), Sending::Overlapped), None);
    }

    #[test]
    fn what_does_not_shrink_or_is_short_never_pays() {
        let mut same = model();
        same.rates.ratio = 1.0;
        assert_eq!(same.break_even_gbps(&pair(), Sending::Overlapped), None);
        let tiny = Case { bytes: 64, ..pair() };
        assert_eq!(model().break_even_gbps(&tiny, Sending::InTurn), None);
        assert_eq!(model().needed_gbytes(&tiny, 100.0, Sending::InTurn), None);
    }

    #[test]
    fn faster_links_gain_less() {
        for fabric in Fabric::all(64, 2.0) {
            for collective in Collective::ALL {
                let case = Case { collective, fabric, gpus: 512, bytes: 64 << 20 };
                for sending in [Sending::InTurn, Sending::Overlapped] {
                    let gains = [10.0, 100.0, 1000.0].map(|gbps| model().speed_up(&case, gbps, sending));
                    assert!(gains[0] >= gains[1] && gains[1] >= gains[2], "{case:?} {sending:?} {gains:?}");
                    assert!(gains[0] <= 2.0);
                }
            }
        }
    }
}

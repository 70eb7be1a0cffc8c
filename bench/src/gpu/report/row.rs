//! The rows of a report, which are the lines of its JSON file: `bench/results/README.md` says what they mean.

use serde::Serialize;

/// One line.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub(in crate::gpu) enum Row {
    Run(Run),
    Check(Checked),
    Time(Timed),
    Link(Linked),
    Peer(PeerCopied),
    Short(ShortCopied),
    Shared(Shared),
    Offload(Offloaded),
    Gather(Gathered),
    Buddy(Buddied),
    Reduce(Reduced),
    Skipped(Skipped),
}

/// What everything else was found on. The first line.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub(in crate::gpu) struct Run {
    pub(in crate::gpu) version: &'static str,
    pub(in crate::gpu) date: String,
    pub(in crate::gpu) device: String,
    pub(in crate::gpu) capability: String,
    pub(in crate::gpu) sm_count: u32,
    pub(in crate::gpu) l2_bytes: u32,
    pub(in crate::gpu) memory_bytes: u64,
    /// The version of CUDA that the driver knows.
    pub(in crate::gpu) driver_cuda: String,
    /// The compiler's version, if there is one.
    pub(in crate::gpu) nvrtc: Option<String>,
    pub(in crate::gpu) cpu: String,
}

/// Whether the kernels of an algorithm passed a check.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub(in crate::gpu) struct Checked {
    pub(in crate::gpu) check: &'static str,
    pub(in crate::gpu) algorithm: &'static str,
    pub(in crate::gpu) passed: bool,
    pub(in crate::gpu) buffers: usize,
    pub(in crate::gpu) bytes: u64,
    pub(in crate::gpu) error: Option<String>,
}

/// How calls were timed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub(in crate::gpu) enum Method {
    /// What each further node of a graph costs.
    Graph,
    /// One call after the other in a stream.
    Stream,
}

/// Times of one subject on buffers of one size.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub(in crate::gpu) struct Timed {
    pub(in crate::gpu) subject: &'static str,
    /// Ours, or a library's.
    pub(in crate::gpu) is_library: bool,
    pub(in crate::gpu) dataset: String,
    pub(in crate::gpu) element: &'static str,
    pub(in crate::gpu) bytes: usize,
    /// Buffers that take turns.
    pub(in crate::gpu) buffers: usize,
    pub(in crate::gpu) method: Method,
    pub(in crate::gpu) rounds: usize,
    /// Of one buffer, on average.
    pub(in crate::gpu) coded_bytes: f64,
    pub(in crate::gpu) ratio: f64,
    pub(in crate::gpu) copy_us: f64,
    pub(in crate::gpu) encode_us: f64,
    pub(in crate::gpu) decode_us: f64,
    pub(in crate::gpu) estimate_us: Option<f64>,
    /// 10⁹ uncompressed bytes per second, from here on.
    pub(in crate::gpu) copy_gbps: f64,
    pub(in crate::gpu) encode_gbps: f64,
    pub(in crate::gpu) decode_gbps: f64,
    pub(in crate::gpu) estimate_gbps: Option<f64>,
    /// Bytes read and written per second, over those of the copy, from here on.
    pub(in crate::gpu) encode_fraction: f64,
    pub(in crate::gpu) decode_fraction: f64,
    pub(in crate::gpu) estimate_fraction: Option<f64>,
}

/// A buffer between device and pinned memory of the host, compressed on the way and plain.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub(in crate::gpu) struct Linked {
    pub(in crate::gpu) subject: &'static str,
    pub(in crate::gpu) dataset: String,
    pub(in crate::gpu) element: &'static str,
    pub(in crate::gpu) bytes: usize,
    pub(in crate::gpu) rounds: usize,
    pub(in crate::gpu) ratio: f64,
    /// 10⁹ uncompressed bytes per second, all of them.
    pub(in crate::gpu) to_host_plain_gbps: f64,
    pub(in crate::gpu) to_host_gbps: f64,
    pub(in crate::gpu) to_device_plain_gbps: f64,
    pub(in crate::gpu) to_device_gbps: f64,
}

/// A buffer from one device to another, compressed on the way and plain.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub(in crate::gpu) struct PeerCopied {
    pub(in crate::gpu) subject: &'static str,
    pub(in crate::gpu) dataset: String,
    pub(in crate::gpu) element: &'static str,
    pub(in crate::gpu) bytes: usize,
    /// What the other device is.
    pub(in crate::gpu) to: &'static str,
    /// Whether it goes straight there, or through memory of the host.
    pub(in crate::gpu) is_direct: bool,
    pub(in crate::gpu) method: Method,
    pub(in crate::gpu) rounds: usize,
    pub(in crate::gpu) ratio: f64,
    /// 10⁹ uncompressed bytes per second, both.
    pub(in crate::gpu) plain_gbps: f64,
    pub(in crate::gpu) gbps: f64,
    /// Microseconds of one copy by itself, both, with what the host takes to enqueue it.
    pub(in crate::gpu) plain_alone_us: f64,
    pub(in crate::gpu) alone_us: f64,
    /// Its time as a multiple of that of encoding and decoding one after the other; none where these were not timed.
    pub(in crate::gpu) of_codec: Option<f64>,
}

/// Copies that are too short to be coded.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub(in crate::gpu) struct ShortCopied {
    pub(in crate::gpu) to: &'static str,
    pub(in crate::gpu) bytes: usize,
    pub(in crate::gpu) rounds: usize,
    /// What the host takes to hand one over: to the driver, and to the copier.
    pub(in crate::gpu) driver_us: f64,
    pub(in crate::gpu) us: f64,
}

/// Memory of the device in another process, which copies from there, and within memory of its own.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub(in crate::gpu) struct Shared {
    /// How the other process got it.
    pub(in crate::gpu) by: &'static str,
    pub(in crate::gpu) bytes: usize,
    pub(in crate::gpu) rounds: usize,
    /// Whether an event of both told what was written, or the other process had to wait.
    pub(in crate::gpu) event: bool,
    /// 10⁹ bytes per second, both.
    pub(in crate::gpu) plain_gbps: f64,
    pub(in crate::gpu) gbps: f64,
}

/// A buffer that the library's queue brings to the host and back, compressed and raw.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub(in crate::gpu) struct Offloaded {
    pub(in crate::gpu) subject: &'static str,
    pub(in crate::gpu) dataset: String,
    pub(in crate::gpu) element: &'static str,
    pub(in crate::gpu) bytes: usize,
    pub(in crate::gpu) rounds: usize,
    pub(in crate::gpu) ratio: f64,
    /// 10⁹ uncompressed bytes per second, all of them.
    pub(in crate::gpu) offload_raw_gbps: f64,
    pub(in crate::gpu) return_raw_gbps: f64,
    pub(in crate::gpu) offload_gbps: f64,
    pub(in crate::gpu) return_gbps: f64,
}

/// Rows of a table in pinned memory of the host, gathered by the device: packed, and as they are.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub(in crate::gpu) struct Gathered {
    pub(in crate::gpu) dataset: String,
    pub(in crate::gpu) row_bytes: usize,
    /// Of a gather.
    pub(in crate::gpu) rows: usize,
    pub(in crate::gpu) rounds: usize,
    pub(in crate::gpu) saved_percent: f64,
    /// Of pieces that came over the link for a byte of a row.
    pub(in crate::gpu) link_bytes_per_byte: f64,
    /// 10⁹ uncompressed bytes per second, both.
    pub(in crate::gpu) plain_gbps: f64,
    pub(in crate::gpu) packed_gbps: f64,
    pub(in crate::gpu) speed_up: f64,
}

/// An allocation whose entries lie in device memory and, where they do not fit, in pinned memory of the host.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub(in crate::gpu) struct Buddied {
    /// Of the entries.
    pub(in crate::gpu) form: &'static str,
    pub(in crate::gpu) target: &'static str,
    /// Of the allocation, all of which are written and read.
    pub(in crate::gpu) bytes: usize,
    pub(in crate::gpu) rounds: usize,
    /// Entries that do not fit.
    pub(in crate::gpu) overflow_percent: f64,
    /// Raw bytes by bytes of device memory.
    pub(in crate::gpu) capacity: f64,
    /// 10⁹ uncompressed bytes per second, all of them.
    pub(in crate::gpu) copy_gbps: f64,
    pub(in crate::gpu) write_gbps: f64,
    pub(in crate::gpu) read_gbps: f64,
    /// These over those of a copy in device memory.
    pub(in crate::gpu) write_of_copy: f64,
    pub(in crate::gpu) read_of_copy: f64,
}

/// Numbers of several ranks in device memory, combined there, beside a copy of those of one.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub(in crate::gpu) struct Reduced {
    pub(in crate::gpu) operation: &'static str,
    pub(in crate::gpu) datatype: &'static str,
    pub(in crate::gpu) ranks: u32,
    /// Of a rank, and of the result.
    pub(in crate::gpu) bytes: usize,
    pub(in crate::gpu) rounds: usize,
    pub(in crate::gpu) copy_us: f64,
    pub(in crate::gpu) reduce_us: f64,
    /// 10⁹ bytes per second to and from memory, both.
    pub(in crate::gpu) copy_memory_gbps: f64,
    pub(in crate::gpu) reduce_memory_gbps: f64,
    /// The second of the first.
    pub(in crate::gpu) fraction: f64,
}

/// Something that was left out.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub(in crate::gpu) struct Skipped {
    pub(in crate::gpu) what: String,
    pub(in crate::gpu) why: String,
}

/// Median times of one call in seconds.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(in crate::gpu) struct Seconds {
    pub(in crate::gpu) copy: f64,
    pub(in crate::gpu) encode: f64,
    pub(in crate::gpu) decode: f64,
    pub(in crate::gpu) estimate: Option<f64>,
}

impl Timed {
    /// Fills in what follows from `times` and the lengths.
    pub(in crate::gpu) fn with_times(mut self, times: Seconds) -> Self {
        let (raw, coded) = (self.bytes as f64, self.coded_bytes);
        let gbps = |seconds: f64| rounded(raw / seconds.max(1e-12) / 1e9);
        let copy_rate = 2.0 * raw / times.copy.max(1e-12);
        let fraction = |bytes: f64, seconds: f64| rounded(bytes / seconds.max(1e-12) / copy_rate);
        self.ratio = rounded(raw / coded.max(1.0));
        self.coded_bytes = rounded(coded);
        (self.copy_us, self.copy_gbps) = (rounded(1e6 * times.copy), gbps(times.copy));
        (self.encode_us, self.encode_gbps) = (rounded(1e6 * times.encode), gbps(times.encode));
        (self.decode_us, self.decode_gbps) = (rounded(1e6 * times.decode), gbps(times.decode));
        self.estimate_us = times.estimate.map(|seconds| rounded(1e6 * seconds));
        self.estimate_gbps = times.estimate.map(gbps);
        self.encode_fraction = fraction(raw + coded, times.encode);
        self.decode_fraction = fraction(raw + coded, times.decode);
        self.estimate_fraction = times.estimate.map(|seconds| fraction(raw, seconds));
        self
    }
}

/// To four decimals, of what is less than a tenth to four digits: more would be noise, and less would make nothing of what is slow.
pub(in crate::gpu) fn rounded(value: f64) -> f64 {
    let decimals = (3.0 - value.abs().log10().floor()).clamp(4.0, 12.0);
    let scale = 10f64.powf(decimals);
    (value * scale).round() / scale
}

impl Row {
    pub(super) fn json(&self) -> String {
        serde_json::to_string(self).expect("a row has string keys")
    }
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;

    /// A row of 1000 bytes and half of that coded: copied in 1 µs, encoded in 1.5 µs.
    pub(in crate::gpu::report) fn timed(subject: &'static str, dataset: &str, bytes: usize) -> Timed {
        let empty = Timed {
            subject,
            is_library: false,
            dataset: dataset.into(),
            element: "bf16",
            bytes,
            buffers: 7,
            method: Method::Stream,
            rounds: 3,
            coded_bytes: bytes as f64 / 2.0,
            ratio: 0.0,
            copy_us: 0.0,
            encode_us: 0.0,
            decode_us: 0.0,
            estimate_us: None,
            copy_gbps: 0.0,
            encode_gbps: 0.0,
            decode_gbps: 0.0,
            estimate_gbps: None,
            encode_fraction: 0.0,
            decode_fraction: 0.0,
            estimate_fraction: None,
        };
        empty.with_times(Seconds { copy: 1e-6, encode: 1.5e-6, decode: 0.75e-6, estimate: Some(0.5e-6) })
    }

    #[test]
    fn fractions_count_bytes_read_and_written() {
        let row = timed("zvc", "x", 1000);
        assert_eq!((row.ratio, row.copy_us, row.copy_gbps), (2.0, 1.0, 1.0));
        // The copy moves 2000 bytes in 1 µs; encoding 1500 in 1.5 µs, half its rate.
        assert_eq!((row.encode_us, row.encode_gbps, row.encode_fraction), (1.5, 0.6667, 0.5));
        assert_eq!((row.decode_us, row.decode_fraction), (0.75, 1.0));
        // An estimate reads 1000 in 0.5 µs.
        assert_eq!((row.estimate_gbps, row.estimate_fraction), (Some(2.0), Some(1.0)));
    }

    #[test]
    fn what_is_slow_keeps_its_digits() {
        let cases = [
            (0.0, 0.0),
            (1.0 / 3.0, 0.3333),
            (12.34567, 12.3457),
            (2.27381e-4, 2.274e-4),
            (-0.012_345, -0.01235),
        ];
        for (value, expected) in cases {
            assert!((rounded(value) - expected).abs() < 1e-12, "{value}: {}", rounded(value));
        }
        assert!(rounded(f64::NAN).is_nan());
    }

    #[test]
    fn rows_say_what_they_are() {
        let row = Row::Skipped(Skipped { what: "a".into(), why: "b".into() });
        assert_eq!(row.json(), r#"{"kind":"skipped","what":"a","why":"b"}"#);
        assert_eq!(row.to_string(), "SKIPPED a: b");
        let json: serde_json::Value =
            serde_json::from_str(&Row::Time(timed("zvc", "x", 1000)).json()).unwrap();
        assert_eq!((&json["kind"], &json["method"]), (&"time".into(), &"stream".into()));
    }
}

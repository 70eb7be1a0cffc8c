//! Rows as lines of text, for who waits for them.

use std::fmt;

use super::row::{
    Buddied, Checked, Gathered, Linked, Method, Offloaded, PeerCopied, Reduced, Row, Run, Shared,
    ShortCopied, Skipped, Timed,
};
use crate::machine::size;

/// What stands above the lines of times.
pub(super) const HEADING: &str = "subject          timed by  ratio   encode/µs  of copy   decode/µs  of copy  estimate/µs  of copy     copy/µs  copy GB/s";

impl fmt::Display for Row {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Run(run) => write!(f, "{run}"),
            Self::Check(row) => write!(f, "{row}"),
            Self::Time(row) => write!(f, "{row}"),
            Self::Link(row) => write!(f, "{row}"),
            Self::Peer(row) => write!(f, "{row}"),
            Self::Short(row) => write!(f, "{row}"),
            Self::Shared(row) => write!(f, "{row}"),
            Self::Offload(row) => write!(f, "{row}"),
            Self::Gather(row) => write!(f, "{row}"),
            Self::Buddy(row) => write!(f, "{row}"),
            Self::Reduce(row) => write!(f, "{row}"),
            Self::Skipped(Skipped { what, why }) => write!(f, "SKIPPED {what}: {why}"),
        }
    }
}

impl fmt::Display for Run {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { device, capability, sm_count, driver_cuda, cpu, .. } = self;
        let nvrtc = self.nvrtc.as_deref().unwrap_or("none");
        let (l2, memory) = (size(self.l2_bytes as usize), self.memory_bytes >> 20);
        write!(
            f,
            "{device}, compute capability {capability}, {sm_count} multiprocessors, L2 {l2}, {memory} MiB, \
             driver for CUDA {driver_cuda}, NVRTC {nvrtc}\n{cpu}"
        )
    }
}

impl fmt::Display for Checked {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { check, algorithm, buffers, bytes, .. } = self;
        match &self.error {
            None => write!(f, "ok      {algorithm:<8} {check:<18} {buffers:>6} buffers, {bytes} bytes"),
            Some(error) => write!(f, "FAILED  {algorithm:<8} {check:<18} {error}"),
        }
    }
}

impl fmt::Display for Timed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let method = match self.method {
            Method::Graph => "graph",
            Method::Stream => "stream",
        };
        let (estimate, fraction) = match (self.estimate_us, self.estimate_fraction) {
            (Some(us), Some(fraction)) => (format!("{us:.2}"), format!("{fraction:.3}")),
            _ => ("-".into(), "-".into()),
        };
        write!(
            f,
            "{:<15}  {method:<8}  {:>5.3}  {:>10.2}  {:>7.3}  {:>10.2}  {:>7.3}  {estimate:>11}  {fraction:>7}  {:>10.2}  {:>9.1}",
            self.subject,
            self.ratio,
            self.encode_us,
            self.encode_fraction,
            self.decode_us,
            self.decode_fraction,
            self.copy_us,
            self.copy_gbps,
        )
    }
}

impl fmt::Display for Linked {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{:<15}  {} {}: to the host {:.2} GB/s, plain {:.2}; to the device {:.2} GB/s, plain {:.2}",
            self.subject,
            self.dataset,
            size(self.bytes),
            self.to_host_gbps,
            self.to_host_plain_gbps,
            self.to_device_gbps,
            self.to_device_plain_gbps,
        )
    }
}

impl fmt::Display for PeerCopied {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{:<15}  {} {}: to {}{}: {:.2} GB/s, plain {:.2}; alone {:.2} us, plain {:.2}",
            self.subject,
            self.dataset,
            size(self.bytes),
            self.to,
            if self.is_direct { "" } else { " through the host" },
            self.gbps,
            self.plain_gbps,
            self.alone_us,
            self.plain_alone_us,
        )?;
        self.of_codec.map_or(Ok(()), |part| write!(f, "; {part:.3} of encoding and decoding"))
    }
}

impl fmt::Display for ShortCopied {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { to, driver_us, us, .. } = self;
        let bytes = size(self.bytes);
        write!(f, "below the gate   {bytes} to {to}: {us:.3} us a call, the driver's {driver_us:.3}")
    }
}

impl fmt::Display for Shared {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { by, bytes, gbps, plain_gbps, event, .. } = self;
        let event = if *event { "an event" } else { "no event" };
        let bytes = size(*bytes);
        write!(
            f,
            "ok      another process  {bytes} by {by}, {event}: {gbps:.2} GB/s, its own {plain_gbps:.2}"
        )
    }
}

impl fmt::Display for Offloaded {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{:<15}  {} {}: offload {:.2} GB/s, raw {:.2}; return {:.2} GB/s, raw {:.2}",
            self.subject,
            self.dataset,
            size(self.bytes),
            self.offload_gbps,
            self.offload_raw_gbps,
            self.return_gbps,
            self.return_raw_gbps,
        )
    }
}

impl fmt::Display for Gathered {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { dataset, row_bytes, rows, plain_gbps, packed_gbps, speed_up, .. } = self;
        write!(
            f,
            "ibp gather       {rows} rows of {row_bytes} bytes, {dataset}: {packed_gbps:.2} GB/s, plain {plain_gbps:.2}, \
             {speed_up:.2} times as fast"
        )
    }
}

impl fmt::Display for Buddied {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { form, target, bytes, overflow_percent, write_gbps, read_gbps, copy_gbps, .. } = self;
        write!(
            f,
            "{form} buddy memory {}, target {target}, {overflow_percent:.1} % overflow: written {write_gbps:.2} GB/s, read \
             {read_gbps:.2}, copied {copy_gbps:.2}",
            size(*bytes)
        )
    }
}

impl fmt::Display for Reduced {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            operation, datatype, ranks, bytes, reduce_memory_gbps, copy_memory_gbps, fraction, ..
        } = self;
        write!(
            f,
            "{operation} of {datatype}, {ranks} ranks, {}: {reduce_memory_gbps:.1} GB/s of memory, copy \
             {copy_memory_gbps:.1}, {fraction:.2} of it",
            size(*bytes)
        )
    }
}

#[cfg(test)]
mod tests {
    use super::super::row::tests::timed;
    use super::*;

    #[test]
    fn lines_are_as_wide_as_the_heading() {
        let line = timed("zvc", "x", 1000).to_string();
        assert_eq!(line.chars().count(), HEADING.chars().count(), "\n{HEADING}\n{line}");
    }
}

//! `mgcomp-bench link`: how long a message takes from one rank to another, and how many bytes get there, beside memcpy.

mod latencies;
mod pair;
mod print;

use std::hint::black_box;
use std::ops::RangeInclusive;
use std::time::{Duration, Instant};

use bytes::Bytes;
use mgcomp_transport::link::{LinkError, SendError};
use mgcomp_transport::message::MAX_HEADER_LEN;

use crate::codec::{ArgError, parse_bytes, parse_seconds};
use crate::error::BenchError;
use crate::timing::{Buffer, memcpy};
use latencies::Latencies;
use pair::Pair;
use print::{Printer, Row};

/// A stream has about as many bytes, unless one message has more.
const STREAM_BYTES: usize = 64 << 20;
/// And at most as many messages.
const STREAM_MESSAGES: usize = 4096;
/// Bytes of the rings that two ranks of shm take from each other.
const RING_BYTES: RangeInclusive<u64> = 4096..=1 << 30;
/// Messages sent one by one between two looks at the clock.
const BURST: usize = 256;

/// How long a message takes over a link, and how many bytes go through it, beside memcpy in the same run.
///
/// Both ranks are in this process, each with its own end of the link: what they say to each other is the same as
/// between processes. Latency is from before the call that sends until the receiver is told, the median of messages
/// sent one by one. Bandwidth is that of messages sent one behind the other, the best of rounds that alternate with
/// copies of the same bytes.
#[derive(clap::Args)]
pub(crate) struct Args {
    /// Which links
    #[arg(long, num_args = 1.., value_enum, default_values_t = [Kind::Loopback, Kind::Shm, Kind::Tcp])]
    link: Vec<Kind>,
    /// Bytes of a message, as in 64K; fewer than 4G
    #[arg(long, num_args = 1.., default_values = ["8", "64", "512", "4K", "64K", "1M", "16M", "256M"], value_parser = parse_message)]
    bytes: Vec<usize>,
    /// Seconds for each row
    #[arg(long, default_value = "0.5", value_parser = parse_seconds)]
    seconds: Duration,
    /// Bytes of a ring of shm, a power of two [default: what the link takes by itself]
    #[arg(long, value_parser = parse_ring)]
    ring: Option<u64>,
    /// Print one JSON object a line
    #[arg(long)]
    json: bool,
}

/// A kind of link.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum Kind {
    Loopback,
    Shm,
    Tcp,
}

/// Why a link could not be measured.
#[derive(Debug, thiserror::Error)]
pub(crate) enum LinkBenchError {
    #[error(transparent)]
    Link(#[from] LinkError),
    #[error(transparent)]
    Send(#[from] SendError),
    #[error("{wrong} of {of} messages came otherwise than they were sent")]
    Wrong { wrong: u64, of: usize },
    #[error("the link ended")]
    Over,
    #[error("a message does not arrive")]
    Hangs,
    #[cfg(not(target_os = "linux"))]
    #[error("there is no shm on this system")]
    NoShm,
}

/// Bytes that no message or no ring has.
#[derive(Debug, PartialEq, thiserror::Error)]
enum LengthError {
    #[error(transparent)]
    Bytes(#[from] ArgError),
    #[error("a message has at most {} bytes, not {bytes}", LONGEST_MESSAGE)]
    Message { bytes: usize },
    #[error("a ring has a power of two of bytes, from {} to {}, not {bytes}", RING_BYTES.start(), RING_BYTES.end())]
    Ring { bytes: u64 },
}

/// What links take, whose records have 32 bits for the length of a message with its header.
const LONGEST_MESSAGE: usize = u32::MAX as usize - MAX_HEADER_LEN;

/// A length that the header of a message can say.
fn parse_message(text: &str) -> Result<usize, LengthError> {
    let bytes = parse_bytes(text)?;
    if bytes <= LONGEST_MESSAGE { Ok(bytes) } else { Err(LengthError::Message { bytes }) }
}

fn parse_ring(text: &str) -> Result<u64, LengthError> {
    let bytes = parse_bytes(text)? as u64;
    if bytes.is_power_of_two() && RING_BYTES.contains(&bytes) {
        Ok(bytes)
    } else {
        Err(LengthError::Ring { bytes })
    }
}

pub(crate) fn run(args: &Args) -> Result<(), BenchError> {
    if args.ring.is_some() && !args.link.contains(&Kind::Shm) {
        return Err(BenchError::NoUse { flag: "ring", with: "links that are not shm" });
    }
    let printer = Printer::start(args.json)?;
    for &bytes in &args.bytes {
        for &kind in &args.link {
            printer.row(&measure(kind, bytes, args)?)?;
        }
    }
    Ok(())
}

fn measure(kind: Kind, bytes: usize, args: &Args) -> Result<Row, BenchError> {
    let buffer = || Buffer::new(bytes).map_err(|source| BenchError::Buffer { bytes, source });
    let (mut raw, mut copy) = (buffer()?, buffer()?);
    raw.iter_mut()
        .enumerate()
        .for_each(|(i, byte)| *byte = (i as u32).wrapping_mul(0x9e37_79b1).to_le_bytes()[3]);
    let message = Bytes::from_owner(raw);
    let failed = |source| BenchError::Link { link: kind.name(), bytes, source };
    let mut pair = Pair::meet(kind, &message, args.ring).map_err(failed)?;
    let count = (STREAM_BYTES / bytes).clamp(1, STREAM_MESSAGES);
    pair.check(count).map_err(failed)?;

    let half = args.seconds / 2;
    let latency = median(&mut pair, half).map_err(failed)?;
    let (mut best_copy, mut best_stream) = (Duration::MAX, Duration::MAX);
    let started = Instant::now();
    while best_stream == Duration::MAX || started.elapsed() < half {
        best_copy = best_copy.min(memcpy(black_box(&message), &mut copy, 1, count));
        best_stream = best_stream.min(pair.stream(count).map_err(failed)?);
    }
    pair.check(1).map_err(failed)?;
    let gbps = |took: Duration| (bytes * count) as f64 / took.as_nanos().max(1) as f64;
    Ok(Row::new(kind.name(), bytes, latency, gbps(best_stream), gbps(best_copy)))
}

/// The median of what messages take that are sent one by one.
fn median(pair: &mut Pair, budget: Duration) -> Result<Duration, LinkBenchError> {
    let (started, mut all) = (Instant::now(), Latencies::new());
    while all.is_empty() || started.elapsed() < budget {
        for _ in 0..BURST {
            all.add(pair.one_way()?);
            if started.elapsed() >= budget {
                break;
            }
        }
    }
    Ok(all.median())
}

impl Kind {
    fn name(self) -> &'static str {
        match self {
            Self::Loopback => "loopback",
            Self::Shm => "shm",
            Self::Tcp => "tcp",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_are_as_long_as_headers_can_say() {
        assert_eq!(parse_message("1G"), Ok(1 << 30));
        assert_eq!(parse_message(&LONGEST_MESSAGE.to_string()), Ok(LONGEST_MESSAGE));
        for (text, bytes) in [("4294967295", (4 << 30) - 1), ("4G", 4 << 30), ("5G", 5 << 30)] {
            assert_eq!(parse_message(text), Err(LengthError::Message { bytes }));
        }
    }
}

//! What can be asked for, and whether it makes sense.

use std::path::PathBuf;
use std::time::Duration;

use clap::builder::{ArgPredicate, PossibleValuesParser, TypedValueParser};
use mgcomp_selector::{Lambda, PolicySpec};
use mgcomp_transport::communicator::{Datatype, Operation};
use mgcomp_transport::executor::shared_codec_threads;
use mgcomp_transport::link::Shaping;
use mgcomp_transport::link::tcp::Connections;
use mgcomp_transport::nccl::Reductions;

use super::check::Order;
use super::data::Data;
use super::error::PerfError;
use super::launch::LinkKind;
use super::operation::Op;
use super::pattern::Pattern;
use super::rounding::is_float;
use super::sizes::sizes;
use super::values::Values;
use crate::args;
use crate::device::Devices;
use crate::input;
use crate::progress::Progress;
use crate::room::Room;
use crate::show::OFF;
use crate::size::Size;

/// Measure operations between ranks over buffers of many sizes, and check every result.
///
/// Sizes and bandwidths are counted as in nccl-tests. A size is that of the longest buffer of a rank: of all blocks
/// together in all_gather, all_to_all, gather, scatter and reduce_scatter. Algorithm bandwidth is size / time, in 10⁹
/// bytes of uncompressed data per second. Bus bandwidth is that times 2(n−1)/n for all_reduce, (n−1)/n for the five
/// above, and 1 for all else, with n ranks: what one port of the network would have to carry. In JSON both end in
/// _gbps, which here, as in every bench, means GB/s. Link rates alone are in bits, Gb/s.
///
/// The time is the median of the iterations on the slowest rank; all ranks meet in a barrier before each. Operations
/// work in place where that takes no copy, which all_to_all does. Ranks have different data. `wrong` counts values of
/// all ranks that are not what the operation must give; results up to 4 MiB are checked in every iteration, longer ones
/// in the first and the last. `ratio` is raw bytes per byte that was sent.
#[derive(clap::Args, Clone, Debug)]
pub(crate) struct Args {
    /// What to measure, one or several with commas between them. On devices, but for NCCL, it is all_gather if nothing is said
    #[arg(long, value_name = "OP", value_delimiter = ',', default_value = "all_reduce", value_parser = op(), default_value_ifs = on_devices())]
    pub(super) op: Vec<Op>,
    /// How reductions combine numbers
    #[arg(long, value_name = "OPERATION", default_value = "sum", value_parser = operation())]
    pub(super) reduction: Operation,
    /// What joins the ranks: loopback (threads of one process), shm (processes that share memory), tcp (processes), cuda
    /// (processes with a device each, from one to the other), cuda-threads (the same in one process), nccl (processes), and
    /// where it is built in mpi (processes that mpirun has started)
    #[arg(long, default_value = "loopback", value_parser = link(), default_value_if("rank_file", ArgPredicate::IsPresent, "tcp"))]
    pub(super) link: LinkKind,
    /// Have buffers in the memory of CUDA devices: cuda (rank 0 has the first, and so on, and from the first again where there
    /// are fewer), or cuda:N (all have the one with this number). With --link cuda, cuda-threads or nccl it is cuda if nothing is said
    #[arg(long, value_name = "cuda[:N]")]
    device: Option<Devices>,
    /// Over NCCL, let reductions have the bits that they have on all other links. Else they are NCCL's own, and floats are only
    /// checked to be as near to the exact result as any order brings them
    #[arg(long)]
    pub(super) ordered: bool,
    /// How many ranks take part, 2 to 64; without it 2
    #[arg(long, value_parser = clap::value_parser!(u32).range(2..=64), allow_negative_numbers = true)]
    ranks: Option<u32>,
    /// The shortest buffer, in bytes or with K, M, G
    #[arg(long, value_name = "SIZE", default_value = "8")]
    pub(super) min: Size,
    /// The longest buffer
    #[arg(long, value_name = "SIZE", default_value = "64M")]
    pub(super) max: Size,
    /// Each buffer is this many times as long as the one before, 2 or more
    #[arg(long, value_name = "TIMES", default_value_t = 2, value_parser = clap::value_parser!(u32).range(2..), allow_negative_numbers = true)]
    pub(super) factor: u32,
    /// Iterations for each size, 1 to 1000000; without it, as many as there is time for
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=1_000_000), allow_negative_numbers = true)]
    pub(super) iters: Option<u32>,
    /// Iterations before those that count, 1000000 at most; without it 10, or as many as there is time for
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(..=1_000_000), allow_negative_numbers = true)]
    pub(super) warmup: Option<u32>,
    /// Time for the whole run where --iters does not set it; sizes that do not fit are left out
    #[arg(long, value_name = "S", default_value = "40", value_parser = args::seconds)]
    pub(super) seconds: Duration,
    /// How long ranks are busy with nothing before each iteration, in microseconds, 1 s at most: links that are held to a rate carry more for
    /// a moment after a rest, which is to be the same for all that is compared
    #[arg(long, value_name = "MICROSECONDS", default_value_t = 0, value_parser = clap::value_parser!(u32).range(..=1_000_000), allow_negative_numbers = true)]
    pub(super) pause_us: u32,
    /// What the bytes are: i8 to i64, u8 to u64, f16, bf16, f32, f64, and for what does not compute f8e4m3, f8e5m2.
    /// Without it the name of the file tells (x.f32.bin), or it is f32
    #[arg(long, value_name = "TYPE")]
    pub(super) element: Option<Values>,
    /// A file with the data, over and over, from another place on each rank
    #[arg(long, value_name = "FILE", conflicts_with = "pattern")]
    data: Option<PathBuf>,
    /// Data that is made up: normal numbers, those after a ReLU, a sequence, random bits, or zeros
    #[arg(long, default_value = "normal", value_parser = pattern())]
    pattern: Pattern,
    /// How the codec is chosen: adaptive, paper, paper:<sampling>,<running>,<votes>, or fixed:<algorithm>
    #[arg(long, default_value_t)]
    pub(super) policy: PolicySpec,
    /// Compress nothing
    #[arg(long, conflicts_with_all = ["policy", "interleave", "lambda"])]
    raw: bool,
    /// Let raw and compressed iterations take turns, and report both
    #[arg(long)]
    interleave: bool,
    /// What a nanosecond of codec latency weighs, in bits. Without it adaptive goes by time, and paper by 6
    #[arg(long, value_name = "GBPS", allow_negative_numbers = true)]
    pub(super) lambda: Option<Lambda>,
    /// Make the link slower: the rate at which each rank sends, 0.001 to 100000 Gb/s
    #[arg(long, value_name = "GBPS", value_parser = args::link_gbps, allow_negative_numbers = true)]
    pub(super) link_gbps: Option<f64>,
    /// What each message then takes on top, in microseconds, 10 s at most
    #[arg(long, value_name = "MICROSECONDS", default_value_t = 0, value_parser = args::latency_us, requires = "link_gbps", allow_negative_numbers = true)]
    pub(super) latency_us: u64,
    /// TCP connections of each two ranks, 1 to 16; of two ranks started by hand, the higher one's count
    #[arg(long, value_name = "N", default_value_t, allow_negative_numbers = true)]
    pub(super) connections: Connections,
    /// Threads that run codecs, on each rank, 1 to 256; without it up to 2, as many as the ranks of this machine have cores for
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=256), allow_negative_numbers = true)]
    pub(super) codec_threads: Option<u16>,
    /// Be one rank of several that are started by hand, on any machines: who they are. All get the same flags; those that
    /// would measure something else do not begin
    #[arg(long, value_name = "FILE", requires = "rank", conflicts_with = "ranks")]
    pub(super) rank_file: Option<PathBuf>,
    /// Which of these ranks; 0 prints what was measured
    #[arg(long, value_name = "N", requires = "rank_file")]
    pub(super) rank: Option<u32>,
    /// What takes longer than this fails: meeting the other ranks, one operation. Filling and checking buffers takes as long as
    /// it takes
    #[arg(long, value_name = "S", default_value = "60", value_parser = args::seconds)]
    pub(super) timeout: Duration,
    /// Print one JSON object for each row: op, link, ranks, bytes, element, time_us, algbw_gbps, busbw_gbps, wrong,
    /// ratio, algorithms (transfers by name), mode (raw, the policy, or off where compression is switched off), device (what the device is called that has the buffers of rank 0; null
    /// where they are in host memory), ways (window_bytes and host_bytes: how what devices made went to other ranks; null but
    /// for --link cuda)
    #[arg(long)]
    pub(super) json: bool,
    /// Draw bus bandwidth over size
    #[arg(long, value_name = "FILE.svg")]
    pub(super) plot: Option<PathBuf>,
    /// Change a byte of rank 0's result before it is checked, to see that the check finds it
    #[arg(long, hide = true)]
    pub(super) spoil: bool,
}

/// Whether a policy chooses codecs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Mode {
    Raw,
    Compressed,
}

impl Args {
    /// How many ranks this process starts.
    pub(super) fn ranks(&self) -> u32 {
        self.ranks.unwrap_or(2)
    }

    /// What each iteration is done in, one after the other.
    pub(super) fn modes(&self) -> &'static [Mode] {
        match (self.raw, self.interleave) {
            (true, _) => &[Mode::Raw],
            (false, true) => &[Mode::Raw, Mode::Compressed],
            (false, false) => &[Mode::Compressed],
        }
    }

    /// What rows call a mode; `is_off`: whether compression is switched off whatever the policy says.
    pub(super) fn mode_name(&self, mode: Mode, is_off: bool) -> String {
        match mode {
            Mode::Raw => "raw".into(),
            Mode::Compressed if is_off => OFF.into(),
            Mode::Compressed => self.policy.to_string(),
        }
    }

    pub(super) fn values(&self) -> Values {
        let of_data = || self.data.as_deref().map(Values::of_file);
        self.element.or_else(of_data).unwrap_or(Values::Numbers(Datatype::F32))
    }

    /// Sizes of `op`, of whole values on each rank.
    pub(super) fn sizes(&self, op: Op, ranks: usize) -> Vec<usize> {
        match op {
            Op::Barrier => vec![0],
            _ => sizes(self.min, self.max, self.factor, op.blocks(ranks) * self.values().width_bytes()),
        }
    }

    /// The longest buffer of all.
    pub(super) fn longest(&self, ranks: usize) -> usize {
        self.op.iter().flat_map(|&op| self.sizes(op, ranks)).max().unwrap_or_default()
    }

    /// The devices that have the buffers, if they have.
    pub(super) fn devices(&self) -> Option<Devices> {
        self.device.or_else(|| self.link.is_of_devices().then_some(Devices::All))
    }

    /// Where the buffers of a rank are.
    pub(super) fn room(&self, rank: u32) -> Result<Room, PerfError> {
        Ok(self.devices().map_or(Ok(Room::Host), |devices| Room::on(devices.open(rank)?))?)
    }

    /// Who computes reductions over NCCL.
    pub(super) fn reductions(&self) -> Reductions {
        if self.ordered { Reductions::Ordered } else { Reductions::Nccl }
    }

    /// Who computes those that the results of compressed ones are compared with: NCCL, where its order and its rounding do
    /// not show.
    pub(super) fn plain_reductions(&self) -> Reductions {
        match self.values() {
            Values::Numbers(datatype) if is_float(datatype) || !is_of_nccl(datatype) => self.reductions(),
            _ if self.reduction == Operation::Avg => self.reductions(),
            _ => Reductions::Nccl,
        }
    }

    /// In which order numbers are combined.
    pub(super) fn order(&self) -> Order {
        if self.link == LinkKind::Nccl && !self.ordered { Order::Any } else { Order::OfRanks }
    }

    pub(super) fn needs_aside(&self) -> bool {
        self.op.iter().any(|op| op.needs_aside())
    }

    pub(super) fn needs_regions(&self) -> bool {
        self.op.iter().any(|op| op.needs_regions())
    }

    pub(super) fn shaping(&self) -> Result<Option<Shaping>, PerfError> {
        let latency = Duration::from_micros(self.latency_us);
        let shaping = self.link_gbps.map(|gbps| Shaping::try_new(gbps, latency));
        Ok(shaping.transpose()?)
    }

    /// Codec threads of a rank that shares this machine's cores with so many.
    pub(super) fn codec_threads(&self, local_ranks: u32) -> usize {
        self.codec_threads.map_or_else(|| shared_codec_threads(local_ranks), usize::from)
    }

    /// Refuses what cannot be measured.
    pub(super) fn check(&self) -> Result<(), PerfError> {
        if self.min > self.max {
            return Err(PerfError::Sizes { min: self.min.0, max: self.max.0 });
        }
        if let (Values::Opaque(element), Some(op)) = (self.values(), self.op.iter().find(|op| op.reduces())) {
            return Err(PerfError::NoNumbers { op: op.name(), element });
        }
        if self.rank_file.is_some() && self.link != LinkKind::Tcp {
            return Err(PerfError::RankFileLink { link: self.link.name() });
        }
        if self.link.is_mpi() && (self.ranks.is_some() || self.link_gbps.is_some()) {
            return Err(PerfError::OfMpi);
        }
        if self.connections != Connections::ONE && self.link != LinkKind::Tcp {
            return Err(PerfError::ConnectionsLink { link: self.link.name() });
        }
        if self.ordered && self.link != LinkKind::Nccl {
            return Err(PerfError::OrderedLink { link: self.link.name() });
        }
        if let Some(path) = &self.plot {
            mgcomp_plot::check_place(path)?;
        }
        self.shaping()?;
        self.devices().map_or(Ok(()), |devices| self.check_devices(devices))
    }

    /// Refuses what cannot be measured on devices, and devices that are not there.
    fn check_devices(&self, devices: Devices) -> Result<(), PerfError> {
        if self.link_gbps.is_some() && !self.link.can_be_slower() {
            return Err(PerfError::NotSlower { link: self.link.name() });
        }
        if self.link == LinkKind::Nccl {
            self.check_nccl()?;
        }
        devices.seat(0)?;
        Ok(())
    }

    /// Refuses what NCCL does not have.
    fn check_nccl(&self) -> Result<(), PerfError> {
        if self.codec_threads.is_some() {
            return Err(PerfError::CodecThreadsLink { link: self.link.name() });
        }
        if let Some(op) = self.op.iter().find(|op| !op.is_of_nccl()) {
            return Err(PerfError::NotOfNccl { op: op.name(), instead: op.over_nccl() });
        }
        match (self.values(), self.op.iter().any(|op| op.reduces())) {
            (Values::Numbers(datatype), true) if !self.ordered && !is_of_nccl(datatype) => {
                Err(PerfError::NoNumbersOfNccl { operation: self.reduction, datatype })
            }
            _ => Ok(()),
        }
    }

    /// What all ranks take their data from.
    pub(super) fn load(&self, ranks: usize) -> Result<Data, PerfError> {
        let (values, longest) = (self.values(), self.longest(ranks));
        let Some(path) = &self.data else {
            return Ok(Data::of_pattern(self.pattern, values, ranks, longest));
        };
        // Other processes have to read it as well, and have other words on their standard input.
        if input::is_stream(path) || !path.is_file() && path.exists() {
            return Err(PerfError::NoFile { path: path.clone() });
        }
        let bytes = input::read_raw(path, &mut Progress::start()).map_err(Box::new)?;
        let len = bytes.len();
        Data::of_file(bytes, values, ranks).ok_or_else(|| PerfError::Short {
            path: path.clone(),
            len,
            values: values.name(),
        })
    }

    /// What the data is called.
    pub(super) fn data_name(&self) -> String {
        match &self.data {
            Some(path) => path.file_name().unwrap_or_default().to_string_lossy().into_owned(),
            None => self.pattern.name().to_owned(),
        }
    }

    /// What the data is made up as, if it is.
    pub(super) fn pattern_name(&self) -> Option<&'static str> {
        self.data.is_none().then(|| self.pattern.name())
    }
}

/// What is measured where buffers are on devices, if nothing is said.
fn on_devices() -> [(&'static str, ArgPredicate, &'static str); 4] {
    let link = |name: &'static str| ArgPredicate::Equals(name.into());
    [
        ("link", link("nccl"), "all_reduce"),
        ("link", link("cuda"), "all_gather"),
        ("link", link("cuda-threads"), "all_gather"),
        ("device", ArgPredicate::IsPresent, "all_gather"),
    ]
}

fn op() -> impl TypedValueParser<Value = Op> {
    one_of(&Op::ALL, Op::name)
}

fn operation() -> impl TypedValueParser<Value = Operation> {
    one_of(&Operation::ALL, Operation::name)
}

fn pattern() -> impl TypedValueParser<Value = Pattern> {
    one_of(&Pattern::ALL, Pattern::name)
}

fn link() -> impl TypedValueParser<Value = LinkKind> {
    one_of(LinkKind::ALL, LinkKind::name)
}

/// Parses the name of one of `all`.
fn one_of<T: Copy + Send + Sync + 'static>(
    all: &'static [T],
    name: fn(T) -> &'static str,
) -> impl TypedValueParser<Value = T> {
    PossibleValuesParser::new(all.iter().map(move |&one| name(one))).map(move |given| {
        // clap has already refused every other name.
        all.iter().copied().find(|&one| name(one) == given).unwrap_or(all[0])
    })
}

/// Whether NCCL can compute with such numbers.
const fn is_of_nccl(datatype: Datatype) -> bool {
    !matches!(datatype, Datatype::I16 | Datatype::U16)
}

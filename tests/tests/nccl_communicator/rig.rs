//! What these tests share: ranks, and buffers on a device.

use std::iter;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::{Condvar, Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use mgcomp_codecs::device::{Buffer, Cache, Device, Region, Stream};
use mgcomp_selector::{LinkFacts, Overlap};
use mgcomp_tests::stub::{Libraries, Stub, with_stub_that_keeps};
use mgcomp_tests::stub_nccl::StubNccl;
use mgcomp_transport::nccl::{NcclCommunicator, NcclConfig, NcclError, UniqueId};

/// Nothing takes this long unless it hangs.
pub(crate) const HANGS: Duration = Duration::from_secs(100);
/// A limit that a test waits for.
pub(crate) const SHORT: Duration = Duration::from_secs(1);
/// The most ranks of a test.
pub(crate) const RANKS: u32 = 3;
/// What is shorter goes by plain calls.
pub(crate) const LEAST: u64 = 4096;

/// Runs `body` with the stubs; see [`mgcomp_tests::stub::with_stub`].
pub(crate) fn with_nccl(test: &str, seed: u64, body: impl FnOnce(&Stub, &StubNccl)) {
    with_nccl_that_keeps(test, seed, |stub, nccl| {
        body(stub, nccl);
        assert_eq!(stub.left(), "", "left in the driver");
    });
}

/// The same for a `body` that says itself what may be left in the driver.
pub(crate) fn with_nccl_that_keeps(test: &str, seed: u64, body: impl FnOnce(&Stub, &StubNccl)) {
    with_stub_that_keeps(test, Libraries::DriverCompilerAndNccl, |stub| {
        let nccl = StubNccl::load();
        stub.set("devices", u64::from(RANKS));
        stub.set("threads", seed);
        stub.set("strict_free", 1);
        body(stub, &nccl);
        all_end(&nccl);
    });
}

/// Waits until no communicator is there any more: one whose abort was given up is a moment later.
pub(crate) fn all_end(nccl: &StubNccl) {
    let started = Instant::now();
    while nccl.live() != 0 {
        assert!(started.elapsed() < HANGS, "communicators that were not given back");
        thread::yield_now();
    }
}

pub(crate) fn config(policy: &str) -> NcclConfig {
    let policy = policy.parse().unwrap();
    // So slow that whatever shrinks pays.
    let link = LinkFacts::try_new(0.1, 1000, Overlap::None).ok();
    NcclConfig { policy, link, least_bytes: LEAST, limit: HANGS, ..NcclConfig::default() }
}

/// A device, and a stream of the test's own on it.
pub(crate) struct Place {
    pub(crate) device: Device,
    pub(crate) stream: Stream,
}

impl Place {
    pub(crate) fn open(ordinal: u32) -> Self {
        let device = Device::open_with(ordinal, Cache::Off).unwrap();
        let stream = device.stream().unwrap();
        Self { device, stream }
    }

    pub(crate) fn room(&self, len: usize) -> Buffer {
        self.device.alloc(len as u64).unwrap()
    }

    /// A buffer that will hold `bytes`.
    pub(crate) fn holding(&self, bytes: &[u8]) -> Buffer {
        let buffer = self.room(bytes.len());
        if !bytes.is_empty() {
            self.stream.upload(bytes, buffer.region()).unwrap();
        }
        buffer
    }

    pub(crate) fn bytes_of(&self, region: Region<'_>) -> Vec<u8> {
        bytes_after(&self.stream, region)
    }
}

/// What a region holds after all that is on `stream`.
pub(crate) fn bytes_after(stream: &Stream, region: Region<'_>) -> Vec<u8> {
    let mut bytes = vec![0; region.len() as usize];
    if !bytes.is_empty() {
        stream.download(region, &mut bytes).unwrap();
    }
    bytes
}

/// Where ranks wait for each other, and not for ever: one that has panicked does not come.
pub(crate) struct Gate {
    ranks: u32,
    come: Mutex<u32>,
    changed: Condvar,
}

impl Gate {
    pub(crate) fn new(ranks: u32) -> Self {
        Self { ranks, come: Mutex::new(0), changed: Condvar::new() }
    }

    /// Waits for the others. Before they go on, the last one does `last`.
    pub(crate) fn pass_after(&self, last: impl FnOnce()) {
        let mut come = self.come.lock().unwrap_or_else(PoisonError::into_inner);
        *come += 1;
        let round = (*come - 1) / self.ranks;
        if (*come).is_multiple_of(self.ranks) {
            last();
            self.changed.notify_all();
            return;
        }
        let others_miss = |come: &mut u32| *come / self.ranks == round;
        let (_come, late) = self.changed.wait_timeout_while(come, HANGS, others_miss).unwrap();
        assert!(!late.timed_out(), "a rank does not come");
    }

    pub(crate) fn pass(&self) {
        self.pass_after(|| {});
    }
}

/// What is to be done within a limit, which the machine may be too busy for at times.
pub(crate) fn in_time<T>(work: impl FnMut() -> Result<T, NcclError>) -> T {
    let is_in_time = |done: &Result<_, _>| !matches!(done, Err(NcclError::TimedOut { .. }));
    iter::repeat_with(work).take(20).find(is_in_time).expect("one that is done in time").unwrap()
}

/// A rank by itself.
pub(crate) fn alone(place: &Place, config: NcclConfig, limit: Duration) -> NcclCommunicator {
    let config = NcclConfig { limit, ..config };
    in_time(|| NcclCommunicator::new(&place.device, UniqueId::new().unwrap(), (0, 1), config))
}

/// Each rank meets the others, on a thread and a device of its own, and does `work` with what comes of it.
pub(crate) fn on_ranks<T: Send>(
    ranks: u32,
    config: impl Fn(u32) -> NcclConfig + Sync,
    work: impl Fn(Result<NcclCommunicator, NcclError>, &Place) -> T + Sync,
) -> Vec<T> {
    let id = UniqueId::new().unwrap();
    // Nobody takes away what somebody still uses.
    let over = Gate::new(ranks);
    let as_rank = |rank| {
        let place = Place::open(rank);
        let world = NcclCommunicator::new(&place.device, id, (rank, ranks), config(rank));
        let result = catch_unwind(AssertUnwindSafe(|| work(world, &place)));
        over.pass();
        result.unwrap_or_else(|panic| resume_unwind(panic))
    };
    thread::scope(|scope| {
        let as_rank = &as_rank;
        let threads: Vec<_> = (0..ranks).map(|rank| scope.spawn(move || as_rank(rank))).collect();
        threads.into_iter().map(|thread| thread.join().unwrap()).collect()
    })
}

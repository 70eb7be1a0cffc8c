//! What every link promises, of the link between the devices of processes where there are windows: each payload is brought to
//! the memory of its sender's device first, and lies in that of the receiver when it is looked at.
//!
//! The promises are those of `transport/tests/contract`, where the link has no devices. Ranks could be processes, but are not.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, mpsc};
use std::time::Instant;

use mgcomp_codecs::device::{Device, Stream};
use mgcomp_codecs::{Algorithm, Element};
use mgcomp_selector::LinkFacts;
use mgcomp_transport::executor::{self, Done, DoneSink, Executor, Outlet, Output, Ticket, Work};
use mgcomp_transport::link::cuda::ipc::{Carried, CudaIpc, CudaIpcConfig, Sharing};
use mgcomp_transport::link::shm::ShmConfig;
use mgcomp_transport::link::{Link, LinkError, LinkSink, Message, Position, SendError, Sent};
use mgcomp_transport::memory::DeviceBuffer;
use mgcomp_transport::message::Rank;
use mgcomp_transport::payload::Payload;

use crate::common::fabric::{Fabric, Links, shm_job};
use crate::common::{LIMITS, watched};
use crate::peer_link::device;
use crate::rig::{HANGS, with_threads};

/// The longest of what tests send, but for a message of 256 MiB.
const LONGEST: usize = 4 << 20;
/// Some payloads are longer, and go by way of the host.
const WINDOW_BYTES: u64 = 1 << 20;

/// Bytes that went by window.
static BY_WINDOW: AtomicU64 = AtomicU64::new(0);

macro_rules! promises {
    ($sends:literal: $($part:ident::$test:ident)*) => {$(
        #[test]
        fn $test() {
            keeps(concat!("ipc_contract::", stringify!($test)), crate::$part::$test, $sends);
        }
    )*};
}

promises! { true:
    start::starting_twice_fails_and_changes_nothing
    start::messages_wait_for_a_late_starter
    order::messages_of_all_sizes_arrive_in_order
    order::eight_ranks_talk_all_to_all
    order::what_waits_for_the_next_message_comes
    pressure::a_peer_that_does_not_look_fills_the_queue
    pressure::a_peer_that_does_not_look_at_one_hears_the_others
    pressure::movement_is_seen_and_stalling_too
    closing::what_was_queued_comes_before_the_end
    closing::others_go_on_when_two_part
    closing::what_nobody_took_does_not_reach_the_next_link
}

promises! { false:
    closing::dropped_links_end_and_let_go
    start::positions_are_those_of_the_fabric
    closing::whoever_closes_hears_nothing_more
    closing::nothing_goes_to_nobody
    closing::a_link_that_never_met_anybody_ends_too
}

/// A test of the contract, on eight devices. `sends` says whether windows have something to carry.
fn keeps(test: &str, contract: fn(Fabric), sends: bool) {
    with_threads(test, 9, |stub| {
        stub.set("devices", 8);
        watched(move || contract(Fabric::of(make)));
        let by_window = BY_WINDOW.load(Ordering::SeqCst);
        assert!(!sends || by_window > 0, "nothing went by window");
    });
}

fn make(ranks: u32, queue_bytes: u64, _: Fabric) -> Links {
    let job = shm_job(ranks);
    let shm = ShmConfig { queue_bytes, ..ShmConfig::new(LIMITS) };
    let config = CudaIpcConfig { shm, window_bytes: Some(WINDOW_BYTES), sharing: Sharing::Files };
    let link = |rank| {
        let (device, stream) = device(rank);
        let inner = CudaIpc::new(job.clone(), Rank(rank), Some(device.clone()), config).unwrap();
        let carried = inner.carried();
        let bringing = Mutex::new(Bringing::new(device, stream));
        Box::new(OnDevice { inner, bringing, carried }) as Box<dyn Link>
    };
    (0..ranks).map(link).collect()
}

/// An end that brings what it is to send to its device first.
struct OnDevice {
    inner: CudaIpc,
    bringing: Mutex<Bringing>,
    carried: Arc<Carried>,
}

/// What brings payloads to a device.
struct Bringing {
    device: Device,
    stream: Stream,
    /// Where they are before they are payloads.
    memory: Option<DeviceBuffer>,
    executor: Box<dyn Executor>,
    done: mpsc::Receiver<Done>,
}

impl Bringing {
    fn new(device: Device, stream: Stream) -> Self {
        let (report, done) = mpsc::channel();
        let sink: DoneSink = Arc::new(move |done| drop(report.send(done)));
        let executor = executor::start_for(Outlet::Anywhere, 1, 1, false, &sink).unwrap();
        Self { device, stream, memory: None, executor, done }
    }

    fn bring(&mut self, bytes: &[u8]) -> Payload {
        if bytes.is_empty() {
            return Payload::empty();
        }
        let len = bytes.len().max(LONGEST);
        if self.memory.as_ref().is_none_or(|memory| memory.len() < len) {
            self.memory = Some(DeviceBuffer::alloc(&self.device, len).unwrap());
        }
        let slice = self.memory.as_ref().and_then(|memory| memory.slice(0..bytes.len())).unwrap();
        self.stream.upload(bytes, slice.region()).unwrap();
        let source = Payload::from_memory(slice);
        let work = Work::Encode {
            source,
            element: Element::U8,
            algorithm: Algorithm::None,
            lent: false,
            shelf: None,
        };
        let done = self.executor.submit(Ticket(0), work);
        let done = done.unwrap_or_else(|| self.done.recv_timeout(HANGS).expect("hangs: no payload"));
        let Ok(Output::Encoded(_, payload)) = done.result else { panic!("no payload") };
        payload
    }
}

impl Link for OnDevice {
    fn position(&self) -> Position {
        self.inner.position()
    }

    fn ranks_here(&self) -> u32 {
        self.inner.ranks_here()
    }

    fn start(&mut self, sink: LinkSink) -> Result<(), LinkError> {
        self.inner.start(sink)
    }

    fn send(&self, to: Rank, Message { header, payload }: Message) -> Result<Sent, SendError> {
        let payload = self.bringing.lock().unwrap().bring(payload.bytes().unwrap());
        self.inner.send(to, Message { header, payload })
    }

    fn moved_since(&self, peer: Rank, since: Instant) -> bool {
        self.inner.moved_since(peer, since)
    }

    fn facts(&self, peer: Rank) -> Option<LinkFacts> {
        self.inner.facts(peer)
    }

    fn close(&self, peer: Rank) {
        self.inner.close(peer);
    }
}

impl Drop for OnDevice {
    fn drop(&mut self) {
        BY_WINDOW.fetch_add(self.carried.window_bytes(), Ordering::SeqCst);
    }
}

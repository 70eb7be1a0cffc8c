//! What becomes of copies when threads die, which only shows with an executor made for it.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use mgcomp_codecs::Element;
use mgcomp_selector::PolicySpec;

use super::offload::{OffloadError, OffloadQueue};
use super::{Copier, CopyConfig, CopyError, CopyHandle, CopyReport, Direction, Order};
use crate::executor::{Done, DoneSink, Executor, HostExecutor, Ticket, Work};
use crate::memory::HostBuffer;
use crate::message::Status;

const SEGMENT: usize = 64 << 10;
const HANGS: Duration = Duration::from_secs(60);

/// How a codec thread dies.
#[derive(Clone, Copy)]
enum Death {
    /// Its panic is caught and reported, as host executors do.
    Reported,
    /// Nobody says anything, ever: what it worked on is dropped with the executor.
    Silent,
}

/// A thread for each piece of work, one of which dies.
struct Mortal {
    sink: DoneSink,
    dies: Arc<AtomicUsize>,
    death: Death,
    threads: Vec<JoinHandle<()>>,
    ended: Arc<AtomicBool>,
}

impl Executor for Mortal {
    fn submit(&mut self, ticket: Ticket, work: Work) -> Option<Done> {
        let (sink, death) = (self.sink.clone(), self.death);
        let number = self.dies.fetch_sub(1, Ordering::SeqCst);
        let life = move || {
            let lived = catch_unwind(AssertUnwindSafe(|| {
                assert!(number != 1, "as arranged");
                let hear: DoneSink = Arc::new(|_| {});
                let mut alone = HostExecutor::start(0, true, &hear).unwrap();
                let mut done = alone.submit(ticket, work);
                while done.is_none() {
                    done = alone.resume();
                }
                done
            }));
            match (lived, death) {
                (Ok(Some(done)), _) => sink(done),
                (_, Death::Silent) => {}
                _ => sink(Done::failed(ticket)),
            }
        };
        self.threads.push(thread::spawn(life));
        None
    }
}

impl Drop for Mortal {
    fn drop(&mut self) {
        self.threads.drain(..).for_each(|thread| thread.join().unwrap());
        self.ended.store(true, Ordering::SeqCst);
    }
}

fn config() -> CopyConfig {
    CopyConfig { segment_bytes: SEGMENT, window: 3, order: Order::Asked, ..CopyConfig::default() }
}

/// A copier whose `dies`-th piece of work kills its thread; and whether its threads have ended.
fn mortal(dies: usize, death: Death) -> (Copier, Arc<AtomicBool>) {
    mortal_with(config(), dies, death)
}

fn mortal_with(config: CopyConfig, dies: usize, death: Death) -> (Copier, Arc<AtomicBool>) {
    let ended = Arc::<AtomicBool>::default();
    let at_end = ended.clone();
    let copier = Copier::start_with(config, move |sink| {
        let (sink, dies, ended) = (sink.clone(), Arc::new(AtomicUsize::new(dies)), at_end);
        Ok(Box::new(Mortal { sink, dies, death, threads: Vec::new(), ended }))
    });
    (copier.unwrap(), ended)
}

fn policy() -> PolicySpec {
    "fixed:zvc".parse().unwrap()
}

fn data(seed: u32) -> HostBuffer {
    let word = |i: u32| (i % 3 / 2).wrapping_mul(i ^ seed);
    HostBuffer::from((0..10 * SEGMENT as u32 / 4).flat_map(|i| word(i).to_le_bytes()).collect::<Vec<_>>())
}

fn copy(copier: &Copier, from: &HostBuffer, to: &HostBuffer) -> CopyHandle<CopyReport> {
    let direction = Direction::DeviceToHost;
    copier.memcpy_compressed_async(to.all(), from.all(), direction, Element::U32, policy()).unwrap()
}

#[test]
fn a_thread_that_panics_fails_its_copy_and_no_other() {
    // The third piece of work is of the first copy; each segment is encoded and decoded.
    let (copier, _) = mortal(3, Death::Reported);
    let (source, other) = (data(1), data(2));
    let (into, into_other) = (HostBuffer::zeroed(source.len()), HostBuffer::zeroed(source.len()));
    let (first, second) = (copy(&copier, &source, &into), copy(&copier, &other, &into_other));
    let Err(CopyError::Segment { start, end, raw_bytes, status, written_bytes }) = first.wait() else {
        panic!("it lives")
    };
    assert_eq!((end - start, raw_bytes, status), (SEGMENT as u64, source.len() as u64, Status::Internal));
    // What it says was written is there.
    let (into, from) = (into.all().to_vec(), source.all().to_vec());
    let good = into.chunks(SEGMENT).zip(from.chunks(SEGMENT)).filter(|(into, from)| into == from).count();
    assert_eq!(written_bytes, (good * SEGMENT) as u64);
    second.wait().unwrap();
    assert_eq!(into_other.all().to_vec(), other.all().to_vec());
}

#[test]
fn nothing_of_a_copy_that_has_failed_begins_any_more() {
    // One segment at a time, so that none is under way when the first fails.
    let (copier, _) = mortal_with(CopyConfig { window: 1, ..config() }, 1, Death::Reported);
    let (source, other) = (data(1), data(2));
    let (into, into_other) = (HostBuffer::zeroed(source.len()), HostBuffer::zeroed(source.len()));
    let (first, second) = (copy(&copier, &source, &into), copy(&copier, &other, &into_other));
    assert!(matches!(first.wait(), Err(CopyError::Segment { written_bytes: 0, .. })));
    // Its other segments would come before those of the second copy.
    second.wait().unwrap();
    assert!(into.all().to_vec().iter().all(|&byte| byte == 0), "written to after the end");
}

#[test]
fn a_copy_whose_thread_died_in_silence_ends_with_its_copier() {
    let (copier, ended) = mortal(2, Death::Silent);
    let (source, into) = (data(1), HostBuffer::zeroed(10 * SEGMENT));
    let direction = Direction::HostToHost;
    let mut copy =
        copier.memcpy_compressed_async(into.all(), source.all(), direction, Element::U32, policy()).unwrap();
    drop(copier);
    assert!(ended.load(Ordering::SeqCst), "threads live on");
    assert!(copy.wait_for(HANGS), "hangs");
    assert!(matches!(copy.wait(), Err(CopyError::Closed { .. })));
}

#[test]
fn a_queue_goes_on_after_a_thread_has_died() {
    for dies in 1..=30 {
        // 10 segments go out; 10 come back; then the same again.
        let (copier, ended) = mortal(dies, Death::Reported);
        let queue = OffloadQueue::on(copier, policy(), 2 * 10 * SEGMENT as u64);
        let (source, back) = (data(dies as u32), HostBuffer::zeroed(10 * SEGMENT));
        let ticket = queue.offload(source.all(), Element::F32).unwrap();
        let returning = queue.prefetch(ticket, back.all());
        let first = returning.and_then(|copy| Ok(copy.wait()?));
        match (queue.wait(ticket), first) {
            // The way out failed.
            (Err(OffloadError::Copy(CopyError::Segment { .. })), Err(_)) => assert!(dies <= 10),
            // The way back failed: it can be tried again.
            (Ok(_), Err(OffloadError::Copy(CopyError::Segment { .. }))) => {
                queue.prefetch(ticket, back.all()).unwrap().wait().unwrap();
                assert_eq!(back.all().to_vec(), source.all().to_vec());
            }
            (Err(OffloadError::Used { .. }), Ok(_)) => assert_eq!(back.all().to_vec(), source.all().to_vec()),
            other => panic!("{dies}: {other:?}"),
        }
        // Whether a way back fails as well depends on whether it was asked for before the way out had failed.
        assert_eq!(queue.stats().failed > 0, dies <= 20);
        drop(queue);
        assert!(ended.load(Ordering::SeqCst), "threads live on");
    }
}

#[test]
fn what_is_kept_outlives_its_copier() {
    let (copier, _) = mortal(usize::MAX, Death::Reported);
    let source = data(5);
    let kept = copier.keep(source.all(), Direction::DeviceToHost, Element::U32, policy()).unwrap();
    let (kept, report) = kept.wait().unwrap();
    assert_eq!((kept.bytes(), kept.segments().len()), (report.coded_bytes, 10));
    drop(copier);
    assert_eq!(kept.raw_bytes(), source.len() as u64);
}

//! The threads of a device: one enqueues work and never waits for results, the others wait for them.

use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{self, Receiver, RecvError, RecvTimeoutError, Sender};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use mgcomp_codecs::background;
use mgcomp_codecs::device::{Buffer, Device};

use super::flight::{self, Flight};
use super::lane::Lane;
use crate::cuda::kernels::Kernels;
use crate::cuda::staging::Staging;
use crate::executor::failure::Failure;
use crate::executor::waiting::Waiting;
use crate::executor::{Done, DoneSink, Outlet, Output, Ticket, Work};
use crate::memory::{DeviceHold, Rooms};
use crate::message::Status;
use crate::patience::Patience;

/// Pieces of work under way at once: one is coded, one is copied, one waits so that the device need not.
const LANES: usize = 3;
/// For how long threads look for more to do before they sleep: pieces of one transfer follow each other.
const MOMENT: Duration = Duration::from_micros(100);

/// Carries out work on the memory of one device. Its threads allocate and wait, also while others record graphs.
pub(super) struct Worker {
    events: Sender<Event>,
    /// Set when nobody wants what is still queued.
    stopped: Arc<AtomicBool>,
    threads: Vec<JoinHandle<()>>,
}

/// What the thread that enqueues hears of.
enum Event {
    Work(Ticket, Work),
    /// Nothing is on it any more.
    Free(Box<Lane>),
    Stop,
}

/// Work that is under way.
struct UnderWay {
    ticket: Ticket,
    work: Work,
    flight: Flight,
    lane: Lane,
    /// What it took until it was enqueued.
    prepared: Duration,
}

impl Worker {
    /// Starts the threads, which report to `sink`.
    pub(super) fn start(device: &Device, outlet: Outlet, sink: &DoneSink) -> io::Result<Self> {
        let (events, heard) = mpsc::channel();
        let (flying, landing) = mpsc::channel();
        let stopped = Arc::<AtomicBool>::default();
        let reporter = Arc::new(Reporter { sink: sink.clone(), last: [Instant::now(); 2].map(Mutex::new) });
        let issuer = Issuer {
            device: device.clone(),
            staging: Staging::new(device),
            leaving: (outlet == Outlet::Anywhere).then(|| Rooms::new(device)),
            kernels: Kernels::new(device),
            stopped: stopped.clone(),
            reporter: reporter.clone(),
            flying,
            waiting: Waiting::default(),
            free: Vec::new(),
            lanes: 0,
            patience: Patience::of(MOMENT),
        };
        let mut worker = Self { events, stopped, threads: Vec::new() };
        let name = format!("mgcomp-cuda-{}", device.info().ordinal);
        // It comes first: if another does not start, it ends with the worker, and those that wait end with it.
        let at_ease = device.clone();
        let issue = move || at_ease.relaxed(|| issuer.run(heard));
        worker.threads.push(background::spawn(name.clone(), issue)?);
        let landing = Arc::new(Mutex::new(landing));
        // One for each lane: work that has to wait for the program holds up no other.
        for _ in 0..LANES {
            let (landing, events, reporter) = (landing.clone(), worker.events.clone(), reporter.clone());
            let at_ease = device.clone();
            let finish = move || at_ease.relaxed(|| finish_all(&landing, &events, &reporter));
            worker.threads.push(background::spawn(format!("{name}-wait"), finish)?);
        }
        Ok(worker)
    }

    /// Queues work; `false` if the threads are gone.
    pub(super) fn submit(&self, ticket: Ticket, work: Work) -> bool {
        self.events.send(Event::Work(ticket, work)).is_ok()
    }
}

impl Drop for Worker {
    fn drop(&mut self) {
        self.stopped.store(true, Ordering::Relaxed);
        let _ = self.events.send(Event::Stop); // the thread may be gone
        for thread in self.threads.drain(..) {
            let _ = thread.join();
        }
    }
}

/// The thread that enqueues.
struct Issuer {
    device: Device,
    staging: Arc<Staging>,
    /// Where payloads are left on the device.
    leaving: Option<Arc<Rooms<Buffer>>>,
    kernels: Kernels,
    stopped: Arc<AtomicBool>,
    reporter: Arc<Reporter>,
    flying: Sender<UnderWay>,
    /// What has no lane yet, or not its memory. Other work goes on: whoever holds the memory may wait for that.
    waiting: Waiting,
    free: Vec<Lane>,
    /// Lanes that were made.
    lanes: usize,
    patience: Patience,
}

impl Issuer {
    /// Goes on until nobody wants more. What is dropped then, lanes too, is dropped here, where that disturbs no recording.
    fn run(mut self, events: Receiver<Event>) {
        while let Ok(event) = self.hear(&events) {
            for event in event.into_iter().chain(events.try_iter()) {
                match event {
                    Event::Work(ticket, work) => self.waiting.push(ticket, work),
                    Event::Free(lane) => self.free.push(*lane),
                    Event::Stop => return,
                }
            }
            if self.stopped.load(Ordering::Relaxed) {
                return;
            }
            self.issue_all();
        }
    }

    /// What happens next; none if nothing does until it is time to try again to reach memory.
    fn hear(&self, events: &Receiver<Event>) -> Result<Option<Event>, RecvError> {
        // Where all lanes are in use, work waits for the next one that is free, whatever memory it needs.
        if self.waiting.is_empty() || self.free.is_empty() {
            return self.patience.receive(events).map(Some).ok_or(RecvError);
        }
        match events.recv_timeout(self.waiting.pause(Instant::now())) {
            Ok(event) => Ok(Some(event)),
            Err(RecvTimeoutError::Timeout) => Ok(None),
            Err(RecvTimeoutError::Disconnected) => Err(RecvError),
        }
    }

    /// Enqueues all work that there is a lane for and whose memory nobody uses.
    fn issue_all(&mut self) {
        while !self.waiting.is_empty() {
            match caught(|| self.lane()) {
                Ok(None) => return,
                Ok(Some(lane)) => match self.waiting.take(Instant::now(), flight::try_hold) {
                    Some((ticket, work, hold)) => self.issue(lane, ticket, work, hold),
                    None => return self.free.push(lane),
                },
                Err(failure) => {
                    if let Some((ticket, work, ())) = self.waiting.take(Instant::now(), |_| Ok(())) {
                        self.reporter.report(ticket, Instant::now(), work, Err(failure));
                    }
                }
            }
        }
    }

    fn issue(&mut self, mut lane: Lane, ticket: Ticket, work: Work, hold: Option<DeviceHold>) {
        lane.prepare();
        // What has failed may have left work on the stream, which another thread waits for.
        let flight = caught(|| Flight::start(&mut lane, &mut self.kernels, &work, hold))
            .unwrap_or_else(Flight::Failed);
        let prepared = lane.started().elapsed();
        // The other threads outlive this one.
        let _ = self.flying.send(UnderWay { ticket, work, flight, lane, prepared });
    }

    /// A lane that nothing is on: one that is free, or a new one. None if there are no more.
    fn lane(&mut self) -> Result<Option<Lane>, Failure> {
        if let Some(lane) = self.free.pop() {
            return Ok(Some(lane));
        }
        if self.lanes == LANES {
            return Ok(None);
        }
        match Lane::new(&self.device, &self.staging, self.leaving.as_ref()) {
            Ok(lane) => {
                self.lanes += 1;
                Ok(Some(lane))
            }
            Err(error) if self.lanes == 0 => Err(error.into()),
            Err(error) => {
                tracing::warn!(%error, "the device does with fewer streams");
                Ok(None)
            }
        }
    }
}

/// A thread that waits.
fn finish_all(landing: &Mutex<Receiver<UnderWay>>, events: &Sender<Event>, reporter: &Reporter) {
    let patience = Patience::of(MOMENT);
    loop {
        let landed = patience.receive(&landing.lock().unwrap_or_else(PoisonError::into_inner));
        let Some(UnderWay { ticket, work, flight, mut lane, prepared }) = landed else { return };
        let result = caught(|| flight.finish(&mut lane, &work));
        let began = lane.began(prepared);
        match &result {
            Ok(_) => drop(lane.end()),
            Err(_) => lane.abandon(),
        }
        reporter.report(ticket, began, work, result);
        // Nobody takes them any more if the issuing thread is gone.
        let _ = events.send(Event::Free(Box::new(lane)));
    }
}

/// Says what came of work.
struct Reporter {
    sink: DoneSink,
    /// When work ended last that took bytes from the device, and to it: copies go both ways at once.
    last: [Mutex<Instant>; 2],
}

impl Reporter {
    fn report(&self, ticket: Ticket, started: Instant, work: Work, result: Result<Output, Failure>) {
        let way = usize::from(matches!(work, Work::Decode { .. }));
        // Before anybody hears of it: the memory is the program's again. It may have an owner of the program's.
        let let_go = caught(|| {
            drop(work);
            Ok(())
        });
        let result = let_go.and(result);
        if let Err(Failure::Device(error)) = &result {
            tracing::warn!(%error, "work on a device failed");
        }
        let lost = result.as_ref().err().and_then(Failure::lost);
        let result = result.map_err(|failure| failure.status());
        (self.sink)(Done { ticket, took: self.took(way, started), result, lost });
    }

    /// The time of work that ends now. What ended that way while it was under way has had its part of it.
    fn took(&self, way: usize, started: Instant) -> Duration {
        let mut last = self.last[way].lock().unwrap_or_else(PoisonError::into_inner);
        let now = Instant::now();
        let from = started.max(*last);
        *last = now;
        now.saturating_duration_since(from)
    }
}

/// A defect must not take the thread down with it, nor leave a request without an end.
fn caught<T>(step: impl FnOnce() -> Result<T, Failure>) -> Result<T, Failure> {
    catch_unwind(AssertUnwindSafe(step)).unwrap_or(Err(Failure::Status(Status::Internal)))
}

#[cfg(test)]
mod tests {
    use std::thread;

    use super::*;

    #[test]
    fn copies_of_both_ways_share_no_time() {
        let reporter = Reporter { sink: Arc::new(|_| {}), last: [Instant::now(); 2].map(Mutex::new) };
        let started = Instant::now();
        thread::sleep(Duration::from_millis(20));
        let first = Instant::now();
        assert!(reporter.took(0, started) >= Duration::from_millis(20));
        thread::sleep(Duration::from_millis(20));
        // What ended the same way meanwhile has had its part, what ended the other way has not.
        assert!(reporter.took(1, started) >= Duration::from_millis(40));
        assert!(reporter.took(0, started) <= first.elapsed());
    }
}

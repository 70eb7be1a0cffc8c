use std::thread;

use super::*;
use crate::memory::HostBuffer;

/// Runs one piece of work on a fresh executor.
fn run(work: Work) -> Result<Output, Status> {
    let (report, reports) = mpsc::channel();
    let sink: DoneSink = Arc::new(move |done| report.send(done).unwrap());
    let mut executor = HostExecutor::start(1, true, &sink).unwrap();
    let done = executor.submit(Ticket(7), work).unwrap_or_else(|| reports.recv().unwrap());
    assert_eq!(done.ticket, Ticket(7));
    done.result
}

#[test]
fn what_has_shrunk_a_lot_keeps_no_long_room() {
    for (zeros, is_given_back) in [(1 << 20, true), (1 << 19, false)] {
        let (report, reports) = mpsc::channel();
        let sink: DoneSink = Arc::new(move |done| report.send(done).unwrap());
        let mut executor = HostExecutor::start(0, true, &sink).unwrap();
        let raw: Vec<u8> =
            (0..1 << 20).map(|i: u32| if i < zeros { 0 } else { (i.wrapping_mul(i) >> 7) as u8 }).collect();
        let source = Payload::from_memory(HostBuffer::from(raw).all());
        let (element, algorithm) = (Element::U32, Algorithm::Zvc);
        let work = Work::Encode { source, element, algorithm, lent: false, shelf: None };
        let done = executor.submit(Ticket(7), work).unwrap_or_else(|| reports.recv().unwrap());
        assert!(matches!(done.result, Ok(Output::Encoded(Algorithm::Zvc, _))), "{:?}", done.result);
        // The frame is there still.
        assert_eq!(executor.workbench.pool.keeps_any(), is_given_back);
    }
}

fn encode(raw: &[u8], algorithm: Algorithm) -> (Algorithm, Payload) {
    let source = Payload::from_memory(HostBuffer::from(raw.to_vec()).all());
    match run(Work::Encode { source, element: Element::U32, algorithm, lent: false, shelf: None }) {
        Ok(Output::Encoded(algorithm, payload)) => (algorithm, payload),
        other => panic!("{other:?}"),
    }
}

fn decode(payload: Payload, algorithm: Algorithm, len: usize) -> Result<Vec<u8>, (Status, Vec<u8>)> {
    let buffer = HostBuffer::from(vec![0xee; len]);
    let destination = Payload::from_memory(buffer.all());
    match run(Work::Decode { payload, algorithm, destination, all_or_nothing: true }) {
        Ok(Output::Decoded) => Ok(buffer.all().to_vec()),
        Err(status) => Err((status, buffer.all().to_vec())),
        other => panic!("{other:?}"),
    }
}

#[test]
fn without_threads_nobody_hears_of_other_work_than_what_is_handed_in() {
    let sink: DoneSink = Arc::new(|_| panic!("there are no threads"));
    let mut executor = HostExecutor::start(0, true, &sink).unwrap();
    let (held, free) = (HostBuffer::zeroed(64), HostBuffer::zeroed(64));
    let work = |buffer: &HostBuffer| Work::Encode {
        source: Payload::from_memory(buffer.all()),
        element: Element::U8,
        algorithm: Algorithm::Zvc,
        lent: false,
        shelf: None,
    };
    let writing = held.all().try_hold_mut().unwrap();
    assert!(executor.submit(Ticket(1), work(&held)).is_none());
    let done = executor.submit(Ticket(2), work(&free)).unwrap();
    assert_eq!(done.ticket, Ticket(2));
    assert!(executor.resume().is_none() && executor.is_waiting());
    drop(writing);
    // What has waited is for who resumes it, and not for who hands in something else.
    let done = executor.submit(Ticket(3), work(&free)).unwrap();
    assert_eq!(done.ticket, Ticket(3));
    assert_eq!(executor.resume().unwrap().ticket, Ticket(1));
    assert!(!executor.is_waiting());
}

#[test]
fn short_work_that_is_accepted_is_done_by_who_hands_it_in_while_others_hand_in_more() {
    let (mut executor, reports) = with_one_thread();
    let (buffer, other) = (HostBuffer::from(vec![1; 4096]), HostBuffer::zeroed(4096));
    let write = || Work::Decode {
        payload: Payload::from_bytes(Bytes::from(vec![2; 4096])),
        algorithm: Algorithm::None,
        destination: Payload::from_memory(buffer.all()),
        all_or_nothing: false,
    };
    let Accepted::Brief(first) = executor.accept(Ticket(1), write()) else { panic!("it is short") };
    let Accepted::Brief(second) = executor.accept(Ticket(2), long_work(&other)) else {
        panic!("it is short")
    };
    // What is to write to the same memory waits until that is free.
    assert!(matches!(executor.accept(Ticket(3), write()), Accepted::Taken));
    assert_eq!(second.carry_out().ticket, Ticket(2));
    assert!(buffer.all().try_hold_mut().is_none() && reports.try_recv().is_err());
    let done = first.carry_out();
    assert!(done.ticket == Ticket(1) && matches!(done.result, Ok(Output::Decoded)));
    assert_eq!(reports.recv_timeout(HANGS), Ok(3));
    assert_eq!(buffer.all().to_vec(), [2; 4096]);
    // What is long takes a thread.
    assert!(matches!(executor.accept(Ticket(4), long_work(&HostBuffer::zeroed(LONG))), Accepted::Taken));
    assert_eq!(reports.recv_timeout(HANGS), Ok(4));
}

/// Work that takes a thread if `buffer` is long, which it reads.
fn long_work(buffer: &HostBuffer) -> Work {
    let (source, element) = (Payload::from_memory(buffer.all()), Element::U8);
    Work::Encode { source, element, algorithm: Algorithm::Zvc, lent: false, shelf: None }
}

/// An executor with one thread, and where that reports which work is done.
fn with_one_thread() -> (HostExecutor, Receiver<u64>) {
    let (report, reports) = mpsc::channel();
    let sink: DoneSink = Arc::new(move |done| report.send(done.ticket.0).unwrap());
    (HostExecutor::start(1, true, &sink).unwrap(), reports)
}

const HANGS: Duration = Duration::from_secs(60);
const LONG: usize = 1 << 20;

#[test]
fn memory_in_use_holds_up_no_thread() {
    let (mut executor, reports) = with_one_thread();
    let (held, free) = (HostBuffer::zeroed(LONG), HostBuffer::zeroed(LONG));
    let writing = held.slice(0..1).unwrap().hold_mut();
    for (ticket, buffer) in [(1, &held), (2, &held), (3, &free), (4, &held), (5, &free)] {
        assert!(executor.submit(Ticket(ticket), long_work(buffer)).is_none());
    }
    assert!(!executor.is_waiting() && executor.resume().is_none(), "the thread sees to it");
    assert_eq!([(); 2].map(|()| reports.recv_timeout(HANGS)), [Ok(3), Ok(5)]);
    drop(writing);
    let mut rest = [(); 3].map(|()| reports.recv_timeout(HANGS).unwrap());
    rest.sort_unstable(); // they only read it, so any may be the first
    assert_eq!(rest, [1, 2, 4]);
}

#[test]
fn nobody_waits_at_the_end_for_memory_in_use() {
    let (mut executor, reports) = with_one_thread();
    let (held, free) = (HostBuffer::zeroed(LONG), HostBuffer::zeroed(LONG));
    let writing = held.all().hold_mut();
    executor.submit(Ticket(1), long_work(&held));
    executor.submit(Ticket(2), long_work(&free));
    assert_eq!(reports.recv_timeout(HANGS), Ok(2));
    let (ended, end) = mpsc::channel();
    thread::spawn(move || {
        drop(executor);
        ended.send(()).unwrap();
    });
    assert_eq!(end.recv_timeout(HANGS), Ok(()), "hangs: the executor waits for memory");
    drop(writing);
    assert!(reports.recv().is_err(), "nobody wants the other any more");
    let mut held = held;
    assert!(held.is_only(), "and nothing uses its memory");
}

#[test]
fn compressible_bytes_shrink_and_come_back() {
    let raw: Vec<u8> = (0..5000u32).flat_map(u32::to_le_bytes).collect();
    let (algorithm, payload) = encode(&raw, Algorithm::Bdi);
    assert_eq!(algorithm, Algorithm::Bdi);
    assert!(payload.capacity() < raw.len() as u64 / 2);
    assert_eq!(decode(payload, algorithm, raw.len()), Ok(raw));
}

#[test]
fn bytes_that_do_not_shrink_go_raw() {
    let mut state = 1u32;
    let mut random = || {
        state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        (state >> 24) as u8
    };
    let raw: Vec<u8> = (0..4096).map(|_| random()).collect();
    let (algorithm, payload) = encode(&raw, Algorithm::Fpc);
    assert_eq!((algorithm, payload.bytes().unwrap().to_vec()), (Algorithm::None, raw));
}

#[test]
fn bad_payloads_leave_the_destination_alone() {
    let raw = vec![0; 100_000];
    let (algorithm, payload) = encode(&raw, Algorithm::Zvc);
    let good = payload.bytes().unwrap().to_vec();
    let mut last_chunk_damaged = good.clone();
    *last_chunk_damaged.last_mut().unwrap() = 1;
    let cases = [
        (last_chunk_damaged, algorithm, raw.len()),
        (good[..good.len() - 16].to_vec(), algorithm, raw.len()),
        (good.clone(), Algorithm::Bdi, raw.len()),
        (good.clone(), algorithm, raw.len() - 1),
        (good, Algorithm::None, raw.len()),
        (vec![], algorithm, raw.len()),
    ];
    for (bytes, algorithm, len) in cases {
        let result = decode(Payload::from_bytes(bytes.into()), algorithm, len);
        assert_eq!(result, Err((Status::BadPayload, vec![0xee; len])));
    }
}

#[test]
fn estimates_are_the_paper_s_sizes() {
    let source = Payload::from_memory(HostBuffer::zeroed(128).all());
    let algorithms = AlgorithmSet::supported();
    let Ok(Output::Estimates(estimates)) =
        run(Work::Estimate { source, element: Element::U8, algorithms, sample: SampleSize::Whole })
    else {
        panic!("no estimates")
    };
    // Two zero lines: 512, 4, 3 and 2 bits each; the others have no lines.
    let bits: Vec<_> = estimates.iter().map(|e| e.bits).collect();
    assert_eq!(bits, [1024, 8, 6, 4]);
}

#[test]
fn a_sample_of_bytes_is_scaled_up() {
    // Every element of a quarter is there, so masks of 1/32 and a quarter of the raw bytes.
    let raw: Vec<u8> = (0..1u32 << 18).flat_map(|i| (u32::from(i % 4 == 0) * 77).to_le_bytes()).collect();
    let raw_bits = raw.len() as f64 * 8.0;
    let source = Payload::from_memory(HostBuffer::from(raw).all());
    let algorithms = AlgorithmSet::from_iter([Algorithm::Zvc]);
    let (element, sample) = (Element::U32, SampleSize::Bytes(32 << 10));
    let Ok(Output::Estimates(estimates)) = run(Work::Estimate { source, element, algorithms, sample }) else {
        panic!("no estimates")
    };
    let [Estimate { algorithm: Algorithm::Zvc, bits }] = estimates[..] else { panic!("{estimates:?}") };
    let fraction = bits as f64 / raw_bits;
    assert!((fraction - (0.25 + 1.0 / 32.0)).abs() < 0.005, "{fraction}");
}

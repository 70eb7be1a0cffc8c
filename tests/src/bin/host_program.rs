//! A program that mgcomp is a guest of, for tests of its manners: `host_program SCENARIO LINK`.
//!
//! Prints `OK`, with or without a word more, if all went as it should; a line that says what did not otherwise.
//!
//! It is no ordinary Rust program: signals do what they do in others, it forks, and it changes where its threads may run.
#![allow(unsafe_code)]

use std::error::Error;
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc;
use std::thread;
use std::time::{Duration, Instant};

use mgcomp_codecs::Element;
use mgcomp_codecs::frame::Workers;
use mgcomp_selector::{PolicySpec, Steering};
use mgcomp_tests::data::{Kind, bytes};
use mgcomp_transport::communicator::{CollectiveRequest, Communicator, CommunicatorError};
use mgcomp_transport::link::loopback::Loopback;
use mgcomp_transport::link::shm::{Shm, ShmConfig, ShmJob};
use mgcomp_transport::link::tcp::{RankFile, Tcp, TcpConfig};
use mgcomp_transport::link::{Credit, Link, LinkEvent};
use mgcomp_transport::memory::HostBuffer;
use mgcomp_transport::message::{Address, Limits, Rank, Secret, Tag};
use mgcomp_transport::node::{Handle, Node, NodeConfig, PeerState};
use mgcomp_transport::region::{Access, RegionError};
use mgcomp_transport::session::{SessionError, TransferError};

type Result<T> = std::result::Result<T, Box<dyn Error>>;

/// Nothing takes this long unless it hangs.
const HANGS: Duration = Duration::from_secs(100);
const LEN: usize = 300_000;

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [scenario, link] = &arguments[..] else {
        eprintln!("usage: host_program SCENARIO LINK");
        return ExitCode::from(2);
    };
    let result = match scenario.as_str() {
        "fork" => fork_often(link),
        "signals" => wait_for_signals(link),
        "pipe" => lose_peers_without_a_signal(link),
        "threads" => come_and_go(link),
        "stalled" => leave_a_stalled_peer(link),
        "one-core" => stay_on_one_core(link),
        "no-codec-threads" => do_without_codec_threads(link),
        "usual-threads" => count_usual_threads(link),
        "large" => move_more_than_4_gib(link),
        _ => Err("no such scenario".into()),
    };
    match result {
        Ok(word) => println!("OK {word}"),
        Err(error) => println!("{error}"),
    }
    ExitCode::SUCCESS
}

/// Children of a busy process can do nothing with its nodes, and do it at once; the process goes on.
fn fork_often(kind: &str) -> Result<String> {
    let nodes = Arc::new(pair(kind, &NodeConfig::default())?);
    let stop = Arc::new(AtomicBool::new(false));
    let (busy, until) = (nodes.clone(), stop.clone());
    // Forks come while threads are anywhere.
    let worker = thread::spawn(move || {
        while !until.load(Ordering::SeqCst) {
            exchange(&busy).map_err(|error| error.to_string())?;
        }
        Ok::<_, String>(())
    });
    // Nobody else has these: a child that drops them drops all that there is of them.
    let owned = pair(kind, &NodeConfig::default())?;
    let [world, other] = pair(kind, &NodeConfig::default())?.map(Communicator::world);
    let (mut meeting, met) = (world.start_barrier(), world.start_barrier());
    let mut pending = nodes[0].receive(Rank(1), Tag(99), HostBuffer::zeroed(8).all());
    for _ in 0..40 {
        // SAFETY: the child does what any program might with the nodes, then leaves without ado.
        match unsafe { libc::fork() } {
            -1 => return Err(std::io::Error::last_os_error().into()),
            0 => {
                let wrong = in_child(&nodes[0], &mut pending, &world, (&mut meeting, met));
                drop((owned, meeting, world, other));
                // SAFETY: ends the child at once.
                unsafe { libc::_exit(wrong) }
            }
            child => wait_for_child(child)?,
        }
        thread::sleep(Duration::from_millis(3));
    }
    stop.store(true, Ordering::SeqCst);
    worker.join().map_err(|_| "the worker panicked")??;
    for _ in 0..3 {
        exchange(&nodes)?;
        exchange(&owned)?;
    }
    for meeting in [meeting, met] {
        other.barrier()?;
        meeting.wait()?;
    }
    Ok(String::new())
}

/// What a child finds: 0, or the number of what is wrong.
fn in_child(
    node: &Node,
    pending: &mut Handle,
    world: &Communicator,
    (meeting, met): (&mut CollectiveRequest, CollectiveRequest),
) -> i32 {
    let slice = || HostBuffer::zeroed(8).all();
    let forked = PeerState::Over(SessionError::Forked);
    let refused = CommunicatorError::Transfer(TransferError::Forked);
    let found = [
        node.read(Rank(1), Address::new(0, 0), slice()).wait() == Err(TransferError::Forked),
        node.send(Rank(1), Tag(1), slice(), Element::U8).wait() == Err(TransferError::Forked),
        pending.is_finished() && pending.wait_for(HANGS) == Some(Err(TransferError::Forked)),
        matches!(node.register(slice(), Element::U8, Access::all()), Err(RegionError::Forked)),
        node.peer_state(Rank(1)) == Some(forked.clone()),
        node.wait_for_peers(HANGS) == [(Rank(1), forked)],
        node.stats().total().transfers == 0 && node.decisions().is_empty(),
        meeting.is_finished() && met.wait() == Err(refused.clone()),
        world.barrier() == Err(refused.clone()) && world.start_barrier().wait() == Err(refused.clone()),
        matches!(world.split(Some(0), 0), Err(error) if error == refused),
    ];
    node.disconnect(Rank(1));
    found.iter().position(|&right| !right).map_or(0, |i| i as i32 + 1)
}

fn wait_for_child(child: i32) -> Result<()> {
    let started = Instant::now();
    let mut status = 0;
    // SAFETY: `status` is there to be written to.
    while unsafe { libc::waitpid(child, &raw mut status, libc::WNOHANG) } == 0 {
        if started.elapsed() > HANGS {
            return Err("a child hangs".into());
        }
        thread::sleep(Duration::from_millis(1));
    }
    if status == 0 { Ok(()) } else { Err(format!("a child ended with status {status:#x}").into()) }
}

/// Peers go while much is being sent to them: this process gets errors and no signal.
fn lose_peers_without_a_signal(kind: &str) -> Result<String> {
    // SAFETY: sets how signals are handled, before there are other threads.
    unsafe { libc::signal(libc::SIGPIPE, libc::SIG_DFL) };
    let mut lost = 0;
    for round in 0..30u64 {
        let [node, peer] = pair(kind, &NodeConfig::default())?;
        let source = HostBuffer::from(bytes(Kind::Dense, 8 << 20, round));
        let slot = peer.register(HostBuffer::zeroed(8 << 20).all(), Element::U8, Access::all())?;
        let writes: Vec<_> = (0..4).map(|_| node.write(Rank(1), source.all(), Element::U8, slot)).collect();
        thread::sleep(Duration::from_micros(200 * round));
        drop(peer);
        lost += writes.into_iter().filter_map(|write| write.wait().err()).count();
        let _ = node.write(Rank(1), source.all(), Element::U8, slot).wait();
    }
    if lost == 0 { Err("no write was cut short: nothing was tested".into()) } else { Ok(String::new()) }
}

/// Signals for the process come to the thread that waits for them, whatever threads there are beside it.
fn wait_for_signals(kind: &str) -> Result<String> {
    let nodes = pair(kind, &NodeConfig { codec_threads: 3, ..NodeConfig::default() })?;
    exchange(&nodes)?;
    let [world, other] = nodes.map(Communicator::world);
    let begun = world.start_barrier();
    let workers = Workers::new(3)?;
    // Only now: threads that are there already do not learn of it, and one that took the signal would end the process.
    // SAFETY: a set of signals is plain numbers, which the calls write and read.
    unsafe {
        let mut awaited: libc::sigset_t = std::mem::zeroed();
        for signal in [libc::SIGUSR1, libc::SIGTERM, libc::SIGALRM] {
            libc::sigemptyset(&raw mut awaited);
            libc::sigaddset(&raw mut awaited, signal);
            libc::pthread_sigmask(libc::SIG_BLOCK, &raw const awaited, std::ptr::null_mut());
            libc::kill(libc::getpid(), signal);
            let limit = libc::timespec { tv_sec: HANGS.as_secs().try_into()?, tv_nsec: 0 };
            let found = libc::sigtimedwait(&raw const awaited, std::ptr::null_mut(), &raw const limit);
            if found != signal {
                return Err(format!("waited for signal {signal}, found {found}").into());
            }
        }
    }
    drop(workers);
    other.barrier()?;
    begun.wait()?;
    Ok(String::new())
}

/// Nodes and communicators that come and go leave no thread behind.
fn come_and_go(kind: &str) -> Result<String> {
    let before = threads()?;
    for _ in 0..10 {
        let nodes = pair(kind, &NodeConfig { codec_threads: 3, ..NodeConfig::default() })?;
        exchange(&nodes)?;
        if threads()? < before + 6 {
            return Err("codec threads are missing".into());
        }
        drop(nodes);
        expect_threads(before)?;
    }
    start_and_go(kind)?;
    expect_threads(before)?;
    Ok(String::new())
}

/// Neither do their communicators, whether anybody waits for what they have started or not.
fn start_and_go(kind: &str) -> Result<()> {
    let [world, other] = pair(kind, &NodeConfig::default())?.map(Communicator::world);
    let waited_for = world.start_barrier();
    drop(world.start_barrier());
    drop(other.start_barrier());
    other.start_barrier().wait()?;
    waited_for.wait()?;
    // The other one takes part in none of these, and is there all the while.
    let pending: Vec<_> = (0..1000).map(|_| world.start_barrier()).collect();
    expect("threads of collectives", 1, collective_threads)?;
    drop((pending, world.start_barrier(), world.start_barrier()));
    drop(world);
    expect("threads of collectives", 0, collective_threads)?;
    drop(other);
    Ok(())
}

/// A node and its communicator can be dropped in bounded time though the peer takes nothing of what it is sent.
fn leave_a_stalled_peer(kind: &str) -> Result<String> {
    let before = threads()?;
    let mut links = links(kind)?;
    let mut stalled = links.pop().ok_or("two links")?;
    // Everything that comes is kept as if nobody had looked at it.
    let (keep, kept) = mpsc::channel::<Credit>();
    let (met, meets) = mpsc::channel();
    stalled.start(Arc::new(move |event| {
        if let LinkEvent::Message { credit, .. } = event {
            let _ = keep.send(credit);
            let _ = met.send(());
        }
    }))?;
    let world = Communicator::world(node(links.pop().ok_or("two links")?, &NodeConfig::default())?);
    let node = world.node();
    stalled.send(Rank(0), greeting())?;
    meets.recv_timeout(HANGS)?;
    for (peer, state) in node.wait_for_peers(HANGS) {
        if state != PeerState::Open {
            return Err(format!("rank {peer}: {state:?}").into());
        }
    }
    let source = HostBuffer::zeroed(200 << 20);
    let write = node.write(Rank(1), source.all(), Element::U8, Address::new(0, 0));
    drop(world.start_barrier());
    thread::sleep(Duration::from_millis(300));
    let started = Instant::now();
    drop(world);
    let took = started.elapsed();
    if write.wait().is_ok() {
        return Err("a write to a peer that answers nothing went well".into());
    }
    if took > HANGS {
        return Err(format!("dropping the node took {took:?}").into());
    }
    drop(stalled);
    drop(kept);
    expect_threads(before)?;
    Ok(String::new())
}

/// As many codec threads by default as there are cores to run on, and none runs on another.
fn stay_on_one_core(kind: &str) -> Result<String> {
    // SAFETY: a set of cores is plain numbers, and the call reads as many bytes as it has.
    unsafe {
        let mut cores: libc::cpu_set_t = std::mem::zeroed();
        libc::CPU_SET(usize::try_from(libc::sched_getcpu())?, &mut cores);
        if libc::sched_setaffinity(0, size_of::<libc::cpu_set_t>(), &raw const cores) != 0 {
            return Err(std::io::Error::last_os_error().into());
        }
    }
    let config = NodeConfig::default();
    if config.codec_threads != 1 {
        return Err(format!("{} codec threads for one core", config.codec_threads).into());
    }
    let nodes = pair(kind, &config)?;
    exchange(&nodes)?;
    let allowed = |status: String| status.lines().find(|l| l.starts_with("Cpus_allowed:")).map(str::to_owned);
    let own = allowed(std::fs::read_to_string("/proc/self/status")?);
    for task in std::fs::read_dir("/proc/self/task")? {
        if allowed(std::fs::read_to_string(task?.path().join("status"))?) != own {
            return Err("a thread may run where the program may not".into());
        }
    }
    Ok(String::new())
}

/// Without codec threads everything works, and there are none.
fn do_without_codec_threads(kind: &str) -> Result<String> {
    let nodes = pair(kind, &NodeConfig { codec_threads: 0, ..NodeConfig::default() })?;
    exchange(&nodes)?;
    match threads_named("mgcomp-codec")? {
        0 => Ok(String::new()),
        found => Err(format!("there are {found} codec threads").into()),
    }
}

/// Codec threads that a node starts by itself; those of two nodes are counted.
fn count_usual_threads(kind: &str) -> Result<String> {
    let nodes = pair(kind, &NodeConfig::default())?;
    exchange(&nodes)?;
    // A thread that has not run yet has the program's name.
    let (started, own) = (Instant::now(), std::fs::read_to_string("/proc/self/comm")?);
    while threads_named(own.trim_end())? > 1 {
        if started.elapsed() > HANGS {
            return Err("some threads have no name of their own".into());
        }
        thread::sleep(Duration::from_millis(5));
    }
    match threads_named("mgcomp-codec")? {
        found if found % 2 != 0 => Err(format!("two nodes have {found} codec threads").into()),
        found => Ok((found / 2).to_string()),
    }
}

/// One transfer of 4 GiB and 3 bytes, from memory of which almost all is never touched.
fn move_more_than_4_gib(kind: &str) -> Result<String> {
    const BYTES: usize = (4 << 30) + 3;
    const STRIDE: usize = (1 << 20) + 4093;
    let available = std::fs::read_to_string("/proc/meminfo")?
        .lines()
        .find_map(|line| line.strip_prefix("MemAvailable:")?.trim().strip_suffix(" kB")?.parse::<u64>().ok());
    if available.is_none_or(|kib| kib < 8 << 20) {
        return Ok(format!("SKIPPED: 8 GiB of memory are needed, {available:?} KiB are available"));
    }
    let mark = |i: usize| (i * 37 + 11) as u8;
    let source = HostBuffer::zeroed(BYTES);
    source.all().write(|bytes| {
        (0..BYTES).step_by(STRIDE).for_each(|i| bytes[i] = mark(i / STRIDE));
        (BYTES - 3..BYTES).for_each(|i| bytes[i] = 0xa0 | (i % 7) as u8);
    });
    let expected = source.all().read(hash);
    let last: Vec<u8> = (BYTES - 3..BYTES).map(|i| 0xa0 | (i % 7) as u8).collect();
    let copy = HostBuffer::zeroed(BYTES);
    let check = |what: &str, moved: u64| {
        let found = copy.all().read(hash);
        let ends = copy.all().read(|bytes| (bytes[0], bytes[BYTES - 3..].to_vec()));
        if (moved, found, &ends) != (BYTES as u64, expected, &(mark(0), last.clone())) {
            return Err(format!(
                "{what}: {moved} bytes, hash {found:#x} instead of {expected:#x}, ends {ends:?}"
            ));
        }
        copy.all().write(|bytes| bytes.fill(0xee));
        Ok(())
    };
    let nodes = pair(kind, &NodeConfig::default())?;
    let address = nodes[1].register(source.all(), Element::U8, Access::read_only())?;
    check("read", nodes[0].read(Rank(1), address, copy.all()).wait()?)?;
    let address = nodes[1].register(copy.all(), Element::U8, Access::all())?;
    check("write", nodes[0].write(Rank(1), source.all(), Element::U8, address).wait()?)?;
    let received = nodes[1].receive(Rank(0), Tag(1), copy.all());
    nodes[0].send(Rank(1), Tag(1), source.all(), Element::U8).wait()?;
    check("send", received.wait()?)?;
    Ok(format!("{BYTES} bytes"))
}

/// A number that depends on every byte and its place.
fn hash(bytes: &[u8]) -> u64 {
    let (words, rest) = bytes.as_chunks();
    let mut last = [0; 8];
    last[..rest.len()].copy_from_slice(rest);
    let mut hash = bytes.len() as u64;
    // A loop of its own: there are half a milliard of them, and tests are hardly optimised.
    for word in words {
        hash = (hash.rotate_left(5) ^ u64::from_le_bytes(*word)).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    }
    (hash.rotate_left(5) ^ u64::from_le_bytes(last)).wrapping_mul(0x9e37_79b9_7f4a_7c15)
}

/// Bytes go to and fro, and are what they were.
fn exchange(nodes: &[Node; 2]) -> Result<()> {
    let data = bytes(Kind::Mixed, LEN, 7);
    let source = HostBuffer::from(data.clone());
    for (from, to) in [(&nodes[0], Rank(1)), (&nodes[1], Rank(0))] {
        let back = HostBuffer::zeroed(LEN);
        from.write(to, source.all(), Element::U32, Address::new(0, 0)).wait()?;
        from.read(to, Address::new(0, 0), back.all()).wait()?;
        if back.all().to_vec() != data {
            return Err("what came back is not what was written".into());
        }
    }
    Ok(())
}

/// Two ranks that have met, each with a region to write to.
fn pair(kind: &str, config: &NodeConfig) -> Result<[Node; 2]> {
    let nodes = links(kind)?.into_iter().map(|link| node(link, config)).collect::<Result<Vec<_>>>()?;
    for node in &nodes {
        for (peer, state) in node.wait_for_peers(HANGS) {
            if state != PeerState::Open {
                return Err(format!("rank {peer}: {state:?}").into());
            }
        }
    }
    nodes.try_into().map_err(|_| "two nodes".into())
}

fn node(link: Box<dyn Link>, config: &NodeConfig) -> Result<Node> {
    let policy = "fixed:zvc".parse::<PolicySpec>()?.build(&Steering::default());
    let config = NodeConfig { secret: secret(), silence_timeout: HANGS, ..config.clone() };
    let mut regions = mgcomp_transport::region::RegionTable::default();
    regions.register(HostBuffer::zeroed(LEN).all(), Element::U32, Access::all())?;
    Ok(Node::start_with(link, policy, config, regions)?)
}

/// The ends of ranks 0 and 1.
fn links(kind: &str) -> Result<Vec<Box<dyn Link>>> {
    let limits: Limits = NodeConfig::default().limits;
    match kind {
        "loopback" => Ok(Loopback::fabric(2, None)?.into_iter().map(|end| Box::new(end) as _).collect()),
        "tcp" => {
            let listeners = [Tcp::bind("127.0.0.1:0")?, Tcp::bind("127.0.0.1:0")?];
            let addresses =
                listeners.iter().map(|l| Ok(l.local_addr()?.to_string())).collect::<Result<_>>()?;
            let rank_file = RankFile { secret: secret(), addresses };
            let config = TcpConfig { connect_timeout: HANGS, ..TcpConfig::new(limits) };
            let end =
                |(rank, listener)| Ok(Box::new(Tcp::new(listener, rank_file.clone(), rank, config)?) as _);
            (0..).map(Rank).zip(listeners).map(end).collect()
        }
        "shm" => {
            static JOBS: AtomicU64 = AtomicU64::new(0);
            let name = format!("host-{}-{}", std::process::id(), JOBS.fetch_add(1, Ordering::SeqCst));
            let job = ShmJob::new(secret(), 2).named(&name);
            let end = |rank| Ok(Box::new(Shm::new(job.clone(), Rank(rank), ShmConfig::new(limits))?) as _);
            (0..2).map(end).collect()
        }
        _ => Err(format!("no link {kind:?}").into()),
    }
}

/// Another in each process.
fn secret() -> Secret {
    Secret::new(u128::from(std::process::id()).to_le_bytes())
}

/// The hello of rank 1.
fn greeting() -> mgcomp_transport::link::Message {
    use mgcomp_codecs::{AlgorithmSet, ElementSet};
    use mgcomp_transport::message::{Greeting, Header, Hello};

    let greeting = Greeting {
        secret: secret(),
        rank: Rank(1),
        ranks: 2,
        limits: NodeConfig::default().limits,
        algorithms: AlgorithmSet::from_iter([mgcomp_codecs::Algorithm::None]),
        elements: ElementSet::all(),
    };
    let payload = mgcomp_transport::payload::Payload::empty();
    mgcomp_transport::link::Message { header: Header::Hello(Hello::Greeting(greeting)), payload }
}

fn threads() -> Result<usize> {
    Ok(std::fs::read_dir("/proc/self/task")?.count())
}

/// Those that carry out what communicators have started.
fn collective_threads() -> Result<usize> {
    threads_named("mgcomp-collect")
}

/// Those whose names begin so.
fn threads_named(start: &str) -> Result<usize> {
    let mut found = 0;
    for task in std::fs::read_dir("/proc/self/task")? {
        // One that ends just now has no name any more.
        let name = std::fs::read_to_string(task?.path().join("comm")).unwrap_or_default();
        found += usize::from(name.starts_with(start));
    }
    Ok(found)
}

fn expect_threads(expected: usize) -> Result<()> {
    expect("threads", expected, threads)
}

/// A thread that was joined may be seen for a moment longer.
fn expect(what: &str, expected: usize, count: fn() -> Result<usize>) -> Result<()> {
    let started = Instant::now();
    while count()? != expected {
        if started.elapsed() > HANGS {
            return Err(format!("{} {what} instead of {expected}", count()?).into());
        }
        thread::sleep(Duration::from_millis(1));
    }
    Ok(())
}

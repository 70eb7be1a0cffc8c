//! Makes the links under test.

use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

#[cfg(feature = "cuda")]
use mgcomp_transport::link::cuda::Cuda;
#[cfg(all(feature = "cuda", target_os = "linux"))]
use mgcomp_transport::link::cuda::ipc::{CudaIpc, CudaIpcConfig};
use mgcomp_transport::link::loopback::Loopback;
use mgcomp_transport::link::shm::{Shm, ShmConfig, ShmJob};
use mgcomp_transport::link::tcp::{Connections, RankFile, Tcp, TcpConfig};
use mgcomp_transport::link::{Link, Shaping};
use mgcomp_transport::message::{Limits, Rank};

use super::{HANGS, LIMITS, SECRET};

/// The ends of all ranks, in order.
pub(crate) type Links = Vec<Box<dyn Link>>;

/// A kind of link: makes the ends of all ranks, each of which queues that many bytes for a peer.
#[derive(Clone, Copy)]
pub(crate) struct Fabric {
    make: fn(ranks: u32, queue_bytes: u64, fabric: Fabric) -> Links,
    limits: Limits,
    pub(crate) shaping: Option<Shaping>,
    /// Of each two ranks, over TCP.
    connections: Connections,
    /// The parts that collectives cut into.
    pub(crate) part_bytes: usize,
    /// Whether it takes a turn of both sides for every few KiB, or for every message of more.
    pub(crate) is_slow: bool,
    /// Whether what the link needs is there; says SKIPPED otherwise.
    is_possible: fn() -> bool,
}

impl Fabric {
    /// Links that something else makes.
    pub(crate) fn of(make: fn(u32, u64, Fabric) -> Links) -> Self {
        Self {
            make,
            limits: LIMITS,
            shaping: None,
            connections: Connections::ONE,
            part_bytes: 512 << 10,
            is_slow: false,
            is_possible: || true,
        }
    }

    pub(crate) fn loopback() -> Self {
        Self::of(make_loopback)
    }

    pub(crate) fn tcp() -> Self {
        Self { part_bytes: 192 << 10, ..Self::of(make_tcp) }
    }

    /// Over so many TCP connections.
    pub(crate) fn over(self, connections: u32) -> Self {
        Self { connections: Connections::try_new(connections).unwrap(), ..self }
    }

    /// Ranks under mpirun that call MPI from any thread.
    #[cfg(feature = "mpi")]
    pub(crate) fn mpi_multiple() -> Self {
        Self { is_slow: true, is_possible: super::mpi::launch::is_possible, ..Self::of(make_mpi::<true>) }
    }

    /// Ranks under mpirun that call MPI from one thread only.
    #[cfg(feature = "mpi")]
    pub(crate) fn mpi_funneled() -> Self {
        Self { is_slow: true, is_possible: super::mpi::launch::is_possible, ..Self::of(make_mpi::<false>) }
    }

    /// Ranks without devices: what the link does with them is the same but for payloads on a device.
    #[cfg(feature = "cuda")]
    pub(crate) fn cuda() -> Self {
        Self::of(make_cuda)
    }

    /// As [`cuda`](Self::cuda), of ranks that could be processes.
    #[cfg(all(feature = "cuda", target_os = "linux"))]
    pub(crate) fn cuda_ipc() -> Self {
        Self::of(make_cuda_ipc)
    }

    pub(crate) fn shm() -> Self {
        Self::of(make_shm)
    }

    /// As [`shm`](Self::shm), with rings that hold next to nothing, and threads that sleep at once.
    pub(crate) fn shm_tight() -> Self {
        Self { is_slow: true, ..Self::of(make_tight_shm) }
    }

    pub(crate) fn shaped(self, rate_gbps: f64, latency_us: u64) -> Self {
        let shaping = Shaping::try_new(rate_gbps, Duration::from_micros(latency_us)).unwrap();
        Self { shaping: Some(shaping), ..self }
    }

    pub(crate) fn is_possible(self) -> bool {
        (self.is_possible)()
    }

    /// A link that takes messages of a gibibyte.
    pub(crate) fn taking_1_gib(self) -> Self {
        let max_transfer_bytes = 1 << 30;
        Self { limits: Limits { max_transfer_bytes, ..LIMITS }, ..self }
    }

    pub(crate) fn links(self, ranks: u32, queue_bytes: u64) -> Links {
        (self.make)(ranks, queue_bytes, self)
    }
}

#[cfg(feature = "mpi")]
fn make_mpi<const MULTIPLE: bool>(ranks: u32, queue_bytes: u64, fabric: Fabric) -> Links {
    super::mpi::remote::links(MULTIPLE, ranks, queue_bytes, fabric.limits)
}

fn make_loopback(ranks: u32, queue_bytes: u64, fabric: Fabric) -> Links {
    let ends = Loopback::fabric_with_queue(ranks, fabric.shaping, queue_bytes).unwrap();
    ends.into_iter().map(|end| Box::new(end) as _).collect()
}

#[cfg(feature = "cuda")]
fn make_cuda(ranks: u32, queue_bytes: u64, _: Fabric) -> Links {
    let ends = Cuda::fabric_with_queue(vec![None; ranks as usize], queue_bytes).unwrap();
    ends.into_iter().map(|end| Box::new(end) as _).collect()
}

#[cfg(all(feature = "cuda", target_os = "linux"))]
fn make_cuda_ipc(ranks: u32, queue_bytes: u64, fabric: Fabric) -> Links {
    let job = shm_job(ranks);
    let shm = ShmConfig { queue_bytes, ..shm_config(fabric.limits) };
    let config = CudaIpcConfig { shm, ..CudaIpcConfig::new(fabric.limits) };
    let link = |rank| CudaIpc::new(job.clone(), Rank(rank), None, config).unwrap();
    (0..ranks).map(link).map(|link| Box::new(link) as _).collect()
}

fn make_tcp(ranks: u32, queue_bytes: u64, fabric: Fabric) -> Links {
    let listeners: Vec<_> = (0..ranks).map(|_| Tcp::bind("127.0.0.1:0").unwrap()).collect();
    let addresses = listeners.iter().map(|listener| listener.local_addr().unwrap().to_string()).collect();
    let rank_file = RankFile { secret: SECRET, addresses };
    let Fabric { limits, connections, shaping, .. } = fabric;
    let config = TcpConfig { limits, connections, ..tcp_config(queue_bytes, shaping) };
    let link = |(rank, listener)| Tcp::new(listener, rank_file.clone(), rank, config).unwrap();
    (0..).map(Rank).zip(listeners).map(link).map(|link| Box::new(link) as _).collect()
}

fn make_shm(ranks: u32, queue_bytes: u64, fabric: Fabric) -> Links {
    make_shm_with(ranks, ShmConfig { queue_bytes, shaping: fabric.shaping, ..shm_config(fabric.limits) })
}

fn make_tight_shm(ranks: u32, queue_bytes: u64, fabric: Fabric) -> Links {
    let (ring_bytes, awake, shaping) = (Some(4096), Duration::ZERO, fabric.shaping);
    make_shm_with(ranks, ShmConfig { queue_bytes, shaping, ring_bytes, awake, ..shm_config(fabric.limits) })
}

fn make_shm_with(ranks: u32, config: ShmConfig) -> Links {
    let job = shm_job(ranks);
    (0..ranks).map(|rank| Box::new(Shm::new(job.clone(), Rank(rank), config).unwrap()) as _).collect()
}

/// A job that no other test has.
pub(crate) fn shm_job(ranks: u32) -> ShmJob {
    static JOBS: AtomicU32 = AtomicU32::new(0);
    let number = JOBS.fetch_add(1, Ordering::Relaxed);
    ShmJob::new(SECRET, ranks).named(&format!("test-{}-{number}", std::process::id()))
}

pub(crate) fn shm_config(limits: Limits) -> ShmConfig {
    // Who comes late on a busy machine is waited for.
    ShmConfig { connect_timeout: HANGS, ..ShmConfig::new(limits) }
}

pub(crate) fn tcp_config(queue_bytes: u64, shaping: Option<Shaping>) -> TcpConfig {
    // The same.
    TcpConfig { queue_bytes, shaping, connect_timeout: HANGS, ..TcpConfig::new(LIMITS) }
}

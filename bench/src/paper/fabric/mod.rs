//! The system that the paper models in section VI: four GPUs and a CPU on one bus.
//!
//! * The bus takes 20 bytes per cycle of 1 ns, one message at a time, for whole cycles.
//! * It goes round robin over the CPU and the GPUs. Traces and generators hold what GPUs say to each other, so the CPU
//!   never has anything to send.
//! * A message goes when its receiver's input buffer has room for it.
//! * Traces hold payloads; their Read requests and Write-ACKs are added here.
//! * A GPU sends its next request as soon as fewer than `outstanding` are unanswered. Time stamps of traces are those of
//!   another fabric, without a shared bus, and the paper tells nothing of the time between requests; so there is
//!   no computation to hide a transfer, and time is that of the fabric alone.
//!
//! Time goes from event to event, not from cycle to cycle; what happens is the same.

mod codec;
mod energy;
mod gpu;
mod message;

use mgcomp_selector::Policy;

use super::transfer::{GPUS, Kind};
use super::workload::Sized;
pub(super) use codec::CODECS;
pub(super) use energy::Distance;
use gpu::Gpu;
use message::{Message, bus_cycles};

/// The CPU and the GPUs.
const PORTS: usize = GPUS + 1;

/// What the paper leaves open.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct System {
    /// Requests of a GPU that may be unanswered.
    pub(super) outstanding: u32,
    /// From the arrival of a request to its answer.
    pub(super) memory_cycles: u64,
}

/// What a run came to.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Outcome {
    /// From the first request to the last answer.
    pub(super) cycles: u64,
    /// Cycles in which the bus was busy.
    pub(super) bus_cycles: u64,
    /// All messages, headers included.
    pub(super) fabric_bytes: u64,
    /// Payloads before compression.
    pub(super) raw_bytes: u64,
    /// Payloads as they went.
    pub(super) payload_bytes: u64,
    /// Payloads by algorithm number.
    pub(super) sent: [u64; 4],
    /// Lines that BDI, FPC and C-Pack+Z compressed, in samples and in vain as well.
    pub(super) compressed_lines: [u64; 3],
    pub(super) decompressed_lines: [u64; 3],
}

/// Which transfers each GPU asks for, in order.
#[derive(Debug)]
pub(super) struct Requests([Vec<u32>; GPUS]);

impl Requests {
    pub(super) fn of(transfers: &[Sized]) -> Self {
        let mut requests = [const { Vec::new() }; GPUS];
        for (number, transfer) in transfers.iter().enumerate() {
            let asker = match transfer.kind {
                Kind::Read => transfer.to,
                Kind::Write => transfer.from,
            };
            requests[usize::from(asker)].push(number as u32);
        }
        Self(requests)
    }
}

/// Moves all transfers; `policy` makes each GPU its own.
pub(super) fn simulate(
    transfers: &[Sized],
    requests: &Requests,
    system: System,
    policy: impl Fn() -> Box<dyn Policy>,
) -> Outcome {
    let gpus = std::array::from_fn(|i| Gpu::new(i as u8, system, transfers, &requests.0[i], policy()));
    let mut fabric = Fabric { gpus, wake: [0; GPUS], next_port: 0, bus: None, outcome: Outcome::default() };
    let mut now = 0;
    while let Some(next) = fabric.step(now) {
        now = next;
    }
    assert!(fabric.gpus.iter().all(Gpu::is_done), "a request was never answered");
    Outcome { cycles: now, ..fabric.outcome }
}

struct Fabric<'a> {
    gpus: [Gpu<'a>; GPUS],
    /// When each GPU has something to do.
    wake: [u64; GPUS],
    /// Whose turn it is: 0 is the CPU.
    next_port: usize,
    /// The message on the bus, and when it is over.
    bus: Option<(u64, Message)>,
    outcome: Outcome,
}

impl Fabric<'_> {
    /// All that happens at `now`; when something happens next, if ever.
    fn step(&mut self, now: u64) -> Option<u64> {
        if let Some((end, message)) = self.bus
            && end <= now
        {
            let to = usize::from(message.to);
            self.gpus[to].input.fill(message);
            (self.wake[to], self.bus) = (now, None);
        }
        for (gpu, wake) in self.gpus.iter_mut().zip(&mut self.wake) {
            if *wake <= now {
                *wake = gpu.advance(now, &mut self.outcome);
            }
        }
        if self.bus.is_none()
            && let Some((gpu, message)) = self.arbitrate()
        {
            let cycles = bus_cycles(message.bytes);
            self.outcome.bus_cycles += cycles;
            self.outcome.fabric_bytes += u64::from(message.bytes);
            self.bus = Some((now + cycles, message));
            if self.gpus[gpu].waits_for_room(now) {
                self.wake[gpu] = self.gpus[gpu].advance(now, &mut self.outcome);
            }
        }
        let over = self.bus.map_or(u64::MAX, |(end, _)| end);
        let next = self.wake.iter().fold(over, |next, &wake| next.min(wake));
        (next < u64::MAX).then_some(next)
    }

    /// Takes a message from the next port that has one for which there is room.
    fn arbitrate(&mut self) -> Option<(usize, Message)> {
        for turn in 0..PORTS {
            let port = (self.next_port + turn) % PORTS; // 0 is the CPU, which has nothing to send
            let Some(gpu) = port.checked_sub(1) else { continue };
            let Some(&message) = self.gpus[gpu].output.front() else { continue };
            let input = &mut self.gpus[usize::from(message.to)].input;
            if input.has_room(&message) {
                input.reserve(&message);
                self.gpus[gpu].output.pop();
                self.next_port = (port + 1) % PORTS;
                return Some((gpu, message));
            }
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use mgcomp_codecs::Algorithm;
    use mgcomp_selector::{Fixed, Lambda, Paper};

    use super::super::generate::Bench;
    use super::super::workload::Workload;
    use super::*;

    const SYSTEM: System = System { outstanding: 64, memory_cycles: 100 };

    fn transfer(kind: Kind, from: u8, to: u8, bits: u16) -> Sized {
        Sized { kind, from, to, raw_bytes: 64, bits: [bits; 3] }
    }

    fn run(transfers: &[Sized], system: System, algorithm: Algorithm) -> Outcome {
        let fixed = Fixed::try_new(algorithm).unwrap();
        simulate(transfers, &Requests::of(transfers), system, || Box::new(fixed))
    }

    #[test]
    fn a_read_alone_by_hand() {
        let read = [transfer(Kind::Read, 0, 1, 180)];
        // Request 0 to 1, memory to 101, 68 bytes to 105.
        let raw = run(&read, SYSTEM, Algorithm::None);
        assert_eq!((raw.cycles, raw.bus_cycles, raw.fabric_bytes), (105, 5, 16 + 4 + 64));
        // BDI: memory to 101, compressed at 103, 27 bytes to 105, decompressed at 106.
        let bdi = run(&read, SYSTEM, Algorithm::Bdi);
        assert_eq!((bdi.cycles, bdi.bus_cycles, bdi.fabric_bytes), (106, 3, 16 + 4 + 23));
        assert_eq!(
            (bdi.sent, bdi.compressed_lines, bdi.decompressed_lines),
            ([0, 1, 0, 0], [1, 0, 0], [1, 0, 0])
        );
        // C-Pack+Z: 101 + 16 + 2 + 9.
        assert_eq!(run(&read, SYSTEM, Algorithm::CpackZ).cycles, 128);
    }

    #[test]
    fn three_messages_share_the_bus_in_turn() {
        // GPU 1 writes to GPU 3 while GPU 0 reads from GPU 1, and there is no memory to wait for.
        let transfers = [transfer(Kind::Write, 1, 3, 512), transfer(Kind::Read, 1, 0, 512)];
        let system = System { memory_cycles: 0, ..SYSTEM };
        // GPU 0 is first: its request 0 to 1. GPU 1's write 1 to 5, and its answer waits behind it. At 5
        // it is GPU 3's turn: its Write-ACK 5 to 6. Then the answer, 6 to 10.
        let outcome = run(&transfers, system, Algorithm::None);
        assert_eq!((outcome.cycles, outcome.bus_cycles), (10, 10));
        assert_eq!(outcome.fabric_bytes, (16 + 68) + (77 + 4));
    }

    #[test]
    fn one_outstanding_request_is_one_after_the_other() {
        let reads = [transfer(Kind::Read, 0, 1, 512); 10];
        let one = System { outstanding: 1, ..SYSTEM };
        assert_eq!(run(&reads, one, Algorithm::None).cycles, 10 * 105);
        // All requests go out at once; answers follow each other.
        assert_eq!(run(&reads, SYSTEM, Algorithm::None).cycles, 101 + 10 * 4);
    }

    #[test]
    fn a_compressor_takes_one_line_at_a_time() {
        // 16 cycles for each of ten lines, the first at 101; the last takes a cycle on the bus and 9 in the end.
        let reads = [transfer(Kind::Read, 0, 1, 2); 10];
        assert_eq!(run(&reads, SYSTEM, Algorithm::CpackZ).cycles, 101 + 160 + 1 + 9);
        // Two lines in a payload are two one after the other, 128 bits of them and the header a cycle.
        let read = [Sized { raw_bytes: 128, ..transfer(Kind::Read, 0, 1, 128) }];
        assert_eq!(run(&read, SYSTEM, Algorithm::CpackZ).cycles, 101 + 32 + 1 + 18);
    }

    #[test]
    fn full_buffers_stop_nobody_for_good() {
        // Everybody writes long payloads to everybody: far more than buffers hold.
        let long = |from: u8, to: u8| Sized { raw_bytes: 4032, ..transfer(Kind::Write, from, to, 32_256) };
        let transfers: Vec<Sized> =
            (0..400u32).map(|i| long((i % 4) as u8, ((i % 4 + 1 + i / 4 % 3) % 4) as u8)).collect();
        for outstanding in [1, 64, 256] {
            let outcome = run(&transfers, System { outstanding, ..SYSTEM }, Algorithm::CpackZ);
            assert_eq!(outcome.fabric_bytes, 400 * (13 + 4032 + 4));
            assert!(outcome.cycles > 400 * 203);
        }
    }

    #[test]
    fn lambda_orders_traffic_and_time_as_in_the_paper() {
        // All seven benchmarks, sums of what is relative to no compression.
        let sums = [0.0, 6.0, 32.0].map(|lambda| {
            let lambda = Lambda::try_new(lambda).unwrap();
            let mut sums = (0.0, 0.0);
            for bench in Bench::ALL {
                let mut workload = Workload::new(bench.to_string(), Some(bench), false, false);
                bench.generate("0.005".parse().unwrap(), &mut |transfer| workload.push(transfer));
                let requests = Requests::of(&workload.transfers);
                let run = |policy: &dyn Fn() -> Box<dyn Policy>| {
                    simulate(&workload.transfers, &requests, SYSTEM, policy)
                };
                let none = run(&|| Box::new(Fixed::BYPASS));
                let paper = run(&|| Box::new(Paper::new(lambda)));
                sums.0 += paper.fabric_bytes as f64 / none.fabric_bytes as f64;
                sums.1 += paper.cycles as f64 / none.cycles as f64;
            }
            sums
        });
        let [zero, six, many] = sums;
        assert!(zero.0 < six.0 && six.0 < many.0, "traffic {sums:?}");
        assert!(six.1 < many.1 && many.1 < zero.1, "time {sums:?}");
    }
}

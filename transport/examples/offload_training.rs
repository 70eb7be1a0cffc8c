//! A training loop whose activations leave the device in forward and come back in backward.
//!
//! ```text
//! cargo run --release -p mgcomp-transport --example offload_training -- [GB/s] [POLICY]
//! ```
//!
//! Five layers of a convolution with ReLU learn a filter. What a layer was given is offloaded as soon as the layer is done
//! with it, and its memory is overwritten; in backward it is brought back, one layer ahead of the one that needs it. "Device
//! memory" is host memory, and the link is simulated (1 GB/s). Every byte that comes back is compared, and the loop runs
//! raw and compressed in turn: both must learn the same, bit for bit.

use std::env;
use std::error::Error;
use std::time::{Duration, Instant};

use mgcomp_codecs::Element;
use mgcomp_transport::copy::offload::{OffloadConfig, OffloadQueue, OffloadStats, Ticket};
use mgcomp_transport::copy::{CopyConfig, CopyHandle, CopyReport};
use mgcomp_transport::memory::HostBuffer;

const LAYERS: usize = 5;
const TAPS: usize = 5;
/// Floats of an activation: 4 MiB.
const WIDTH: usize = 1 << 20;
const STEPS: usize = 6;
const RATE: f32 = 0.02;
const HOST_BYTES: u64 = 64 << 20;

type Anything = Box<dyn Error>;

fn main() -> Result<(), Anything> {
    let mut arguments = env::args().skip(1);
    let link: f64 = arguments.next().as_deref().unwrap_or("1").parse()?;
    let policy = arguments.next().unwrap_or_else(|| "adaptive".into());
    println!("{STEPS} steps, {LAYERS} layers of {} MiB, simulated link of {link} GB/s", WIDTH >> 18);

    // In turn, so that both see the same machine.
    let mut loops = [Training::new(link, "fixed:none")?, Training::new(link, &policy)?];
    for step in 0..STEPS {
        let losses = loops.each_mut().map(Training::step);
        let [raw, compressed] = losses;
        let (raw, compressed) = (raw?, compressed?);
        if raw.to_bits() != compressed.to_bits() {
            return Err(format!("step {step}: loss {raw} raw, but {compressed} compressed").into());
        }
        println!("step {step}: loss {raw:.5}");
    }
    let [raw, compressed] = loops;
    let stats = compressed.queue.stats();
    raw.report("raw");
    compressed.report(&policy);
    println!("every one of {} bytes came back equal", 2 * stats.raw_bytes);
    let speed_up = raw.took.as_secs_f64() / compressed.took.as_secs_f64();
    println!("speed-up over raw, over a simulated link: {speed_up:.2}");
    Ok(())
}

/// A network in training, and the queue that its activations go through.
struct Training {
    queue: OffloadQueue,
    filters: [[f32; TAPS]; LAYERS],
    input: Vec<f32>,
    target: Vec<f32>,
    took: Duration,
}

/// An activation that is away, and what it should be when it is back.
struct Away {
    ticket: Ticket,
    expected: Vec<u8>,
}

/// An activation on its way back.
struct Coming {
    copy: CopyHandle<CopyReport>,
    buffer: HostBuffer,
    expected: Vec<u8>,
}

impl Training {
    fn new(link: f64, policy: &str) -> Result<Self, Anything> {
        let config = OffloadConfig::new(CopyConfig::simulated(link)?, policy.parse()?, HOST_BYTES);
        let input: Vec<f32> = (0..WIDTH as u32).map(noise).collect();
        let target = convolve(&input, &[0.1, 0.2, 0.4, 0.2, 0.1]);
        let mut filters = [[0.0; TAPS]; LAYERS];
        for (i, tap) in filters.as_flattened_mut().iter_mut().enumerate() {
            *tap = 0.25 + 0.5 * noise(i as u32 + 77);
        }
        Ok(Self { queue: OffloadQueue::start(config)?, filters, input, target, took: Duration::ZERO })
    }

    /// One step; returns the loss before it.
    fn step(&mut self) -> Result<f32, Anything> {
        let mut checking = Duration::ZERO;
        let started = Instant::now();
        let (output, away) = self.forward(&mut checking)?;
        let error: Vec<f32> = output.iter().zip(&self.target).map(|(is, should)| is - should).collect();
        let loss = error.iter().map(|e| e * e).sum::<f32>() / WIDTH as f32;
        self.backward(output, error, away, &mut checking)?;
        self.took += started.elapsed() - checking;
        Ok(loss)
    }

    fn forward(&self, checking: &mut Duration) -> Result<(Vec<f32>, Vec<Away>), Anything> {
        let mut activation = self.input.clone();
        let mut leaving = Vec::new();
        for filter in &self.filters {
            let mut next = convolve(&activation, filter);
            next.iter_mut().for_each(|value| *value = value.max(0.0));
            let bytes = to_bytes(&activation);
            let expected = timed(checking, || bytes.clone());
            let buffer = HostBuffer::from(bytes);
            let ticket = self.queue.offload(buffer.all(), Element::F32)?;
            leaving.push((buffer, Away { ticket, expected }));
            activation = next;
        }
        let mut away = Vec::new();
        for (buffer, layer) in leaving {
            self.queue.wait(layer.ticket)?;
            timed(checking, || buffer.all().write(|bytes| bytes.fill(0xdd))); // it is something else's memory now
            away.push(layer);
        }
        Ok((activation, away))
    }

    fn backward(
        &mut self,
        mut above: Vec<f32>,
        mut gradient: Vec<f32>,
        mut away: Vec<Away>,
        checking: &mut Duration,
    ) -> Result<(), Anything> {
        let mut coming = self.prefetch(away.pop())?;
        for layer in (0..LAYERS).rev() {
            let Some(Coming { copy, buffer, expected }) = coming.take() else {
                return Err("a layer is missing".into());
            };
            coming = self.prefetch(away.pop())?; // on its way while this layer is worked on
            copy.wait()?;
            let bytes = buffer.all().to_vec();
            if timed(checking, || bytes != expected) {
                return Err(format!("layer {layer} came back otherwise").into());
            }
            let below = from_bytes(&bytes);
            for (gradient, above) in gradient.iter_mut().zip(&above) {
                *gradient = if *above > 0.0 { *gradient } else { 0.0 };
            }
            let step = taps_gradient(&below, &gradient);
            let mut mirrored = self.filters[layer];
            mirrored.reverse();
            gradient = convolve(&gradient, &mirrored);
            for (tap, step) in self.filters[layer].iter_mut().zip(step) {
                *tap -= RATE * step / WIDTH as f32;
            }
            above = below;
        }
        Ok(())
    }

    fn prefetch(&self, away: Option<Away>) -> Result<Option<Coming>, Anything> {
        let Some(Away { ticket, expected }) = away else { return Ok(None) };
        let buffer = HostBuffer::zeroed(4 * WIDTH);
        let copy = self.queue.prefetch(ticket, buffer.all())?;
        Ok(Some(Coming { copy, buffer, expected }))
    }

    fn report(&self, name: &str) {
        let OffloadStats { raw_bytes, coded_bytes, peak_bytes, .. } = self.queue.stats();
        let ratio = raw_bytes as f64 / coded_bytes as f64;
        let (took, peak) = (self.took, peak_bytes >> 20);
        println!("{name}: {took:.1?}, ratio {ratio:.2}, at most {peak} MiB of host memory");
    }
}

fn timed<R>(spent: &mut Duration, work: impl FnOnce() -> R) -> R {
    let started = Instant::now();
    let result = work();
    *spent += started.elapsed();
    result
}

/// A number from −1 to 1 that looks like chance.
fn noise(i: u32) -> f32 {
    let mut x = i.wrapping_mul(0x9e37_79b1);
    x ^= x >> 15;
    x = x.wrapping_mul(0x85eb_ca77);
    (x >> 8) as f32 / (1 << 23) as f32 - 1.0
}

/// The values at the edge stay zero.
fn convolve(values: &[f32], filter: &[f32; TAPS]) -> Vec<f32> {
    let mut result = vec![0.0; values.len()];
    for (result, window) in result[TAPS / 2..].iter_mut().zip(values.windows(TAPS)) {
        *result = window.iter().zip(filter).map(|(value, tap)| value * tap).sum();
    }
    result
}

fn taps_gradient(below: &[f32], gradient: &[f32]) -> [f32; TAPS] {
    let mut sums = [0.0; TAPS];
    for (gradient, window) in gradient[TAPS / 2..].iter().zip(below.windows(TAPS)) {
        for (sum, value) in sums.iter_mut().zip(window) {
            *sum += gradient * value;
        }
    }
    sums
}

fn to_bytes(values: &[f32]) -> Vec<u8> {
    values.iter().flat_map(|value| value.to_le_bytes()).collect()
}

fn from_bytes(bytes: &[u8]) -> Vec<f32> {
    bytes.chunks_exact(4).map(|b| f32::from_le_bytes([b[0], b[1], b[2], b[3]])).collect()
}

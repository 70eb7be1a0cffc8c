//! Data-parallel training: every rank has samples of its own, and all ranks move by the mean of their gradients, which
//! travel as bf16. A reduction gives the same bits on every rank, so all models stay the same to the last bit.
//!
//! The head of `ranks/mod.rs` says how to start it.

mod ranks;

use std::process::ExitCode;

use half::bf16;
use mgcomp_codecs::Element;
use mgcomp_transport::communicator::{Communicator, Datatype, Operation};
use mgcomp_transport::memory::HostBuffer;

/// A linear model from INPUTS to OUTPUTS numbers; each rank has SAMPLES of them.
const INPUTS: usize = 32;
const OUTPUTS: usize = 512;
const SAMPLES: usize = 64;
const STEPS: usize = 40;
const RATE: f32 = 0.5;
/// What must be left of the error at first.
const LEAST: f32 = 0.001;

fn main() -> ExitCode {
    ranks::run(train)
}

fn train(world: &Communicator) -> Result<String, ranks::Failure> {
    let inputs = numbers(1000 + u64::from(world.rank()), SAMPLES * INPUTS);
    let targets = apply(&numbers(1, INPUTS * OUTPUTS), &inputs); // of the model that is to be found
    let mut weights = vec![0.0f32; INPUTS * OUTPUTS];
    let (mut first, mut last) = (0.0, 0.0);
    for step in 0..STEPS {
        let errors: Vec<f32> =
            apply(&weights, &inputs).iter().zip(&targets).map(|(is, should)| is - should).collect();
        last = errors.iter().map(|error| error * error).sum::<f32>() / errors.len() as f32;
        if step == 0 {
            first = last;
        }
        let gradient = HostBuffer::from(to_bytes(&gradient(&errors, &inputs)));
        world.all_reduce(&gradient.all(), &gradient.all(), Datatype::Bf16, Operation::Avg)?;
        for (weight, slope) in weights.iter_mut().zip(from_bytes(&gradient.all().to_vec())) {
            *weight -= RATE * slope;
        }
    }
    if last.is_nan() || last > LEAST * first {
        return Err(format!("the error went from {first} to {last} only").into());
    }
    check_same(world, &weights)?;
    Ok(format!("error {first:.3} to {last:.1e} in {STEPS} steps, the same weights on all ranks"))
}

/// Compares the weights of all ranks, bit by bit.
fn check_same(world: &Communicator, weights: &[f32]) -> Result<(), ranks::Failure> {
    let own: Vec<u8> = weights.iter().flat_map(|weight| weight.to_le_bytes()).collect();
    let all = HostBuffer::zeroed(own.len() * world.size() as usize);
    world.all_gather(&HostBuffer::from(own.clone()).all(), &all.all(), Element::F32)?;
    let all = all.all().to_vec();
    match all.chunks_exact(own.len()).position(|other| other != own) {
        Some(rank) => Err(format!("rank {rank} has other weights").into()),
        None => Ok(()),
    }
}

/// What the model of `weights` says of each sample.
fn apply(weights: &[f32], inputs: &[f32]) -> Vec<f32> {
    let mut outputs = vec![0.0; inputs.len() / INPUTS * OUTPUTS];
    for (sample, output) in inputs.chunks_exact(INPUTS).zip(outputs.chunks_exact_mut(OUTPUTS)) {
        for (input, row) in sample.iter().zip(weights.chunks_exact(OUTPUTS)) {
            output.iter_mut().zip(row).for_each(|(output, weight)| *output += input * weight);
        }
    }
    outputs
}

/// The slope of the mean square error.
fn gradient(errors: &[f32], inputs: &[f32]) -> Vec<f32> {
    let mut gradient = vec![0.0; INPUTS * OUTPUTS];
    for (sample, error) in inputs.chunks_exact(INPUTS).zip(errors.chunks_exact(OUTPUTS)) {
        for (input, row) in sample.iter().zip(gradient.chunks_exact_mut(OUTPUTS)) {
            let scale = 2.0 / SAMPLES as f32 * input;
            row.iter_mut().zip(error).for_each(|(slope, error)| *slope += scale * error);
        }
    }
    gradient
}

fn to_bytes(numbers: &[f32]) -> Vec<u8> {
    numbers.iter().flat_map(|&number| bf16::from_f32(number).to_le_bytes()).collect()
}

fn from_bytes(bytes: &[u8]) -> impl Iterator<Item = f32> {
    bytes.chunks_exact(2).map(|pair| bf16::from_le_bytes([pair[0], pair[1]]).to_f32())
}

/// `count` numbers from −1 to 1, by a small generator (xorshift).
fn numbers(seed: u64, count: usize) -> Vec<f32> {
    let mut state = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
    let mut next = || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        (state >> 40) as f32 / (1u64 << 23) as f32 - 1.0
    };
    (0..count).map(|_| next()).collect()
}

//! `mgcomp compress`: a file becomes a frame.

use std::path::PathBuf;

use mgcomp_codecs::frame::{self, ChunkSize, Options, Workers};
use mgcomp_codecs::{Algorithm, Element};

use crate::args::{self, Choice};
use crate::error::{CliError, note};
use crate::input;
use crate::output::{self, Output};
use crate::progress::Progress;

/// Compress a file into one frame.
///
/// The result is never more than a header and a table larger than the input. Nothing is written until all of
/// it is ready.
#[derive(clap::Args)]
pub(crate) struct Args {
    /// File to compress; - is standard input
    input: PathBuf,
    /// File to write; - is standard output
    #[arg(short, long)]
    output: PathBuf,
    /// Codec; best tries all and keeps the smallest result
    #[arg(short, long, value_parser = args::choice(), default_value = "best")]
    algorithm: Choice,
    /// What the bytes are; a hint that never changes which bytes come back [default: as the name says, like x.f32.bin, else u8]
    #[arg(short, long, value_parser = args::element())]
    element: Option<Element>,
    /// Raw bytes per chunk [default: 4K up to 64 KiB, else 16K]
    #[arg(long, value_parser = args::chunk_size())]
    chunk_size: Option<ChunkSize>,
    /// Leave out the checksum of each chunk
    #[arg(long)]
    no_checksum: bool,
    /// Threads that encode, 1 to 1024 [default: as many as the machine runs at once]
    #[arg(long, value_parser = args::threads(), allow_negative_numbers = true, default_value_t = args::default_threads(), hide_default_value = true)]
    threads: usize,
    /// Overwrite an existing file
    #[arg(short, long)]
    force: bool,
}

pub(crate) fn run(args: &Args) -> Result<(), CliError> {
    let mut progress = Progress::start();
    let output = || Output::create(&args.output, &args.input, args.force);
    // Whether it can be written is known before anything is read, and nothing is left of it where this is interrupted.
    drop(output()?);
    let raw = input::read_any(&args.input, &mut progress)?;
    let (algorithm, frame) = encode(args, &raw, &mut progress)?;
    let mut output = output()?;
    output.write(&frame)?;
    output.finish()?;
    drop(progress);
    let (from, to) = (input::name(&args.input), output::name(&args.output));
    let ratio = raw.len() as f64 / frame.len() as f64;
    note(&format!("{from} -> {to}: {} -> {} bytes, ratio {ratio:.2}, {algorithm}", raw.len(), frame.len()));
    Ok(())
}

/// The smallest frame among the codecs asked for, the first of them if several are.
fn encode(args: &Args, raw: &[u8], progress: &mut Progress) -> Result<(Algorithm, Vec<u8>), CliError> {
    let name = || input::name(&args.input);
    let element = args.element.unwrap_or_else(|| input::element_of_name(&args.input));
    let chunk_size = args.chunk_size.unwrap_or(ChunkSize::for_len(raw.len()));
    let options = Options { chunk_size, checksum: !args.no_checksum };
    let needed_bytes = frame::max_frame_len(raw.len(), options);
    let workers = Workers::new(args.threads).map_err(CliError::Threads)?;
    let mut smallest: Option<(Algorithm, Vec<u8>)> = None;
    // Where codecs write: beside the input and what is kept there is never room for more than one frame as long as any.
    let mut frame = Vec::new();
    for codec in args.algorithm.codecs() {
        let algorithm = codec.algorithm();
        frame
            .try_reserve_exact(needed_bytes - frame.len())
            .map_err(|_| CliError::Memory { name: name(), needed_bytes })?;
        frame.resize(needed_bytes, 0);
        progress.stage(format!("compressing {} with {algorithm}", name()), raw.len() as u64);
        let len = workers
            .encode_to(codec, element, raw, options, &mut frame, &|done| progress.set(done))
            .map_err(|source| CliError::Encode { name: name(), source })?;
        if smallest.as_ref().is_none_or(|(_, kept)| len < kept.len()) {
            frame.truncate(len);
            frame.shrink_to_fit();
            smallest = Some((algorithm, std::mem::take(&mut frame)));
        }
    }
    // Never empty: the choice is a codec of this version, or all of them.
    Ok(smallest.unwrap_or((Algorithm::None, Vec::new())))
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;

    #[derive(Parser)]
    struct Line {
        #[command(flatten)]
        args: Args,
    }

    /// What becomes much shorter.
    fn raw() -> Vec<u8> {
        let of_block = |block: u32| if block.is_multiple_of(2) { [0; 64] } else { [block as u8; 64] };
        (0..4096).flat_map(of_block).collect()
    }

    #[test]
    fn what_is_kept_takes_no_more_room_than_it_needs() {
        let raw = raw();
        let args = Line::parse_from(["compress", "in", "-o", "out", "--threads", "1"]).args;
        let (algorithm, frame) = encode(&args, &raw, &mut Progress::start()).unwrap();
        assert!(frame.len() < raw.len() / 2 && frame.capacity() < raw.len() / 2, "{}", frame.capacity());
        // In a room of its own it is the same.
        let line = ["compress", "in", "-o", "out", "--algorithm", algorithm.name()];
        let alone = encode(&Line::parse_from(line).args, &raw, &mut Progress::start()).unwrap();
        assert!(alone == (algorithm, frame));
    }
}

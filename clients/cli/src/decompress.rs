//! `mgcomp decompress`: a frame becomes the file that it was made of.

use std::path::PathBuf;

use mgcomp_codecs::frame::Frame;

use crate::error::{CliError, note};
use crate::input;
use crate::output::{self, Output};
use crate::progress::Progress;

/// Write the raw bytes of a frame.
///
/// A damaged frame leaves no file; to standard output go the bytes before the damage.
#[derive(clap::Args)]
pub(crate) struct Args {
    /// Frame to decompress; - is standard input
    input: PathBuf,
    /// File to write; - is standard output
    #[arg(short, long)]
    output: PathBuf,
    /// Overwrite an existing file
    #[arg(short, long)]
    force: bool,
}

pub(crate) fn run(args: &Args) -> Result<(), CliError> {
    let mut progress = Progress::start();
    let output = || Output::create(&args.output, &args.input, args.force);
    // Whether it can be written is known before anything is read, for which there may be long to wait.
    drop(output()?);
    let bytes = input::read_frame(&args.input, &mut progress)?;
    let failed = |source| CliError::Decode { name: input::name(&args.input), source };
    let frame = Frame::parse(&bytes).map_err(failed)?;
    let header = frame.header();

    progress.stage(format!("decompressing {}", input::name(&args.input)), header.raw_len);
    // Chunk by chunk: the raw length in a header is no reason to trust it with that much memory.
    let mut raw = vec![0; header.chunk_size.bytes()];
    let mut output = output()?;
    let mut done_bytes = 0;
    for chunk in frame.chunks() {
        let raw = &mut raw[..chunk.raw_len];
        frame.decode_chunk(&chunk, raw).map_err(failed)?;
        output.write(raw)?;
        done_bytes += raw.len() as u64;
        progress.set(done_bytes);
    }
    output.finish()?;
    drop(progress);
    let (from, to) = (input::name(&args.input), output::name(&args.output));
    note(&format!("{from} -> {to}: {} -> {done_bytes} bytes, {}", bytes.len(), header.algorithm));
    Ok(())
}

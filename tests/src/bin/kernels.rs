//! Compiles the GPU kernels with NVRTC for every device that matters, and compares what follows from them with
//! the files of the repository, and has the PTX that ships assembled by what `MGCOMP_PTXAS` names; with `--assemble`, does that
//! alone; with `--write`, renews the files. With `--bounds` and the path of `nvdisasm`, writes how fast they could be at most.

use std::error::Error;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use mgcomp_codecs::device::{Compiler, Target, sources};
use mgcomp_tests::bounds;
use mgcomp_tests::compile::{self, Artifact, Compilation, RENEW, Resources, VERSION};

fn main() -> Result<ExitCode, Box<dyn Error>> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    if arguments == ["--assemble"] {
        return Ok(verdict(assembles()));
    }
    let compiler = Compiler::instance()?;
    if compiler.version() != VERSION {
        let (major, minor) = compiler.version();
        return Err(format!("NVRTC is of CUDA {major}.{minor}, not {}.{}", VERSION.0, VERSION.1).into());
    }
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    match arguments[..] {
        [] => Ok(verdict(all_are_good(compiler)? & assembles())),
        ["--write"] => {
            let Compilation { rows, artifacts } = compile::compile(compiler, &cache()?)?;
            artifacts.iter().try_for_each(Artifact::write)?;
            Ok(verdict(none_spills(&rows)))
        }
        ["--bounds", disassembler] => {
            fs::write(bounds::path(), bounds::table(compiler, Path::new(disassembler))?)?;
            Ok(ExitCode::SUCCESS)
        }
        _ => Err("usage: kernels [--assemble | --write | --bounds NVDISASM]".into()),
    }
}

/// Where the tests keep what is compiled, too: target/profile/kernels is this program.
fn cache() -> Result<PathBuf, Box<dyn Error>> {
    let program = std::env::current_exe()?;
    let target = program.ancestors().nth(2).ok_or("this program does not lie in a target folder")?;
    Ok(target.join("tmp/compiled"))
}

fn verdict(is_good: bool) -> ExitCode {
    if is_good { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

/// Whether all that follows from the kernels is in the files, and no kernel spills registers.
fn all_are_good(compiler: &Compiler) -> Result<bool, Box<dyn Error>> {
    let Compilation { rows, artifacts } = compile::compile(compiler, &cache()?)?;
    Ok(none_spills(&rows) & are_current(&artifacts))
}

/// Says what kernels take.
fn none_spills(rows: &[(Target, Resources)]) -> bool {
    for (target, row) in rows {
        println!(
            "{:<20} {target:<7} {:>3} registers {:>6} bytes shared {:>4} bytes stack {:>4} bytes spilled",
            row.kernel, row.registers, row.shared_bytes, row.stack_bytes, row.spill_bytes
        );
    }
    rows.iter().all(|(_, row)| row.spill_bytes == 0)
}

/// Says which files are of other kernels.
fn are_current(artifacts: &[Artifact]) -> bool {
    let others: Vec<_> = artifacts.iter().filter(|artifact| !artifact.is_current()).collect();
    others
        .iter()
        .for_each(|other| eprintln!("{} is of other kernels; renew it: {RENEW}", other.path.display()));
    println!("{} of {} files are current", artifacts.len() - others.len(), artifacts.len());
    others.is_empty()
}

/// Whether an old assembler takes the PTX that ships, if one is named.
fn assembles() -> bool {
    let Some(assembler) = std::env::var_os("MGCOMP_PTXAS") else {
        println!("SKIPPED: no assembler for the PTX that ships is named by MGCOMP_PTXAS");
        return true;
    };
    let refused: Vec<_> = sources()
        .iter()
        .filter_map(|source| compile::assemble(Path::new(&assembler), source).err())
        .collect();
    refused.iter().for_each(|error| eprintln!("the PTX that ships is not taken by an assembler: {error}"));
    println!("{} of {} files of PTX are assembled", sources().len() - refused.len(), sources().len());
    refused.is_empty()
}

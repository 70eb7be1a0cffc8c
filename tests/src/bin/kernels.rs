//! Compiles the GPU kernels with NVRTC for every device that matters, and compares what follows from them with
//! the files of the repository, and has the PTX that ships assembled by what `MGCOMP_PTXAS` names; with `--write`, renews the files. With `--bounds` and the path of `nvdisasm`, writes how
//! fast they could be at most.

use std::error::Error;
use std::fs;
use std::path::Path;
use std::process::ExitCode;

use mgcomp_codecs::device::{Compiler, sources};
use mgcomp_tests::bounds;
use mgcomp_tests::compile::{self, Compilation, RENEW, VERSION};

fn main() -> Result<ExitCode, Box<dyn Error>> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let compiler = Compiler::instance()?;
    if compiler.version() != VERSION {
        let (major, minor) = compiler.version();
        return Err(format!("NVRTC is of CUDA {major}.{minor}, not {}.{}", VERSION.0, VERSION.1).into());
    }
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    match arguments[..] {
        [] => compare(compiler, false),
        ["--write"] => compare(compiler, true),
        ["--bounds", disassembler] => {
            fs::write(bounds::path(), bounds::table(compiler, Path::new(disassembler))?)?;
            Ok(ExitCode::SUCCESS)
        }
        _ => Err("usage: kernels [--write | --bounds NVDISASM]".into()),
    }
}

/// Compares all that follows from the kernels with the files, or writes them.
fn compare(compiler: &Compiler, writes: bool) -> Result<ExitCode, Box<dyn Error>> {
    // Where the tests keep it, too: target/profile/kernels is this program.
    let program = std::env::current_exe()?;
    let target = program.ancestors().nth(2).ok_or("this program does not lie in a target folder")?;
    let Compilation { rows, artifacts } = compile::compile(compiler, &target.join("tmp/compiled"))?;
    let mut good = true;
    for (target, row) in &rows {
        println!(
            "{:<20} {target:<7} {:>3} registers {:>6} bytes shared {:>4} bytes stack {:>4} bytes spilled",
            row.kernel, row.registers, row.shared_bytes, row.stack_bytes, row.spill_bytes
        );
        good &= row.spill_bytes == 0;
    }
    for artifact in &artifacts {
        if writes {
            artifact.write()?;
        } else if !artifact.is_current() {
            eprintln!("{} is of other kernels; renew it: {RENEW}", artifact.path.display());
            good = false;
        }
    }
    if !writes {
        good &= assembles();
    }
    Ok(if good { ExitCode::SUCCESS } else { ExitCode::FAILURE })
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

//! Compiles the GPU kernels with NVRTC for every device that matters, and compares what follows from them with
//! the files of the repository; with `--write`, renews the files. With `--bounds` and the path of `nvdisasm`, writes how
//! fast they could be at most.

use std::error::Error;
use std::fs;
use std::path::Path;
use std::process::ExitCode;

use mgcomp_codecs::device::Compiler;
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
    Ok(if good { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

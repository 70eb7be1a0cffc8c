//! The GPU kernels compile without spills for the device that they are made for before all, what is said of them there is true, and
//! what is said of the others, and what ships, is of these kernels.

use std::path::Path;

use mgcomp_codecs::Algorithm;
use mgcomp_codecs::device::{Compiler, KernelSource, sources};
use mgcomp_tests::compile::{self, FIRST_TARGET, RENEW, Resources, TARGETS, VERSION};
use mgcomp_tests::shim::sources::codecs;

/// The compiler, or `None` and a line that says that `test` is skipped.
fn compiler_or_skip(test: &str) -> Option<&'static Compiler> {
    let required = std::env::var("MGCOMP_REQUIRE_NVRTC").is_ok_and(|v| v == "1");
    let compiler = Compiler::instance().map_err(|error| error.to_string());
    let found = compiler.and_then(|compiler| match compiler.version() {
        VERSION => Ok(compiler),
        (major, minor) => Err(format!("NVRTC is of CUDA {major}.{minor}")),
    });
    match found {
        Ok(compiler) => Some(compiler),
        Err(reason) if required => panic!("{test} cannot run: {reason}"),
        Err(reason) => {
            eprintln!("SKIPPED: {test}: {reason}");
            None
        }
    }
}

#[test]
fn kernels_compile_without_spills() {
    let Some(compiler) = compiler_or_skip("kernels_compile_without_spills") else { return };
    let cache = Path::new(env!("CARGO_TARGET_TMPDIR")).join("compiled");
    // The program `kernels` compiles for all targets, and compares what is kept with the results; here it is known by what the
    // table is of, see below, that what it says of the other ones follows from these kernels.
    let rows = compile::resources(compiler, FIRST_TARGET.parse().unwrap(), &cache).unwrap();
    // Encode, decode and estimate; the kernels that gather rows and combine numbers, and those that write and read buddy memory.
    assert_eq!(rows.len(), 3 * codecs().count() + 6);
    let table = compile::kept_table().unwrap();
    for row in &rows {
        assert_eq!(row.spill_bytes, 0, "{} spills on {FIRST_TARGET}", row.kernel);
        let kept = compile::table_cell(&table, &row.kernel, FIRST_TARGET);
        assert_eq!(kept, Some(compile::cell(row)), "{}: {RENEW}", row.kernel);
    }
}

#[test]
fn the_table_is_of_these_kernels() {
    let table = compile::kept_table().unwrap();
    assert!(table.starts_with(&compile::table_fingerprint_line()), "not up to date: {RENEW}");
    let rows = table.lines().filter_map(|line| line.strip_prefix("| `")?.split('`').next());
    let mut kernels = 0;
    for kernel in rows {
        for target in TARGETS {
            let cell = compile::table_cell(&table, kernel, target).unwrap();
            assert!(cell.contains(" · ") && !cell.contains("spilled"), "{kernel} on {target}: {cell}");
        }
        kernels += 1;
    }
    assert_eq!(kernels, 3 * codecs().count() + 6);
}

#[test]
fn the_ptx_that_ships_is_of_these_kernels() {
    for source in sources() {
        let ptx = source.shipped_ptx().unwrap_or_default();
        let body = ptx.splitn(3, '\n').nth(2).unwrap_or_default();
        let head = compile::shipped_head(source, body);
        assert!(
            ptx.starts_with(&head),
            "the PTX of {} is not up to date, or was changed: {RENEW}",
            source.file
        );
        // Nothing that a driver of CUDA 11.0 does not know.
        assert!(
            ptx.contains("\n.version 7.0\n.target sm_80\n"),
            "the PTX of {} is of another version",
            source.file
        );
        assert!(!ptx.contains("used_bytes_mask"), "{}", source.file);
        let kernels: &[&str] = match source.algorithm {
            Some(Algorithm::Ibp) => &["encode", "decode", "estimate", "rows"],
            Some(_) => &["encode", "decode", "estimate"],
            None if source == KernelSource::of_reductions() => &["numbers"],
            None => &["read", "write"],
        };
        for kernel in kernels {
            let entry = format!(".entry {}_{kernel}(", source.name);
            assert!(ptx.contains(&entry), "{}: no {entry}", source.file);
        }
    }
}

#[test]
fn logs_are_understood() {
    let log = "ptxas info    : 0 bytes gmem\n\
               ptxas info    : Compiling entry function 'zvc_decode' for 'sm_90'\n\
               ptxas info    : Function properties for zvc_decode\n    \
               16 bytes stack frame, 8 bytes spill stores, 12 bytes spill loads\n\
               ptxas info    : Used 48 registers, used 1 barriers, 16 bytes cumulative stack size, 4128 bytes smem\n\
               ptxas info    : Compiling entry function 'zvc_encode' for 'sm_90'\n\
               ptxas info    : Function properties for zvc_encode\n    \
               0 bytes stack frame, 0 bytes spill stores, 0 bytes spill loads\n\
               ptxas info    : Used 255 registers, used 0 barriers";
    let row = |kernel: &str, registers, shared_bytes, stack_bytes, spill_bytes| Resources {
        kernel: kernel.to_owned(),
        registers,
        shared_bytes,
        stack_bytes,
        spill_bytes,
    };
    let expected = [row("zvc_decode", 48, 4128, 16, 20), row("zvc_encode", 255, 0, 0, 0)];
    assert_eq!(compile::parse_log(log), expected);
}

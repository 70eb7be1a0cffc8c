//! The kernels under the address, undefined-behaviour and thread sanitizers; and that shim and
//! sanitizers find what they are there to find.

mod address;
mod records;
mod threads;

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Output;
use std::thread;

use mgcomp_codecs::Algorithm;
use mgcomp_tests::shim::toolchain::{Plant, Sanitizer, Toolchain};
use mgcomp_tests::shim::{Shim, skip};

/// The toolchain, or `None` and a line that says that `test` is skipped. Each test has its own folder.
pub(crate) fn toolchain_or_skip(test: &str, sanitizer: Sanitizer) -> Option<(Shim, Toolchain)> {
    let shim = Shim::or_skip(test)?;
    let folder = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join(test);
    Toolchain::build(sanitizer, folder).map_err(|reason| skip(test, &reason)).ok().map(|t| (shim, t))
}

/// Replays what is not a codec's as [`replay`] does codecs: records of `name`, by kernels of `source`.
pub(crate) fn replay_others(
    test: &str,
    toolchain: &Toolchain,
    (name, source): (&str, &'static str),
    records: &[u8],
    plants: &[(&'static str, &'static str, &'static str, &str)],
) {
    let path = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("{test}.{name}.records"));
    fs::write(&path, records).unwrap();
    let (path, program) = (path.to_str().unwrap(), format!("replay_{name}"));
    let clean = toolchain.run(&toolchain.link(&program), &[path]);
    expect_good(&clean);
    assert!(text(&clean).contains(" 0 bad"), "{}", text(&clean));
    for &(file, find, replace, word) in plants {
        let plant = Plant { codec: source, file, find, replace };
        let output = toolchain.run(&toolchain.link_planted(&program, plant, 0), &[path]);
        expect_report(&format!("{plant:?}"), &output, word);
    }
}

/// Writes the records of each algorithm to a file of its own.
pub(crate) fn write_records(
    test: &str,
    shim: Shim,
    records: fn(Shim, Algorithm) -> Vec<u8>,
) -> BTreeMap<&'static str, String> {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR"));
    let write = |algorithm: Algorithm| {
        let path = folder.join(format!("{test}.{algorithm}.records"));
        fs::write(&path, records(shim, algorithm)).unwrap();
        (algorithm.name(), path.into_os_string().into_string().unwrap())
    };
    shim.algorithms().into_iter().map(write).collect()
}

fn text(output: &Output) -> String {
    String::from_utf8_lossy(&[&*output.stdout, &*output.stderr].concat()).into_owned()
}

fn expect_good(output: &Output) {
    assert!(output.status.success(), "{}\n{}", output.status, text(output));
}

/// Expects that the program failed and said `word` of it.
fn expect_report(what: &str, output: &Output, word: &str) {
    let text = text(output);
    assert!(!output.status.success() && text.contains(word), "{what}: {}\n{text}", output.status);
}

/// Replays the records of every algorithm; then, with each bug of `plants`, those of the kernel it is planted
/// into, which must be reported in the words beside it.
pub(crate) fn replay(toolchain: &Toolchain, files: &BTreeMap<&str, String>, plants: &[(Plant, &str)]) {
    let program = toolchain.link("replay");
    for file in files.values() {
        let clean = toolchain.run(&program, &[file]);
        expect_good(&clean);
        assert!(text(&clean).contains(" 0 bad"), "{file}: {}", text(&clean));
    }
    let sow = |bed: usize, plants: &[(Plant, &str)]| {
        for (plant, word) in plants {
            let file = &files[plant.codec];
            let output = toolchain.run(&toolchain.link_planted("replay", *plant, bed), &[file]);
            expect_report(&format!("{plant:?}"), &output, word);
        }
    };
    // Compilers take most of the time, one core each.
    let beds = thread::available_parallelism().map_or(1, usize::from);
    thread::scope(|scope| {
        let sow = &sow;
        for (bed, plants) in plants.chunks(plants.len().div_ceil(beds)).enumerate() {
            scope.spawn(move || sow(bed, plants));
        }
    });
}

#[test]
fn the_shim_computes_and_reports() {
    let test = "the_shim_computes_and_reports";
    let Some((_, toolchain)) = toolchain_or_skip(test, Sanitizer::None) else { return };
    let selftest = toolchain.link("selftest");
    expect_good(&toolchain.run(&selftest, &[]));
    let misuses = [
        ("divergent_barrier", "exits while others wait for it"),
        ("exit_before_barrier", "after a thread has exited"),
        ("partial_ballot", "deadlock"),
        ("mixed_collectives", "different collectives"),
        ("shuffle_outside", "outside the mask"),
        ("lane_not_in_mask", "not in the mask"),
        ("copy_not_awaited", "copies under way"),
    ];
    for (misuse, word) in misuses {
        expect_report(misuse, &toolchain.run(&selftest, &[misuse]), word);
    }
}

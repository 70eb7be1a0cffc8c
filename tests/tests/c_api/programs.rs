//! Programs that somebody could have written who has read `mgcomp.h`, and programs that do everything wrong.

use std::path::{Path, PathBuf};

use crate::compiler::{Bench, C11, C99, CPP17, FORTRAN, Language, clients, has};

fn source(name: &str) -> PathBuf {
    Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/c_api/c")).join(name)
}

fn example(name: &str) -> PathBuf {
    clients().join("examples").join(name)
}

/// Compiles and runs a program in each language that is here; what it prints must have `words` in it.
fn works(test: &str, languages: &[Language], source: &Path, words: &str) {
    let bench = Bench::new();
    for language in languages.iter().filter(|language| language.is_here(test)) {
        let printed = bench.run(&bench.compile(language, source), &[]);
        assert!(printed.contains(words), "{test}: {printed}");
    }
}

#[test]
fn frames() {
    works("frames", &[C99, C11], &source("frames.c"), "");
}

#[test]
fn tables() {
    works("tables", &[C99, C11], &source("tables.c"), "");
}

#[test]
fn buddies() {
    works("buddies", &[C99, C11], &source("buddies.c"), "");
}

#[test]
fn copies() {
    works("copies", &[C99], &source("copies.c"), "");
}

/// Compiles a program and runs it where the stub of the driver has so many devices.
fn works_on_stub(name: &str, devices: u32) {
    for language in [C99, C11].iter().filter(|language| language.is_here(name)) {
        let bench = Bench::new();
        let program = bench.compile(language, &source(&format!("{name}.c")));
        bench.run_on_stub(name, &program, devices);
    }
}

#[test]
fn peers() {
    works_on_stub("peers", 2);
}

#[test]
fn device_copies() {
    works_on_stub("device_copies", 1);
}

/// Ranks, and the offload queue, whose buffers are in the memory of devices.
#[test]
fn tensors() {
    works_on_stub("tensors", 2);
}

/// What is refused before anybody asks for a driver, and that there is none, or not that device.
#[test]
fn peers_without_devices() {
    works("peers_without_devices", &[C99], &source("no_peers.c"), "");
}

#[test]
fn kept() {
    works("kept", &[C99], &source("kept.c"), "");
}

#[test]
fn offload() {
    works("offload", &[C99], &source("offload.c"), "");
}

#[test]
fn profiles() {
    works("profiles", &[C99, C11], &source("profiles.c"), "");
}

#[test]
fn together() {
    works("together", &[C99], &source("together.c"), "");
}

/// Closed and opened again, it works, and has left no thread.
#[test]
#[cfg(target_os = "linux")]
fn loaded_while_the_program_runs() {
    works("loaded", &[C99], &source("loaded.c"), "");
}

#[test]
fn ranks() {
    let test = "ranks";
    if C99.is_here(test) {
        let bench = Bench::new();
        // An address of this machine that no other process has.
        let [a, b, c, d] = std::process::id().to_be_bytes();
        let address = format!("127.{}.{c}.{d}", 64 + (a ^ b) % 128);
        let secret = "000102030405060708090a0b0c0d0e0f";
        let ranks = format!(r#"["{address}:7400", "{address}:7401"]"#);
        bench.write("ranks.json", &format!(r#"{{ "secret": "{secret}", "ranks": {ranks} }}"#));
        bench.run(&bench.compile(&C99, &source("ranks.c")), &["ranks.json"]);
    }
}

/// Every byte that the library touches is one that it was given.
#[test]
fn what_has_no_threads_under_valgrind() {
    let test = "what_has_no_threads_under_valgrind";
    if C99.is_here(test) && has(test, "valgrind", "MGCOMP_REQUIRE_VALGRIND") {
        let bench = Bench::new();
        for name in ["frames.c", "tables.c", "buddies.c", "profiles.c"] {
            let program = bench.compile(&C99, &source(name));
            bench.run_under(&["valgrind", "--quiet", "--error-exitcode=9"], &program, &[]);
        }
    }
}

#[test]
fn c_example() {
    works("c_example", &[C99, C11], &example("compress.c"), "400000 bytes as ");
}

#[test]
fn c_example_of_ranks() {
    works("c_example_of_ranks", &[C99, C11], &example("all_reduce.c"), "rank 3 of 4: sent ");
}

#[test]
fn cpp_example() {
    works("cpp_example", &[CPP17], &example("compress.cpp"), "1048576 bytes as ");
}

#[test]
fn fortran_example() {
    works("fortran_example", &[FORTRAN], &example("compress.f90"), "524288 bytes as ");
}

/// What stands in the comment at the head of the header, as it stands there.
#[test]
fn the_example_at_the_head() {
    let test = "the_example_at_the_head";
    if C99.is_here(test) {
        let head = std::fs::read_to_string(clients().join("include/head.txt")).unwrap();
        let lines = head.lines().take_while(|line| !line.contains("cc program.c"));
        let code: Vec<&str> =
            lines.filter_map(|line| line.strip_prefix(" *     ").or((line == " *").then_some(""))).collect();
        let bench = Bench::new();
        let source = bench.write("head.c", &(code.join("\n") + "\n"));
        let printed = bench.run(&bench.compile(&C99, &source), &[]);
        assert!(printed.starts_with("400000 bytes as "), "{printed}");
    }
}

/// The header alone, in every language that it is for.
#[test]
fn the_header_compiles_in_all_of_them() {
    let bench = Bench::new();
    for (language, name) in [(C99, "header.c"), (C11, "header.c"), (CPP17, "header.cpp")] {
        if language.is_here("the_header_compiles_in_all_of_them") {
            bench.run(&bench.compile(&language, &source(name)), &[]);
        }
    }
}

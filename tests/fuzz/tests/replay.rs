//! The targets without libFuzzer: their seeds, what was found before, and a few changes of each.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use mgcomp_fuzz::{TARGETS, Target, mutate};

fn finds_dir() -> &'static Path {
    Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/finds"))
}

fn entries(folder: &Path) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(folder).into_iter().flatten();
    let mut paths: Vec<PathBuf> = entries.map(|entry| entry.unwrap().path()).collect();
    paths.sort();
    paths
}

/// Runs `input`; a panic names where the input came from.
fn run(target: &Target, input: &[u8], origin: &str) {
    if let Err(panic) = std::panic::catch_unwind(|| (target.run)(input)) {
        eprintln!("{}: {origin}", target.name);
        std::panic::resume_unwind(panic);
    }
}

#[test]
fn no_find_comes_back() {
    for target in TARGETS {
        for path in entries(&finds_dir().join(target.name)) {
            run(&target, &std::fs::read(&path).unwrap(), &path.display().to_string());
        }
    }
}

#[test]
fn every_folder_of_finds_belongs_to_a_target_and_every_find_says_what_it_was() {
    let names: BTreeSet<&str> = TARGETS.iter().map(|target| target.name).collect();
    for folder in entries(finds_dir()).into_iter().filter(|path| path.is_dir()) {
        let name = folder.file_name().unwrap().to_str().unwrap();
        assert!(names.contains(name), "finds of {name}");
        for find in entries(&folder) {
            let name = find.file_name().unwrap().to_str().unwrap().to_owned();
            // What libFuzzer calls them says nothing.
            let unnamed = ["crash-", "oom-", "timeout-", "leak-", "slow-unit-"];
            assert!(!unnamed.iter().any(|prefix| name.starts_with(prefix)), "{name} wants a name");
        }
    }
}

#[test]
fn seeds_pass_and_are_the_same_each_time() {
    for target in TARGETS {
        let seeds = (target.seeds)();
        assert!(seeds.len() >= 40, "{}: {} seeds", target.name, seeds.len());
        assert!(seeds == (target.seeds)(), "{}", target.name);
        for (i, seed) in seeds.iter().enumerate() {
            run(&target, seed, &format!("seed {i}"));
        }
    }
}

#[test]
fn changed_seeds_pass() {
    for target in TARGETS {
        let seeds = (target.seeds)();
        for round in 0..1500 {
            let input = mutate(&seeds[round % seeds.len()], round as u64);
            run(&target, &input, &format!("change {round}"));
        }
    }
}

#[test]
fn short_inputs_pass() {
    for target in TARGETS {
        run(&target, &[], "nothing");
        for byte in 0..=255u8 {
            for len in 1..12 {
                run(&target, &vec![byte; len], &format!("{len} times {byte:#04x}"));
            }
        }
    }
}

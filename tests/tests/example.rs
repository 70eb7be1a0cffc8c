//! The examples of the library: by themselves, and as ranks that find each other by a rank file. Under mpirun they run in
//! `transport/tests/mpi`.

#[allow(dead_code, reason = "other tests run programs, not examples")]
mod program;

use std::process::{Child, Command, Output, Stdio};

use mgcomp_tests::rank_file;

/// What an example printed that went well.
fn well(output: &Output) -> String {
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(output.status.success(), "{text}{}", String::from_utf8_lossy(&output.stderr));
    text
}

#[test]
fn four_ranks_in_one_process() {
    for (name, says) in [
        ("remote_read", "read the parameters of all others"),
        ("gradient_all_reduce", "the same weights on all ranks"),
        ("halo_exchange", "equal those of one rank"),
    ] {
        let example = program::example(name);
        let text = well(&Command::new(example).output().unwrap());
        for rank in 0..4 {
            let start = format!("rank {rank}: ");
            assert!(
                text.lines().any(|line| line.starts_with(&start) && line.contains(says)),
                "{name}: {text}"
            );
        }
    }
}

#[test]
fn a_packed_table_gives_its_rows() {
    let output = Command::new(program::example("embedding_gather")).arg("1500").output();
    let text = well(&output.unwrap());
    for says in
        ["packed into", "saved as", "hit the cache", "crossed the simulated link", "changed and read back"]
    {
        assert!(text.contains(says), "{says}: {text}");
    }
}

#[test]
fn what_examples_cannot_do_is_an_error() {
    let example = program::example("halo_exchange");
    for arguments in [&["job.json"][..], &["/nowhere/job.json", "0"]] {
        let output = Command::new(&example).args(arguments).output().unwrap();
        assert_eq!(output.status.code(), Some(1), "{arguments:?}");
        assert!(!output.stderr.is_empty());
    }
}

#[test]
fn two_ranks_read_each_other() {
    let folder = tempfile::tempdir().unwrap();
    let job = folder.path().join("job.json");
    std::fs::write(&job, rank_file::for_two().unwrap()).unwrap();

    let example = program::example("remote_read");
    let start = |rank: &str| {
        let mut command = Command::new(&example);
        command.arg(&job).arg(rank).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap()
    };
    // The higher one first: it has to wait for the other to listen.
    let ranks: [Child; 2] = ["1", "0"].map(start);
    for (child, (rank, peer)) in ranks.into_iter().zip([(1, 0), (0, 1)]) {
        let output = child.wait_with_output().unwrap();
        let text = well(&output);
        let read = format!("rank {rank} read 16777216 bytes of rank {peer}, ");
        let line = text.lines().find(|line| line.starts_with(&read)).unwrap_or_else(|| panic!("{text}"));
        assert!(line.ends_with("equal: true"), "{line}");
    }
}

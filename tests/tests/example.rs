//! The example `ranks`: two ranks that find each other by a rank file.

#[allow(dead_code, reason = "other tests run programs, not examples")]
mod program;

use std::net::TcpListener;
use std::process::{Child, Command, Stdio};

/// Addresses that were free a moment ago.
fn free_addresses() -> [String; 2] {
    let listeners = [(); 2].map(|()| TcpListener::bind("127.0.0.1:0").unwrap());
    listeners.map(|listener| listener.local_addr().unwrap().to_string())
}

#[test]
fn two_ranks_read_each_other() {
    let folder = tempfile::tempdir().unwrap();
    let job = folder.path().join("job.json");
    let secret = "00112233445566778899aabbccddeeff";
    let content = serde_json::json!({ "secret": secret, "ranks": free_addresses() });
    std::fs::write(&job, content.to_string()).unwrap();

    let example = program::example("mgcomp-transport", "ranks");
    let start = |rank: &str| {
        let mut command = Command::new(&example);
        command.arg(&job).arg(rank).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap()
    };
    // The higher one first: it has to wait for the other to listen.
    let ranks: [Child; 2] = ["1", "0"].map(start);
    for (child, (rank, peer)) in ranks.into_iter().zip([(1, 0), (0, 1)]) {
        let output = child.wait_with_output().unwrap();
        let text = String::from_utf8_lossy(&output.stdout).into_owned();
        assert!(output.status.success(), "{text}{}", String::from_utf8_lossy(&output.stderr));
        let read = format!("rank {rank} read 16777216 bytes of rank {peer} ");
        let line = text.lines().find(|line| line.starts_with(&read)).unwrap_or_else(|| panic!("{text}"));
        assert!(line.ends_with("equal: true"), "{line}");
    }
}

//! A process that is killed while it saves a table.

use std::io::Read;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};
use std::{env, fs, thread};

use mgcomp_codecs::Cpu;
use mgcomp_transport::table::{LoadOptions, Table};

use super::rows::{all, options};

/// Where the child saves its tables; only a child has it.
const PLACE: &str = "MGCOMP_TEST_TABLE_PLACE";
const ROW_LEN: usize = 512;
const ROWS: usize = 4000;

/// All rows have the same byte, and another one in the middle.
fn table(kind: u8) -> Table {
    let rows: Vec<u8> = (0..ROWS * ROW_LEN).map(|i| if i % 9 == 0 { (i / 9) as u8 } else { kind }).collect();
    Table::build(rows, ROW_LEN, &options(Cpu::active(), 1, 1)).unwrap()
}

#[test]
fn a_table_survives_whoever_dies_over_it() {
    if let Some(place) = env::var_os(PLACE) {
        return save_again_and_again(Path::new(&place));
    }
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("rows.table");
    let [first, second] = [1, 2].map(table);
    first.save(&path).unwrap();
    let contents = [all(&first), all(&second)];
    for delay_ms in [0, 1, 2, 3, 5, 8, 13, 21] {
        let mut child = Command::new(env::current_exe().unwrap())
            .args(["killed::a_table_survives_whoever_dies_over_it", "--exact", "--nocapture"])
            .env(PLACE, &path)
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        // It says when it begins to save.
        let mut said = Vec::new();
        let out = child.stdout.as_mut().unwrap();
        while !said.ends_with(b"saving\n") {
            let mut byte = [0];
            assert_eq!(
                out.read(&mut byte).unwrap(),
                1,
                "the child ended: {}",
                String::from_utf8_lossy(&said)
            );
            said.extend(byte);
        }
        thread::sleep(Duration::from_millis(delay_ms));
        child.kill().unwrap();
        child.wait().unwrap();
        let loaded = all(&Table::load(&path, &LoadOptions::default()).unwrap());
        assert!(contents.contains(&loaded), "neither table");
    }
    // Drafts of the dead are told by their names, and are in nobody's way.
    for entry in fs::read_dir(folder.path()).unwrap() {
        let name = entry.unwrap().file_name().into_string().unwrap();
        assert!(name == "rows.table" || name.starts_with(".mgcomp-table-"), "{name}");
    }
    second.save(&path).unwrap();
    assert!(all(&Table::load(&path, &LoadOptions::default()).unwrap()) == contents[1]);
}

fn save_again_and_again(path: &Path) {
    let tables = [2, 1].map(table);
    println!("saving");
    let started = Instant::now();
    // Not longer than anybody would wait, should the parent die.
    while started.elapsed() < Duration::from_secs(100) {
        tables.iter().for_each(|table| table.save(path).unwrap());
    }
}

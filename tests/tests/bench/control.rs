//! `mgcomp-bench control`: a row for each number of streams; the bench itself compares what was counted.

use std::path::Path;

use crate::{command, good_rows, stderr};

#[test]
fn each_number_of_streams_has_a_row() {
    let rows = good_rows(Path::new("."), &["control", "--turns", "2", "--streams", "1", "100", "3000"]);
    let streams: Vec<_> = rows.iter().map(|row| row["streams"].as_u64().unwrap()).collect();
    assert_eq!(streams, [1, 100, 3000]);
    for row in rows {
        let ns = |key: &str| row[key].as_f64().unwrap();
        assert!(ns("alone_ns") > 0.0 && ns("steered_ns") > 0.0, "{row}");
    }
}

#[test]
fn without_a_page_there_is_nothing_to_measure() {
    let output = command(Path::new("."), &["control"]).env("MGCOMP", "off").output().unwrap();
    assert_eq!(output.status.code(), Some(1));
    assert!(stderr(&output).contains("no control page"), "{}", stderr(&output));
}

#[test]
fn a_daemon_under_a_little_load_gives_all_figures() {
    let args = ["daemon", "--processes", "20", "--peers", "3", "--watchers", "5", "--seconds", "0.6"];
    let rows = good_rows(Path::new("."), &args);
    let figures: Vec<_> = rows.iter().map(|row| row["figure"].as_str().unwrap()).collect();
    for expected in
        ["idle, of a core", "ListJobs, median", "setting changes", "until every process goes by a change"]
    {
        assert!(figures.contains(&expected), "{expected}: {figures:?}");
    }
    for row in rows {
        assert!(row["value"].as_f64().unwrap() >= 0.0, "{row}");
    }
}

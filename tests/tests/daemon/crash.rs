//! Either side dies in the middle of traffic, and nobody else notices.

use crate::rig::{Rig, until};

#[test]
fn programs_go_on_without_the_daemon_and_find_it_again() {
    let mut rig = Rig::start(&[]);
    let exchange = rig.exchange("a", "fixed:bdi");
    rig.succeed(&["policy", "set", "fixed:zvc", "--job", "a", "--ahead"]);
    rig.until_stream("steered", "a", |stream| stream["last_decision"]["decided"] == "zvc");
    for _ in 0..2 {
        rig.kill_daemon();
        exchange.until_more();
        rig.start_daemon();
        rig.until_stream("steered still", "a", |stream| {
            stream["last_decision"]["decided"] == "zvc" && stream["effective"]["policy"] == "fixed:zvc"
        });
        exchange.until_more();
    }
    exchange.finish();
}

#[test]
fn a_job_that_is_killed_goes_away_and_others_stay() {
    let rig = Rig::start(&[]);
    let victim = rig.exchange("victim", "fixed:bdi");
    let other = rig.exchange("other", "fixed:bdi");
    for job in ["victim", "other"] {
        rig.until_stream("is seen", job, |stream| !stream["last_decision"].is_null());
    }
    drop(victim);
    let jobs = || {
        let jobs = rig.json(&["jobs"]);
        jobs.iter().map(|job| job["job"].as_str().unwrap().to_owned()).collect::<Vec<_>>()
    };
    until("the dead job is reaped", || jobs() == ["other"]);
    rig.succeed(&["policy", "set", "fixed:rle"]);
    rig.until_stream("the other is steered", "other", |stream| stream["last_decision"]["decided"] == "rle");
    other.finish();
    until("the job that has ended is gone", || jobs().is_empty());
}

//! A program follows what is set while it runs, at whatever scope.

use serde_json::{Value, json};

use crate::dashboard::{body, get};
use crate::rig::{Rig, text, until};

/// Transfers of each algorithm in an interval that began after now.
fn mix(rig: &Rig, job: &str) -> Vec<String> {
    let rows = rig.json(&["watch", "--job", job, "--interval-ms", "200", "--count", "3"]);
    let algorithms = rows.last().unwrap()["interval"]["algorithms"].as_object().unwrap();
    algorithms.keys().cloned().collect()
}

fn decided(algorithm: &'static str) -> impl Fn(&Value) -> bool {
    move |stream| stream["last_decision"]["decided"] == algorithm
}

#[test]
fn lambda_changes_what_carries_the_bytes() {
    let rig = Rig::start(&[]);
    let exchange = rig.exchange("train-7", "paper");
    let compressed = |stream: &Value| stream["last_decision"]["decided"] != "none";
    rig.until_stream("the exchange is seen", "train-7", |stream| !stream["last_decision"].is_null());

    // Size alone counts; then nothing but codec time.
    rig.succeed(&["lambda", "set", "0", "--job", "train-7"]);
    rig.until_stream("lambda 0 compresses", "train-7", |stream| {
        stream["in_effect"]["lambda_gbps"] == 0.0 && compressed(stream)
    });
    rig.succeed(&["lambda", "set", "1000000", "--job", "train-7"]);
    rig.until_stream("a large lambda does not", "train-7", |stream| {
        stream["in_effect"]["lambda_gbps"] == 1_000_000.0 && !compressed(stream)
    });
    // What was decided before may still be under way, and an interval without any transfer shows nothing.
    until("nothing else carries bytes", || mix(&rig, "train-7") == ["none"]);
    exchange.until_more();
    exchange.finish();
}

#[test]
fn the_narrowest_scope_counts_and_removal_falls_back() {
    let rig = Rig::start(&[]);
    let exchange = rig.exchange("a", "fixed:bdi");
    rig.until_stream("the program's own policy", "a", decided("bdi"));
    let stream = rig.stream("a").unwrap();
    let (peer, number) = (stream["peer"].to_string(), stream["stream"].to_string());
    let job = ["--job", "a"];
    let to_peer = [&job[..], &["--peer", &peer]].concat();
    let of_stream = [&to_peer[..], &["--stream", &number]].concat();
    let scopes: [(&[&str], &str); 4] = [(&[], "zvc"), (&job, "rle"), (&to_peer, "fpc"), (&of_stream, "xp")];
    for (scope, algorithm) in scopes {
        rig.succeed(&[&["policy", "set", &format!("fixed:{algorithm}")], scope].concat());
        rig.until_stream("the narrower counts", "a", decided(algorithm));
    }
    for (scope, falls_back_to) in
        [(scopes[3].0, "fpc"), (scopes[2].0, "rle"), (scopes[1].0, "zvc"), (scopes[0].0, "bdi")]
    {
        rig.succeed(&[&["policy", "unset"], scope].concat());
        rig.until_stream("the wider counts again", "a", decided(falls_back_to));
    }
    // In the table, as it may be said too.
    let shown = format!("{:#x}", stream["stream"].as_u64().unwrap());
    assert!(rig.succeed(&["jobs", "--job", "a"]).contains(&shown), "{shown}");
    let got = rig.succeed(&[&["policy", "get", "--stream", &shown][..], &to_peer].concat());
    assert_eq!(got, format!("job a, peer {peer}, stream {shown}: policy as each program says\n"));
    exchange.finish();
}

#[test]
fn off_stops_compression_and_on_brings_it_back() {
    let rig = Rig::start(&[]);
    let exchange = rig.exchange("a", "fixed:zvc");
    rig.until_stream("compresses", "a", decided("zvc"));
    rig.succeed(&["off"]);
    rig.until_stream("is off", "a", |stream| {
        stream["last_decision"]["reason"] == "compression is switched off"
            && stream["in_effect"]["compress"] == false
    });
    rig.succeed(&["on", "--job", "a"]);
    rig.until_stream("is on", "a", decided("zvc"));
    exchange.finish();
}

#[test]
fn what_is_measured_raw_is_raw_whatever_is_set() {
    let rig = Rig::start(&[]);
    rig.succeed(&["policy", "set", "fixed:xp"]);
    let carried = |row: &Value| row["algorithms"].as_object().unwrap().keys().cloned().collect::<Vec<_>>();
    // A program begins before it has heard of what is set.
    until("the other turns go by what is set", || {
        let mut perf =
            rig.mgcomp_command(&["perf", "--op", "send_recv", "--element", "bf16", "--interleave"]);
        perf.args(["--min", "64K", "--max", "64K", "--iters", "500", "--json"]);
        let output = perf.env("MGCOMP_SOCKET", rig.socket()).output().unwrap();
        assert!(output.status.success(), "{}", text(&output.stderr));
        let rows: Vec<Value> =
            text(&output.stdout).lines().map(|line| serde_json::from_str(line).unwrap()).collect();
        let [raw, other] = &rows[..] else { panic!("{rows:?}") };
        assert_eq!((raw["mode"].as_str(), carried(raw)), (Some("raw"), vec!["none".to_owned()]));
        carried(other).contains(&"xp".to_owned())
    });
}

#[test]
fn what_is_below_the_size_gate_goes_raw() {
    let rig = Rig::start(&[]);
    let exchange = rig.exchange("a", "fixed:zvc");
    rig.until_stream("compresses", "a", decided("zvc"));
    // The next power of two counts.
    assert_eq!(rig.succeed(&["size-gate", "set", "1000000", "--job", "a"]), "job a: size gate 1 MiB\n");
    rig.until_stream("is below", "a", |stream| {
        stream["last_decision"]["reason"] == "shorter than 1048576 bytes"
            && stream["in_effect"]["least_bytes"] == 1 << 20
    });
    assert_eq!(rig.succeed(&["size-gate", "set", "8K", "--job", "a"]), "job a: size gate 8 KiB\n");
    rig.until_stream("is above", "a", decided("zvc"));
    let unset = rig.succeed(&["size-gate", "unset", "--job", "a"]);
    assert_eq!(unset, "job a: size gate as each program says\n");
    exchange.finish();
}

#[test]
fn on_leaves_nothing_behind_but_where_a_wider_scope_is_off() {
    let rig = Rig::start(&[]);
    let exchange = rig.exchange("a", "fixed:zvc");
    rig.until_stream("compresses", "a", decided("zvc"));
    let job = |command| rig.succeed(&[command, "--job", "a"]);
    assert_eq!(job("off"), "job a: compression off\n");
    assert_eq!(job("on"), "job a: compression as each program says\n");
    // So what is said of the node counts for the job again.
    assert_eq!(rig.succeed(&["off"]), "node: compression off\n");
    rig.until_stream("is off", "a", |stream| stream["in_effect"]["compress"] == false);
    assert_eq!(job("on"), "job a: compression on\n");
    rig.until_stream("is on all the same", "a", decided("zvc"));
    assert_eq!(rig.succeed(&["on"]), "node: compression as each program says\n");
    assert_eq!(job("on"), "job a: compression as each program says\n");
    rig.succeed(&["off"]);
    rig.until_stream("is off again", "a", |stream| stream["in_effect"]["compress"] == false);
    assert_eq!(
        rig.succeed(&["on", "--job", "b", "--peer", "1", "--ahead"]),
        "job b, peer 1: compression on\n"
    );
    exchange.finish();
}

#[test]
fn the_cap_on_reading_device_memory_holds_for_running_copies() {
    let rig = Rig::start(&[]);
    let offloads = rig.exchange("a", "offload");
    offloads.until_more();
    until("the process is seen", || !rig.json(&["jobs"]).is_empty());
    // A round would take half an hour.
    rig.succeed(&["read-cap", "set", "0.000001"]);
    until("is held up", || offloads.is_held_up());
    assert_eq!(
        rig.succeed(&["read-cap", "get", "--job", "a"]),
        "job a: read cap 0.000001 Gb/s, from a wider scope\n"
    );
    // What waits already goes on as well.
    rig.succeed(&["read-cap", "set", "1000", "--job", "a"]);
    offloads.until_more();
    rig.succeed(&["read-cap", "unset", "--job", "a"]);
    until("is held up again", || offloads.is_held_up());
    rig.succeed(&["read-cap", "unset"]);
    offloads.until_more();
    offloads.finish();
}

#[test]
fn copies_between_devices_are_seen_and_follow() {
    let rig = Rig::start(&[]);
    let Some(copies) = rig.copies("a", "steer::copies_between_devices_are_seen_and_follow") else { return };
    rig.until_stream("the program's own policy", "a", decided("bdi"));
    let stream = rig.stream("a").unwrap();
    let whose = ["rank", "peer", "stream", "from_device", "to_device"].map(|key| stream[key].clone());
    assert_eq!(whose, [json!(5), Value::Null, Value::Null, json!(0), json!(0)]);

    rig.succeed(&["policy", "set", "fixed:zvc"]);
    rig.until_stream("zvc", "a", decided("zvc"));
    let carried = |stream: &Value, algorithm: &str, key: &str| {
        stream["traffic"]["algorithms"][algorithm][key].as_u64().unwrap_or(0)
    };
    // Half of the words are zeros, and every copy is the same.
    rig.until_stream("zvc is counted", "a", |stream| {
        let [transfers, raw, coded] =
            ["transfers", "raw_bytes", "coded_bytes"].map(|key| carried(stream, "zvc", key));
        transfers > 20 && raw == transfers * (256 << 10) && coded * 2 > raw && coded * 100 < raw * 55
    });
    // There are no kernels of that here.
    rig.succeed(&["policy", "set", "fixed:fpc", "--job", "a"]);
    rig.until_stream("plain", "a", |stream| {
        stream["not_followed"] == 1 && stream["last_decision"]["reason"] == "the peer cannot decode fpc"
    });
    rig.succeed(&["policy", "unset", "--job", "a"]);
    rig.succeed(&["off"]);
    rig.until_stream("is off", "a", |stream| {
        let sent = |key| carried(stream, "none", key);
        stream["last_decision"]["reason"] == "compression is switched off"
            && sent("raw_bytes") == sent("coded_bytes")
    });
    // Devices are no ranks.
    rig.fail(&["policy", "set", "fixed:zvc", "--job", "a", "--peer", "0"], &["peer 0"]);
    rig.fail(&["jobs", "--job", "a", "--peer", "99"], &["no such peer"]);
    assert_eq!(rig.json(&["watch", "--job", "a", "--level", "peer", "--count", "1"]), Vec::<Value>::new());

    let row = &rig.json(&["watch", "--job", "a", "--level", "stream", "--count", "1"])[0];
    assert_eq!([&row["rank"], &row["from_device"], &row["to_device"]], [5, 0, 0]);
    let table = rig.succeed(&["jobs", "--job", "a"]);
    assert!(table.contains("dev 0  from dev 0"), "{table}");
    let (job, sum) = (&rig.json(&["jobs"])[0], |of: &Value| of["traffic"]["raw_bytes"].as_u64());
    assert_eq!((&job["peers"], &job["streams"], sum(job) > Some(0)), (&json!(0), &json!(0), true));
    let metrics = get(&rig, "/metrics", "host: localhost");
    let own = format!("job=\"a\",uid=\"{}\"", rustix::process::getuid());
    let line = format!("mgcomp_raw_bytes_total{{{own},peer=\"device 0 to 0\",algorithm=\"zvc\"}} ");
    assert!(metrics.contains(&line), "{metrics}");
    let page: Value =
        serde_json::from_str(body(&get(&rig, "/dashboard/data.json", "host: localhost"))).unwrap();
    let pair = &page["links"]["copies"][0];
    assert_eq!([&pair["rank"], &pair["from_device"], &pair["to_device"]], [5, 0, 0], "{page}");
    assert!(pair["raw"].as_u64() > pair["coded"].as_u64() && page["links"]["cells"] == json!([]), "{page}");
    copies.until_more();
    copies.finish();
}

#[test]
fn what_is_seen_adds_up() {
    let rig = Rig::start(&[]);
    let exchange = rig.exchange("a", "fixed:zvc");
    exchange.until_more();
    rig.until_stream("is seen", "a", |stream| stream["traffic"]["acknowledged"].as_u64() > Some(50));
    let jobs = rig.json(&["jobs"]);
    let job = &jobs[0];
    assert_eq!((jobs.len(), &job["job"], job["processes"].as_array().unwrap().len()), (1, &json!("a"), 1));
    let process = &job["processes"][0];
    assert_eq!(
        (&process["program"], process["pid"].as_u64()),
        (&json!("exchange"), Some(exchange.pid().into()))
    );
    let traffic = &job["traffic"];
    let number = |key: &str| traffic[key].as_u64().unwrap();
    assert!(number("coded_bytes") < number("raw_bytes") * 3 / 4, "{traffic}");
    assert_eq!(number("raw_bytes"), traffic["algorithms"]["zvc"]["raw_bytes"].as_u64().unwrap());
    assert!(number("received") > 0 && number("encode_ns") > 0 && number("decode_ns") > 0, "{traffic}");
    assert_eq!(number("errors"), 0);

    // The rank that is written to is the only one that anything is sent to.
    rig.succeed(&["lambda", "set", "6", "--job", "a", "--peer", "1"]);
    let peers = rig.json(&["jobs", "--job", "a", "--peers"]);
    let sent_to: Vec<_> = peers.iter().filter(|peer| peer["streams"].as_u64() > Some(0)).collect();
    assert_eq!(
        (sent_to.len(), &sent_to[0]["peer"], &sent_to[0]["streams"]),
        (1, &json!(1), &json!(1)),
        "{peers:?}"
    );
    assert!(sent_to[0]["traffic"]["ratio"].as_f64() > Some(1.33), "{peers:?}");
    assert_eq!(sent_to[0]["effective"]["lambda_gbps"], 6.0);
    assert!(rig.succeed(&["jobs", "--job", "a", "--peers"]).starts_with("peer  streams  link Gb/s"));
    rig.fail(&["jobs", "--job", "b", "--peers"], &["job b: no such job"]);
    // A rank that is not there gives no rows of zeros.
    for level in ["job", "peer", "stream"] {
        let watch = |peer| ["watch", "--job", "a", "--level", level, "--count", "1", "--peer", peer];
        rig.fail(&watch("9"), &["job a, peer 9: no such peer: `mgcomp jobs --job a` lists those that run"]);
        assert_eq!(rig.json(&watch("1")).len(), 1, "{level}");
    }

    // Everything is written in pieces of 16 KiB.
    let sizes = rig.json(&["histogram", "raw-bytes", "--job", "a"]);
    let quantiles = sizes[0]["quantiles"].as_array().unwrap();
    for quantile in quantiles {
        let value = quantile["value"].as_f64().unwrap();
        assert!((value - 16384.0).abs() <= 16384.0 * 0.0625, "{quantiles:?}");
    }
    assert!(sizes[0]["count"].as_u64() > Some(50));
    assert!(rig.succeed(&["jobs"]).contains("zvc 100 %"));
    assert!(rig.succeed(&["jobs", "--job", "a"]).contains("the policy names this algorithm"));
    exchange.finish();
}

#[test]
fn switched_off_by_the_environment_nothing_is_seen() {
    let rig = Rig::start(&[]);
    // What makes no sense is off too.
    for off in ["off", "OFF", " False ", "0", "no", "of"] {
        let mut command = std::process::Command::new(env!("CARGO_BIN_EXE_exchange"));
        command.arg("fixed:zvc").env("MGCOMP_SOCKET", rig.socket()).env("MGCOMP", off);
        let exchange = crate::rig::Exchange::start(&mut command);
        exchange.until_more();
        assert_eq!(rig.json(&["jobs"]), Vec::<Value>::new(), "{off:?}");
        exchange.finish();
    }
}

#[test]
fn the_demo_says_that_its_node_is_switched_off() {
    let rig = Rig::start(&[]);
    rig.succeed(&["off"]);
    std::fs::write(rig.path("zeros"), [0; 1 << 16]).unwrap();
    until("it is said", || {
        let mut command = rig.mgcomp_command(&["demo", "--ranks", "2", "--json", "--data"]);
        let output = command.arg(rig.path("zeros")).env("MGCOMP_SOCKET", rig.socket()).output().unwrap();
        let row: Value = serde_json::from_str(&text(&output.stdout)).unwrap();
        row["mode"] == "off" && row["traffic"] == 1.0
    });
}

#[test]
fn the_first_table_is_of_an_interval() {
    let rig = Rig::start(&[]);
    let exchange = rig.exchange("a", "fixed:zvc");
    exchange.until_more();
    rig.until_stream("is seen", "a", |stream| stream["traffic"]["acknowledged"].as_u64() > Some(10));
    // On a busy machine the exchange may not have had a turn in it.
    until("something was sent in a first interval", || {
        let rows = rig.json(&["watch", "--interval-ms", "300", "--count", "1"]);
        assert_eq!(rows.len(), 1, "{rows:?}");
        assert!(rows[0]["interval_ns"].as_u64() > Some(0), "{}", rows[0]);
        rows[0]["raw_gbps"].as_f64() > Some(0.0)
    });
    exchange.finish();
}

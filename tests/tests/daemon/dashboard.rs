//! The page for people: what it says, whom it says it to, and how it looks in a real browser.

use std::fs::{self, File};
use std::io::{self, Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::thread;
use std::time::Instant;

use serde_json::Value;

use crate::remote::{ANY_PORT, TOKEN, token_file};
use crate::rig::{Ended, Rig, text, until};

/// What the daemon answers on its socket to a request with these lines of head.
pub(crate) fn get(rig: &Rig, path: &str, head: &str) -> String {
    let mut stream = UnixStream::connect(rig.socket()).unwrap();
    write!(stream, "GET {path} HTTP/1.1\r\n{head}\r\n\r\n").unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    answer
}

pub(crate) fn body(answer: &str) -> &str {
    answer.split_once("\r\n\r\n").unwrap().1
}

#[test]
fn it_tells_each_job_and_its_links() {
    let before = Instant::now();
    let rig = Rig::start(&[]);
    let data = |path: &str| -> Value {
        let answer = get(&rig, path, "host: localhost");
        assert!(answer.starts_with("HTTP/1.1 200"), "{answer}");
        serde_json::from_str(body(&answer)).unwrap()
    };
    let first = data("/dashboard/data.json");
    assert_eq!(first["verdict"]["state"], "idle");
    // By a clock that nobody sets, or rates would be wrong when the time of day jumps.
    assert!(u128::from(first["up_ns"].as_u64().unwrap()) < before.elapsed().as_nanos(), "{first}");

    let exchange = rig.exchange("a\"b", "fixed:zvc");
    let other = rig.exchange("other", "fixed:bdi");
    for job in ["a\"b", "other"] {
        rig.until_stream("is seen", job, |stream| stream["traffic"]["acknowledged"].as_u64() > Some(10));
    }
    rig.succeed(&["lambda", "set", "6", "--job", "a\"b"]);
    let now = data("/dashboard/data.json?job=a%22b");
    assert!(now["up_ns"].as_u64() > first["up_ns"].as_u64(), "{now}");
    let jobs = now["jobs"].as_array().unwrap();
    let job = jobs.iter().find(|job| job["job"] == "a\"b").unwrap();
    assert_eq!((jobs.len(), &now["processes"], &job["lambda_gbps"]), (2, &2.into(), &6.0.into()), "{now}");
    let number = |of: &Value, key: &str| of[key].as_u64().unwrap();
    assert!(number(job, "coded_bytes") < number(job, "raw_bytes") * 3 / 4, "{job}");
    assert_eq!(number(job, "raw_bytes"), number(&job["algorithms"], "zvc"));
    assert_eq!(
        number(&now["total"], "raw_bytes"),
        jobs.iter().map(|job| number(job, "raw_bytes")).sum::<u64>()
    );
    let links = &now["links"];
    let cells = links["cells"].as_array().unwrap();
    let name = |names: &str, index: &Value| links[names][index.as_u64().unwrap() as usize].clone();
    let sent = |cell: &&Value| name("ranks", &cell["from"]) == "0" && name("peers", &cell["to"]) == "1";
    let cell = cells.iter().find(sent).unwrap_or_else(|| panic!("{links}"));
    assert_eq!((&links["job"], number(cell, "raw") > 0), (&"a\"b".into(), true));

    rig.succeed(&["off"]);
    assert_eq!(data("/dashboard/data.json")["verdict"]["state"], "off");
    exchange.finish();
    other.finish();
}

#[test]
fn it_is_for_this_machine_and_for_those_with_a_token() {
    let folder = tempfile::tempdir().unwrap();
    let token = token_file(&folder, "token", TOKEN);
    let rig = Rig::start(&["--listen", ANY_PORT, "--token-file", &token]);
    let scripts = ["/dashboard/page.js", "/dashboard/rates.js", "/dashboard/draw.js"];
    for path in ["/", "/dashboard/style.css"].into_iter().chain(scripts) {
        let answer = get(&rig, path, "host: localhost");
        assert!(answer.starts_with("HTTP/1.1 200"), "{answer}");
        for rule in ["content-security-policy: default-src 'none';", "x-content-type-options: nosniff"] {
            assert!(answer.contains(rule), "{path}: {answer}");
        }
    }
    // A name that a web site makes point here is nobody's on this machine.
    for path in ["/dashboard/data.json", "/metrics"] {
        assert!(get(&rig, path, "host: evil.example").starts_with("HTTP/1.1 421"), "{path}");
    }
    // Nor can it be used to change anything: browsers speak HTTP/1 here.
    let call =
        get(&rig, "/mgcomp.v1.Control/UpdateSettings", "host: localhost\r\ncontent-type: application/grpc");
    assert!(call.starts_with("HTTP/1.1 505"), "{call}");
    assert!(get(&rig, "/dashboard/../settings.json", "host: localhost").starts_with("HTTP/1.1 404"));

    let over_tcp = |path: &str, head: &str| {
        let request = format!("GET {path} HTTP/1.1\r\nhost: x\r\n{head}\r\n");
        crate::remote::exchange(&rig.address().to_string(), request.as_bytes())
    };
    // The page itself holds nothing that is secret; what it shows does.
    assert!(over_tcp("/", "").starts_with("HTTP/1.1 200"));
    assert!(over_tcp("/dashboard/data.json", "").starts_with("HTTP/1.1 401"));
    let told = over_tcp("/dashboard/data.json", &format!("authorization: Bearer {TOKEN}\r\n"));
    assert!(told.starts_with("HTTP/1.1 200") && !told.contains(TOKEN), "{told}");
}

#[test]
fn what_came_late_was_not_sent_just_now() {
    let mut rig = Rig::start(&[]);
    let exchange = rig.exchange("a", "fixed:zvc");
    rig.until_stream("is seen", "a", |stream| stream["traffic"]["acknowledged"].as_u64() > Some(10));
    rig.kill_daemon();
    exchange.until_more();
    rig.start_daemon();
    rig.until_stream("is seen again", "a", |stream| !stream["last_decision"].is_null());
    let now: Value =
        serde_json::from_str(body(&get(&rig, "/dashboard/data.json", "host: localhost"))).unwrap();
    let bytes = |of: &Value| of["algorithms"]["zvc"].as_u64().unwrap();
    for sums in [&now["jobs"][0], &now["total"]] {
        let brought = bytes(&sums["brought"]);
        assert!(10 * (16 << 10) < brought && brought <= bytes(sums), "{sums}");
        assert_eq!(sums["brought"]["raw_bytes"], brought);
    }
    exchange.finish();
}

#[test]
fn rates_are_of_what_was_sent_in_between() {
    let script = concat!(
        "import { since } from 'RATES';",
        "const sums = (raw, was) => ({ raw_bytes: raw, coded_bytes: raw / 2, algorithms: { zvc: raw },",
        "  brought: { raw_bytes: was, coded_bytes: was / 2, algorithms: was ? { zvc: was } : {} } });",
        "const told = (up_s, jobs, others = 0) => ({ up_ns: up_s * 1e9, other_jobs: others, total: sums(...jobs[0]),",
        "  jobs: jobs.map(([raw, was], index) => ({ job: `${index}`, ...sums(raw, was) })) });",
        "const of = (now, then) => { const { raw, coded, mix } = since(now, then); return [raw, coded, mix.zvc ?? 0]; };",
        // 600 more in two seconds; then somebody comes late with 9000 and sends 100.
        "const [first, second] = [told(1, [[400, 0]]), told(3, [[1000, 0]])];",
        "const third = told(4, [[10100, 9000]]);",
        "console.log(JSON.stringify([of(second, first), of(third, second),",
        // The same where only sums say it, and where somebody goes.
        "  of({ ...third, other_jobs: 1 }, second), of(told(5, [[900, 0]]), third), of(told(5, [[0, 0], [7, 7]]), told(4, [[0, 0]]))]));",
    );
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../daemon/src/dashboard/rates.js");
    let folder = tempfile::tempdir().unwrap();
    // Node tells modules by their names.
    let (module, main) = (folder.path().join("rates.mjs"), folder.path().join("main.mjs"));
    fs::copy(path, module).unwrap();
    fs::write(&main, script.replace("RATES", "./rates.mjs")).unwrap();
    let output = match Command::new("node").arg(&main).output() {
        Ok(output) => output,
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            println!("SKIPPED: no node to run the script of the page with");
            return;
        }
        Err(error) => panic!("{error}"),
    };
    assert!(output.status.success(), "{}", text(&output.stderr));
    let rates: Value = serde_json::from_slice(&output.stdout).unwrap();
    let expected = [[300, 150, 300], [100, 50, 100], [100, 50, 100], [0, 0, 0], [0, 0, 0]];
    assert_eq!(rates, serde_json::json!(expected));
}

/// Whether a browser can show a page of this machine: a snap sees only some folders, and what stands for one does not run.
fn runs(browser: &Path) -> bool {
    let version = Command::new(browser).arg("--version").stdin(Stdio::null()).output();
    version.is_ok_and(|version| version.status.success() && !text(&version.stdout).contains("snap"))
}

/// A browser, if there is one.
fn browser() -> Option<PathBuf> {
    let folders = std::env::var_os("PATH").unwrap_or_default();
    let folders: Vec<PathBuf> = std::env::split_paths(&folders).collect();
    let names = ["chromium", "chromium-browser", "google-chrome"];
    let mut found = names.iter().flat_map(|name| folders.iter().map(move |folder| folder.join(name)));
    let found = found.find(|path| path.is_file() && runs(path));
    if found.is_none() {
        assert!(std::env::var_os("MGCOMP_REQUIRE_CHROMIUM").is_none(), "there is no chromium");
        println!("SKIPPED: no chromium to show the page");
    }
    found
}

/// Lets others in at a port, as `ssh -L PORT:SOCKET` does.
fn forward(socket: PathBuf) -> u16 {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    thread::spawn(move || {
        for client in listener.incoming().flatten() {
            let Ok(daemon) = UnixStream::connect(&socket) else { continue };
            let (back, answers) = (client.try_clone().unwrap(), daemon.try_clone().unwrap());
            thread::spawn(move || there(client, daemon));
            thread::spawn(move || back_again(answers, back));
        }
    });
    port
}

fn there(mut from: TcpStream, mut to: UnixStream) {
    let _ = io::copy(&mut from, &mut to); // either side may go at any moment
    let _ = to.shutdown(Shutdown::Write);
}

fn back_again(mut from: UnixStream, mut to: TcpStream) {
    let _ = io::copy(&mut from, &mut to);
    let _ = to.shutdown(Shutdown::Both);
}

/// Lets a browser look for a while, much of which it only pretends; returns the page as it then is, and what it complained of.
fn look(browser: &Path, rig: &Rig, port: u16, picture: &Path) -> (String, String) {
    let (page, complaints) = (rig.path("page.html"), rig.path("complaints"));
    let mut command = Command::new(browser);
    command.args([
        "--headless",
        "--no-sandbox",
        "--disable-gpu",
        "--disable-dev-shm-usage",
        "--hide-scrollbars",
    ]);
    command.args([
        "--window-size=1280,1500",
        "--virtual-time-budget=120000",
        "--enable-logging=stderr",
        "--dump-dom",
    ]);
    command.arg(format!("--user-data-dir={}", rig.path("browser").display()));
    command.arg(format!("--screenshot={}", picture.display()));
    command.arg(format!("http://127.0.0.1:{port}/"));
    command.env("HOME", rig.path("home"));
    command
        .stdin(Stdio::null())
        .stdout(File::create(&page).unwrap())
        .stderr(File::create(&complaints).unwrap());
    let mut browser = Ended(command.spawn().unwrap());
    browser.wait();
    (text(&fs::read(page).unwrap()), text(&fs::read(complaints).unwrap()))
}

#[test]
fn a_browser_shows_it() {
    let Some(browser) = browser() else { return };
    let rig = Rig::start(&[]);
    let exchange = rig.exchange("train<b>7</b>", "fixed:zvc");
    rig.until_stream("is seen", "train<b>7</b>", |stream| {
        stream["traffic"]["acknowledged"].as_u64() > Some(10)
    });
    rig.succeed(&["lambda", "set", "6", "--job", "train<b>7</b>"]);
    let port = forward(rig.socket());
    let picture = Path::new(env!("CARGO_TARGET_TMPDIR")).join("dashboard.png");
    let _ = fs::remove_file(&picture); // of another run
    let (mut page, mut complaints) = (String::new(), String::new());
    // A machine that is busy may not have come to draw anything.
    until("the page is drawn", || {
        (page, complaints) = look(&browser, &rig, port, &picture);
        page.contains("polyline") && picture.exists()
    });
    for expected in [
        "class=\"alive live\"",
        "% fewer bytes on the links (ratio ",
        "mgcomp off --job='train&lt;b&gt;7&lt;/b&gt;'",
        "<td>train&lt;b&gt;7&lt;/b&gt;</td>",
        "<td>6 Gb/s</td>",
        "zvc 100 %",
        "class=\"cell\"",
    ] {
        assert!(page.contains(expected), "{expected}: {page}");
    }
    assert!(!complaints.contains("CONSOLE"), "{complaints}");
    let picture = fs::read(picture).unwrap();
    assert!(picture.starts_with(b"\x89PNG") && picture.len() > 20_000, "{}", picture.len());
    exchange.finish();
}

#[test]
fn grafana_asks_for_what_there_is() {
    let rig = Rig::start(&[]);
    let metrics = get(&rig, "/metrics", "host: localhost");
    let known: Vec<&str> =
        metrics.lines().filter_map(|line| line.strip_prefix("# TYPE ")?.split(' ').next()).collect();
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../daemon/grafana/mgcomp.json");
    let dashboard = fs::read_to_string(path).unwrap();
    let _: Value = serde_json::from_str(&dashboard).unwrap();
    let words = dashboard.split(|letter: char| !(letter.is_ascii_alphanumeric() || letter == '_'));
    let asked: Vec<&str> = words.filter(|word| word.starts_with("mgcomp_")).collect();
    assert!(asked.len() > 20, "{asked:?}");
    for name in asked {
        assert!(known.contains(&name), "{name}: {known:?}");
    }
}

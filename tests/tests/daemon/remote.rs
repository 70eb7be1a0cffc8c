//! Over TCP: tokens, TLS, metrics.

use std::fs;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::pin::Pin;
use std::process::Command;
use std::task::{Context, Poll};
use std::time::Duration;

use http::Request;
use mgcomp_proto::Channel;
use tonic::Status;
use tonic::body::Body;
use tonic::client::GrpcService;

use crate::rig::{Rig, text};

pub(crate) const TOKEN: &str = "0123456789abcdef0123456789abcdef";
pub(crate) const ANY_PORT: &str = "127.0.0.1:0";

/// What is answered to some bytes.
pub(crate) fn exchange(address: &str, bytes: &[u8]) -> String {
    let mut stream = TcpStream::connect(address).unwrap();
    stream.set_read_timeout(Some(Duration::from_secs(30))).unwrap();
    stream.write_all(bytes).unwrap();
    let mut answer = Vec::new();
    let _ = stream.read_to_end(&mut answer);
    text(&answer)
}

pub(crate) fn token_file(folder: &tempfile::TempDir, name: &str, token: &str) -> String {
    let path = folder.path().join(name);
    fs::write(&path, token).unwrap();
    path.display().to_string()
}

#[test]
fn a_token_is_needed_for_everything_but_health() {
    let folder = tempfile::tempdir().unwrap();
    let (right, wrong) = (token_file(&folder, "right", TOKEN), token_file(&folder, "wrong", &TOKEN[1..]));
    let rig = Rig::start(&["--listen", ANY_PORT, "--token-file", &right]);
    let address = rig.address().to_string();
    let lambda = |token: &[&str]| {
        let args = [&["lambda", "set", "2", "--timeout", "100", "--address", &address], token].concat();
        rig.mgcomp_command(&args).output().unwrap()
    };
    for token in [&[][..], &["--token-file", &wrong]] {
        let output = lambda(token);
        assert_eq!(output.status.code(), Some(1));
        for words in ["UNAUTHENTICATED", "--token-file names the file with its token"] {
            assert!(text(&output.stderr).contains(words), "{}", text(&output.stderr));
        }
    }
    assert_eq!(rig.json(&["lambda", "get"])[0]["lambda_gbps"], serde_json::Value::Null);
    let output = lambda(&["--token-file", &right]);
    assert!(output.status.success(), "{}", text(&output.stderr));
    assert_eq!(rig.json(&["lambda", "get"])[0]["lambda_gbps"], 2.0);

    let metrics = |header: &str| {
        exchange(&address, format!("GET /metrics HTTP/1.1\r\nhost: x\r\n{header}\r\n").as_bytes())
    };
    assert!(metrics("").starts_with("HTTP/1.1 401"));
    let page = metrics(&format!("authorization: Bearer {TOKEN}\r\n"));
    assert!(
        page.starts_with("HTTP/1.1 200") && page.contains("mgcomp_daemon_setting_changes_total 1"),
        "{page}"
    );
}

/// A request that never comes to its end.
struct Never;

impl hyper::body::Body for Never {
    type Data = hyper::body::Bytes;
    type Error = Status;

    fn poll_frame(
        self: Pin<&mut Self>,
        _: &mut Context<'_>,
    ) -> Poll<Option<Result<hyper::body::Frame<Self::Data>, Status>>> {
        Poll::Pending
    }
}

/// Each keeps its head in the daemon's memory.
#[test]
fn who_shows_no_token_does_not_have_health_checks_without_end_under_way() {
    const ASKED: usize = 200;
    const MOST: usize = 64;
    let folder = tempfile::tempdir().unwrap();
    let token = token_file(&folder, "token", TOKEN);
    let rig = Rig::start(&["--listen", ANY_PORT, "--token-file", &token]);
    let address = rig.address().to_string();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        let open = async || {
            let stream = tokio::net::TcpStream::connect(&address).await.unwrap();
            Channel::open(stream, None).await.unwrap()
        };
        let ready = async |channel: &mut Channel| {
            std::future::poll_fn(|context| channel.poll_ready(context)).await.unwrap();
        };
        let check = |body: Body| {
            let request = Request::post("http://mgcomp-daemon/grpc.health.v1.Health/Check");
            request.header("content-type", "application/grpc").body(body).unwrap()
        };
        let mut channels = [open().await, open().await];
        let (say, mut said) = tokio::sync::mpsc::unbounded_channel();
        for asked in 0..ASKED {
            let channel = &mut channels[asked % 2];
            ready(channel).await;
            let answer = channel.call(check(Body::new(Never)));
            let say = say.clone();
            tokio::spawn(async move {
                let refused = answer.await.map(|answer| answer.headers().get("grpc-status").cloned());
                let _ = say.send(refused.ok().flatten());
            });
        }
        // Both connections end some time, and with them what has no answer.
        for _ in MOST..ASKED {
            assert_eq!(said.recv().await.unwrap().unwrap(), "8", "resource exhausted");
        }
        let known = ["lambda", "get", "--address", &address, "--token-file", &token];
        assert!(rig.mgcomp_command(&known).output().unwrap().status.success());
        for _ in 0..MOST {
            assert_eq!(said.recv().await.unwrap(), None, "it was sent away without an answer");
        }
        let empty = http_body_util::Full::new(hyper::body::Bytes::from_static(&[0; 5]));
        let mut channel = open().await;
        ready(&mut channel).await;
        let answer = channel.call(check(Body::new(empty))).await.unwrap();
        assert_eq!(answer.headers().get("grpc-status"), None, "there is an answer behind the head");
    });
}

#[test]
fn metrics_tell_what_programs_exchange() {
    let rig = Rig::start(&[]);
    let exchange = rig.exchange("a\"b", "fixed:zvc");
    rig.until_stream("is seen", "a\"b", |stream| stream["traffic"]["acknowledged"].as_u64() > Some(10));
    let mut stream = std::os::unix::net::UnixStream::connect(rig.socket()).unwrap();
    stream.write_all(b"GET /metrics HTTP/1.1\r\nhost: localhost\r\n\r\n").unwrap();
    let mut page = String::new();
    stream.read_to_string(&mut page).unwrap();
    let own = format!("job=\"a\\\"b\",uid=\"{}\"", rustix::process::getuid());
    for expected in [
        &format!("mgcomp_job_processes{{{own}}} 1"),
        &format!("mgcomp_raw_bytes_total{{{own},peer=\"1\",algorithm=\"zvc\"}}"),
        "# TYPE mgcomp_coded_bytes_total counter",
        "mgcomp_daemon_processes 1",
    ] {
        assert!(page.contains(expected), "{expected}: {page}");
    }
    exchange.finish();
}

#[test]
fn tls_is_spoken_where_it_is_asked_for() {
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name).display().to_string();
    let (key, certificate) = (path("key"), path("certificate"));
    let names = "[req]\ndistinguished_name=dn\nx509_extensions=ext\nprompt=no\n[dn]\nCN=localhost\n[ext]\n";
    fs::write(
        path("config"),
        format!("{names}subjectAltName=IP:127.0.0.1\nbasicConstraints=critical,CA:FALSE\n"),
    )
    .unwrap();
    let made = Command::new("openssl")
        .args([
            "req",
            "-x509",
            "-newkey",
            "ec",
            "-pkeyopt",
            "ec_paramgen_curve:prime256v1",
            "-nodes",
            "-days",
            "2",
        ])
        .args(["-config", &path("config"), "-keyout", &key, "-out", &certificate])
        .output();
    if !made.as_ref().is_ok_and(|made| made.status.success()) {
        assert!(std::env::var_os("MGCOMP_REQUIRE_OPENSSL").is_none(), "openssl does not work: {made:?}");
        println!("SKIPPED: no openssl to make a certificate with");
        return;
    }
    let token = token_file(&folder, "token", TOKEN);
    let tls = ["--tls-cert", &certificate, "--tls-key", &key];
    let rig = Rig::start(&[&["--listen", ANY_PORT, "--token-file", &token][..], &tls].concat());
    let address = rig.address().to_string();

    let jobs = |more: &[&str]| {
        let args = [&["jobs", "--timeout", "100", "--token-file", &token], more].concat();
        Rig::empty().mgcomp_command(&args).output().unwrap()
    };
    let https = format!("https://{address}");
    let good = jobs(&["--address", &https, "--ca", &certificate]);
    assert!(good.status.success(), "{}", text(&good.stderr));
    // The certificate is for the number of the host, not for its name.
    let by_name = https.replace("127.0.0.1", "localhost");
    fs::write(path("empty"), "").unwrap();
    fs::write(path("two lines"), "a\nb").unwrap();
    for (args, expected) in [
        (
            &["--address", &https][..],
            format!("TLS to {address}: name the authority of its certificate with --ca"),
        ),
        (
            &["--address", &https, "--ca", &path("empty")],
            format!("{}: it holds no certificate in PEM", path("empty")),
        ),
        (&["--address", &by_name, "--ca", &certificate], "TLS to localhost:".to_owned()),
    ] {
        let stranger = jobs(args);
        assert_eq!(stranger.status.code(), Some(1), "{args:?}");
        assert!(text(&stranger.stderr).contains(&expected), "{args:?}: {}", text(&stranger.stderr));
    }
    let torn = ["jobs", "--timeout", "100", "--token-file", &path("two lines")];
    let torn = [&torn[..], &["--address", &https, "--ca", &certificate]].concat();
    let torn = Rig::empty().mgcomp_command(&torn).output().unwrap();
    let expected = format!("{}: what is in there cannot be sent as a token", path("two lines"));
    assert!(text(&torn.stderr).contains(&expected), "{}", text(&torn.stderr));
    let plain = jobs(&["--address", &format!("http://{address}")]);
    assert_eq!(plain.status.code(), Some(1), "plaintext on the TLS port");
    assert!(exchange(&address, b"GET /metrics HTTP/1.1\r\n\r\n").contains("This port speaks TLS"));
    rig.succeed(&["jobs"]);
    drop(rig);

    // The same certificate serves as that of a client, and as the authority that it comes from.
    let both =
        [&["--listen", ANY_PORT, "--token-file", &token, "--tls-client-ca", &certificate][..], &tls].concat();
    let rig = Rig::start(&both);
    let https = format!("https://{}", rig.address());
    let nobody = jobs(&["--address", &https, "--ca", &certificate]);
    assert_eq!(nobody.status.code(), Some(1), "a client without a certificate");
    let known = jobs(&["--address", &https, "--ca", &certificate, "--cert", &certificate, "--key", &key]);
    assert!(known.status.success(), "{}", text(&known.stderr));
}

//! Bytes that nobody should send.

use std::fs::File;
use std::io::{IoSlice, Read, Write};
use std::mem::MaybeUninit;
use std::net::{TcpListener, TcpStream};
use std::os::fd::AsFd;
use std::os::unix::fs::FileExt;
use std::os::unix::net::UnixStream;
use std::process::Stdio;
use std::time::Duration;

use http::Uri;
use mgcomp_proto::Channel;
use mgcomp_proto::v1::control_client::ControlClient;
use mgcomp_proto::v1::{ListJobsRequest, Settings, UpdateSettingsRequest, WatchRequest};
use mgcomp_transport::control::handover::{GREETING, NEW_SLOTS, offer};
use mgcomp_transport::control::{Identity, Page};
use rustix::net::{SendAncillaryBuffer, SendAncillaryMessage, SendFlags};
use tonic::{Code, Status};

use crate::dashboard::get;
use crate::rig::{Ended, Rig, text, until};

fn connect(rig: &Rig) -> UnixStream {
    let stream = UnixStream::connect(rig.socket()).unwrap();
    stream.set_read_timeout(Some(Duration::from_secs(30))).unwrap();
    stream
}

/// What the daemon answers before it closes the connection.
fn answer(mut stream: UnixStream) -> Vec<u8> {
    let mut answer = Vec::new();
    let _ = stream.read_to_end(&mut answer); // it may be reset too
    answer
}

#[test]
fn garbage_on_the_socket_hurts_nobody() {
    let rig = Rig::start(&[]);
    let exchange = rig.exchange("a", "fixed:bdi");
    rig.until_stream("is seen", "a", |stream| !stream["last_decision"].is_null());
    let noise: Vec<u8> = (0..100_000u32).map(|i| (i.wrapping_mul(2_654_435_761) >> 13) as u8).collect();
    let http2 = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n".to_vec();
    let mut hostile: Vec<Vec<u8>> = vec![
        noise.clone(),
        b"GET / HTTP/1.1\r\n\r\n".to_vec(),
        b"\r\n\r\n".to_vec(),
        [&http2[..], &noise].concat(),
        [&http2[..], &[0xff, 0xff, 0xff, 4, 0, 0, 0, 0, 0]].concat(),
    ];
    hostile.extend((1..=GREETING.len()).map(|len| GREETING[..len].to_vec()));
    hostile.push([&GREETING[..], &[9; 200]].concat());
    for bytes in hostile {
        let mut stream = connect(&rig);
        let _ = stream.write_all(&bytes);
        drop(stream);
        let mut stream = connect(&rig);
        let _ = stream.write_all(&bytes);
        let _ = stream.shutdown(std::net::Shutdown::Write);
        answer(stream);
    }
    rig.succeed(&["policy", "set", "fixed:rle"]);
    rig.until_stream("still steered", "a", |stream| stream["last_decision"]["decided"] == "rle");
    exchange.finish();
}

#[test]
fn files_that_are_no_page_are_refused_with_the_reason() {
    let rig = Rig::start(&[]);
    let refused = |file: &dyn AsFd| {
        let stream = connect(&rig);
        offer(&stream, file.as_fd()).unwrap();
        String::from_utf8_lossy(&answer(stream)).into_owned()
    };
    let plain = tempfile::tempfile().unwrap();
    assert!(refused(&plain).contains("not"), "a plain file");
    assert!(refused(&File::open("/dev/zero").unwrap()).contains("not "), "a device");
    let (pipe, _end) = std::io::pipe().unwrap();
    assert!(refused(&pipe).contains("not a memory file"), "a pipe");

    let mut without = connect(&rig);
    without.write_all(&[&GREETING[..], &[1, 0, 0, 0, 0, 0, 0, 0]].concat()).unwrap();
    assert!(String::from_utf8_lossy(&answer(without)).contains("exactly one file descriptor"));
    let mut newer = connect(&rig);
    newer.write_all(&[&GREETING[..], &[2, 0, 0, 0, 0, 0, 0, 0]].concat()).unwrap();
    assert!(String::from_utf8_lossy(&answer(newer)).contains("version 2"));
}

/// A file that cannot be closed, and what keeps it so: it waits for its other end, which does not read what was sent.
fn endless() -> (TcpStream, TcpStream) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let mut file = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
    let (other_end, _) = listener.accept().unwrap();
    rustix::net::sockopt::set_socket_linger(&file, Some(Duration::from_secs(3600))).unwrap();
    file.set_nonblocking(true).unwrap();
    while file.write(&[0; 1 << 16]).is_ok() {}
    (file, other_end)
}

#[test]
fn files_that_cannot_be_closed_hold_nobody_up() {
    let mut rig = Rig::start(&[]);
    // Nothing is taken before the daemon alone has it.
    rig.signal("STOP");
    let kept: Vec<_> = (0..3)
        .map(|_| {
            let (file, other_end) = endless();
            let stream = connect(&rig);
            offer(&stream, file.as_fd()).unwrap();
            (stream, other_end)
        })
        .collect();
    rig.signal("CONT");
    let mut jobs = rig.mgcomp_command(&["jobs", "--timeout", "100"]);
    jobs.arg("--socket").arg(rig.socket()).stdout(Stdio::null());
    assert!(Ended(jobs.spawn().unwrap()).wait().success());
    let exchange = rig.exchange("a", "fixed:bdi");
    rig.until_stream("pages are taken still", "a", |stream| stream["last_decision"]["decided"] == "bdi");
    rig.succeed(&["policy", "set", "fixed:rle"]);
    rig.until_stream("and steered", "a", |stream| stream["last_decision"]["decided"] == "rle");
    rig.signal("TERM");
    assert_eq!(rig.wait_daemon(), Some(0));
    exchange.finish();
    drop(kept);
}

/// Sends bytes with a file beside them that cannot be closed; gives what keeps it so.
fn send_endless(stream: &UnixStream, bytes: &[u8], flags: SendFlags) -> TcpStream {
    let (file, other_end) = endless();
    let files = [file.as_fd()];
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
    let mut beside = SendAncillaryBuffer::new(&mut space);
    assert!(beside.push(SendAncillaryMessage::ScmRights(&files)));
    let flags = flags | SendFlags::NOSIGNAL;
    let sent = rustix::net::sendmsg(stream, &[IoSlice::new(bytes)], &mut beside, flags).unwrap();
    assert_eq!(sent, bytes.len());
    other_end
}

/// Whether the daemon answers a call, and ends when it is told to.
#[track_caller]
fn goes_on(mut rig: Rig) {
    let mut jobs = rig.mgcomp_command(&["jobs", "--timeout", "100"]);
    jobs.arg("--socket").arg(rig.socket()).stdout(Stdio::null());
    assert!(Ended(jobs.spawn().unwrap()).wait().success());
    rig.signal("TERM");
    assert_eq!(rig.wait_daemon(), Some(0));
}

/// A process as far as the daemon knows: a page is handed over.
fn process(rig: &Rig) -> UnixStream {
    let (_, file) = Page::create(&Identity::of_this_process()).unwrap();
    let mut stream = connect(rig);
    offer(&stream, file.as_fd()).unwrap();
    let mut answer = [0; 8];
    stream.read_exact(&mut answer).unwrap();
    assert_eq!(answer, [0; 8], "the page is refused");
    stream
}

#[test]
fn files_beside_a_request_hold_nobody_up() {
    let rig = Rig::start(&[]);
    rig.signal("STOP");
    let request = &b"GET /metrics HTTP/1.1\r\nhost: localhost\r\n\r\n"[..];
    let preface = &b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"[..];
    let (plain, out_of_band) = (SendFlags::empty(), SendFlags::OOB);
    let ways = [
        (&b""[..], request, plain),
        (request, request, plain),
        (preface, b"x", plain),
        (b"", b"x", out_of_band),
    ];
    // Each more often than there are threads, and than a user has turns.
    let kept: Vec<_> = (0..5)
        .flat_map(|_| ways)
        .map(|(first, bytes, flags)| {
            let mut stream = connect(&rig);
            stream.write_all(first).unwrap();
            let other_end = send_endless(&stream, bytes, flags);
            stream.write_all(request).unwrap();
            (stream, other_end)
        })
        .collect();
    rig.signal("CONT");
    for (stream, _) in &kept {
        // The daemon closes it, whether or not it can close the file.
        answer(stream.try_clone().unwrap());
    }
    goes_on(rig);
}

#[test]
fn files_after_a_page_hold_nobody_up() {
    let rig = Rig::start(&[]);
    let processes: Vec<_> = (0..6).map(|_| process(&rig)).collect();
    rig.signal("STOP");
    let send = |stream| send_endless(stream, &[NEW_SLOTS], SendFlags::empty());
    let _other_ends: Vec<_> = processes.iter().map(send).collect();
    rig.signal("CONT");
    processes.into_iter().for_each(|stream| assert!(answer(stream).is_empty()));
    goes_on(rig);
}

#[test]
fn offers_that_nobody_has_time_for_hold_nobody_up() {
    let rig = Rig::start(&[]);
    // So that it is not this process which closes a file last, and waits for that.
    rig.signal("STOP");
    let mut kept: Vec<_> = (0..8)
        .map(|_| {
            let (file, other_end) = endless();
            let stream = connect(&rig);
            offer(&stream, file.as_fd()).unwrap();
            stream.set_nonblocking(true).unwrap();
            (stream, other_end)
        })
        .collect();
    rig.signal("CONT");
    let mut sent_away = 0;
    until("those without a turn are sent away", || {
        sent_away +=
            kept.iter_mut().filter(|(stream, _)| matches!((&*stream).read(&mut [0; 600]), Ok(1..))).count();
        sent_away == 4
    });
    goes_on(rig);
}

#[test]
fn files_of_who_may_not_connect_hold_nobody_up() {
    // Others than these get as far as the socket.
    let rig = Rig::start(&["--operators", "4242"]);
    rig.signal("STOP");
    let connect = |_| rig.connect_as(4243, "files_of_who_may_not_connect_hold_nobody_up");
    let Some(streams) = (0..6).map(connect).collect::<Option<Vec<_>>>() else { return };
    let send = |stream| send_endless(stream, b"GET / HTTP/1.1\r\n", SendFlags::empty());
    let _other_ends: Vec<_> = streams.iter().map(send).collect();
    rig.signal("CONT");
    streams.into_iter().for_each(|stream| assert!(answer(stream).is_empty()));
    goes_on(rig);
}

#[test]
fn an_open_connection_keeps_no_rights_that_a_reload_takes() {
    let mut rig = Rig::empty();
    let config = rig.path("daemon.toml");
    std::fs::write(&config, "operators = [4242]\n").unwrap();
    rig.start_with(&["--config", config.to_str().unwrap()]);
    let Some(stream) = rig.connect_as(4242, "an_open_connection_keeps_no_rights_that_a_reload_takes") else {
        return;
    };
    stream.set_nonblocking(true).unwrap();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let (mut looks, mut steers, mut updates) = runtime.block_on(async {
        let stream = tokio::net::UnixStream::from_std(stream).unwrap();
        let channel = Channel::open(stream, None).await.unwrap();
        let mut client = ControlClient::with_origin(channel, Uri::from_static("http://mgcomp-daemon"));
        let updates = client.watch(WatchRequest::default()).await.unwrap().into_inner();
        (client.clone(), client, updates)
    });
    let mut look = || runtime.block_on(looks.list_jobs(ListJobsRequest::default())).map(drop);
    let set = || UpdateSettingsRequest { set: Some(Settings::default()), ..Default::default() };
    let mut steer = || runtime.block_on(steers.update_settings(set())).map(drop);
    let is_denied =
        |answer: Result<(), Status>| answer.is_err_and(|error| error.code() == Code::PermissionDenied);
    assert!(!is_denied(look()) && !is_denied(steer()));
    std::fs::write(&config, "operators = [4243]\nopen_to_users = true\n").unwrap();
    rig.signal("HUP");
    until("it is no operator any more", || is_denied(steer()));
    assert!(look().is_ok());
    std::fs::write(&config, "operators = [4243]\n").unwrap();
    rig.signal("HUP");
    until("it may not even look", || is_denied(look()));
    // What it watches ends by itself.
    runtime.block_on(async {
        let ended = async { while let Ok(Some(_)) = updates.message().await {} };
        tokio::time::timeout(Duration::from_secs(60), ended).await.expect("it watches for ever");
    });
    assert!(rig.connect_as(4242, "again").is_none_or(|stream| answer(stream).is_empty()));
}

#[test]
fn who_says_nothing_whole_is_sent_away() {
    let rig = Rig::start(&[]);
    let preface = &b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"[..];
    let slow = [&b""[..], &GREETING[..3], b"GET / HT", b"GET / HTTP/1.1\r\nhost: x\r\n", &preface[..5]];
    let waiting: Vec<_> = slow
        .into_iter()
        .map(|bytes| {
            let mut stream = connect(&rig);
            stream.write_all(bytes).unwrap();
            stream
        })
        .collect();
    // A head without end is refused as soon as it is too long.
    let mut endless = connect(&rig);
    endless.write_all(b"GET / HTTP/1.1\r\n").unwrap();
    let sent = (0..100_000).try_for_each(|_| endless.write_all(b"x: 0123456789\r\n"));
    assert!(sent.is_err(), "it was read to the end");
    rig.succeed(&["jobs"]);
    // Ends when the daemon closes the connection; none of them has asked for anything.
    for mut stream in waiting {
        stream.set_read_timeout(Some(Duration::from_secs(120))).unwrap();
        let mut answer = Vec::new();
        match stream.read_to_end(&mut answer) {
            Ok(_) => assert!(!text(&answer).contains("200 OK"), "{}", text(&answer)),
            Err(error) => assert_eq!(error.kind(), std::io::ErrorKind::ConnectionReset),
        }
    }
}

#[test]
fn a_client_that_does_not_read_holds_nobody_up() {
    let rig = Rig::start(&["--max-watchers", "3"]);
    let exchange = rig.exchange("a", "fixed:bdi");
    rig.until_stream("is seen", "a", |stream| !stream["last_decision"].is_null());
    let stuck: Vec<_> = (0..3).map(|_| rig.watcher()).collect();
    rig.fail(&["watch", "--count", "1"], &["RESOURCE_EXHAUSTED"]);
    rig.succeed(&["policy", "set", "fixed:rle"]);
    rig.until_stream("others are served", "a", |stream| stream["last_decision"]["decided"] == "rle");
    drop(stuck);
    until("their places are free again", || rig.mgcomp(&["watch", "--count", "1"]).status.success());
    exchange.finish();
}

/// A connection of a user who may only look; `None` if this test may not be another.
async fn looker(rig: &Rig, uid: u32, test: &str) -> Option<ControlClient<Channel>> {
    let stream = rig.connect_as(uid, test)?;
    stream.set_nonblocking(true).unwrap();
    let channel = Channel::open(tokio::net::UnixStream::from_std(stream).unwrap(), None).await.unwrap();
    Some(ControlClient::with_origin(channel, Uri::from_static("http://mgcomp-daemon")))
}

#[test]
fn one_user_does_not_have_calls_without_end_under_way() {
    const NAME: &str = "one_user_does_not_have_calls_without_end_under_way";
    let rig = Rig::start(&["--open-to-users", "true"]);
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        let Some(mut first) = looker(&rig, 4242, NAME).await else { return };
        let mut second = looker(&rig, 4242, NAME).await.unwrap();
        let watch = async |client: &mut ControlClient<Channel>| client.watch(WatchRequest::default()).await;
        let mut watched = Vec::new();
        for _ in 0..8 {
            watched.push(watch(&mut first).await.unwrap());
            watched.push(watch(&mut second).await.unwrap());
        }
        let refused = watch(&mut second).await.unwrap_err();
        assert_eq!(refused.code(), Code::ResourceExhausted, "{refused}");
        assert!(refused.message().contains("has 16 calls under way"), "{refused}");
        // A third connection gives no more, and nobody else has less.
        let mut third = looker(&rig, 4242, NAME).await.unwrap();
        let look = async |client: &mut ControlClient<Channel>| {
            client.list_jobs(ListJobsRequest::default()).await.map(drop).map_err(|status| status.code())
        };
        assert_eq!(look(&mut third).await, Err(Code::ResourceExhausted));
        let mut other = looker(&rig, 4243, NAME).await.unwrap();
        assert_eq!(look(&mut other).await, Ok(()));
        rig.succeed(&["jobs"]);
        watched.pop();
        let freed = async {
            while look(&mut third).await.is_err() {
                tokio::time::sleep(Duration::from_millis(10)).await;
            }
        };
        tokio::time::timeout(Duration::from_secs(60), freed).await.expect("the place is not free again");
    });
}

/// A daemon in the folder of `rig`, and what it has logged by now.
fn daemon_with_log(rig: &Rig, args: &[&str]) -> (Ended, impl Fn() -> String) {
    let path = rig.path("log");
    let mut command = rig.daemon_command();
    let daemon = Ended(command.args(args).stderr(File::create(&path).unwrap()).spawn().unwrap());
    let logged = move || std::fs::read_to_string(&path).unwrap();
    until("the daemon is ready", || logged().contains(" ready "));
    (daemon, logged)
}

#[test]
fn a_user_whose_connections_are_used_up_is_named() {
    let rig = Rig::empty();
    let (_daemon, logged) = daemon_with_log(&rig, &["--open-to-users", "true"]);
    let connect = |_| {
        let mut stream = rig.connect_as(4242, "a_user_whose_connections_are_used_up_is_named")?;
        let _ = stream.write_all(b"GET / HT"); // it may have been closed by then
        Some(stream)
    };
    let Some(mut streams) = (0..65).map(connect).collect::<Option<Vec<_>>>() else { return };
    until("it is named", || {
        // Half a request is waited for only so long: where connecting takes that long too, the first ones have gone.
        streams.extend(connect(0));
        logged().contains("user 4242 may only look, and has 64")
    });
    drop(streams);
}

#[test]
fn slots_that_are_not_looked_at_are_told_of() {
    const NAME: &str = "slots_that_are_not_looked_at_are_told_of";
    let rig = Rig::empty();
    let (_daemon, logged) = daemon_with_log(&rig, &["--open-to-users", "true"]);
    // A page all of whose slots are in use, as it says.
    let process = |job: &str| {
        let identity = Identity { job: job.to_owned(), ..Identity::of_this_process() };
        let file = File::from(Page::create(&identity).unwrap().1);
        file.write_all_at(&1024u64.to_le_bytes(), 64 * 8).unwrap();
        let mut stream = rig.connect_as(4242, NAME)?;
        offer(&stream, file.as_fd()).unwrap();
        let mut answer = [0; 8];
        stream.read_exact(&mut answer).unwrap();
        assert_eq!(answer, [0; 8], "the page is refused");
        Some(stream)
    };
    let told = |slots: u32| {
        let page = get(&rig, "/metrics", "host: localhost");
        page.contains(&format!("\nmgcomp_daemon_slots_not_looked_at {slots}\n"))
    };
    let warnings = || logged().matches("name the user in `operators`").count();
    let Some(full) = (0..16).map(|_| process("full")).collect::<Option<Vec<_>>>() else { return };
    assert!(told(0) && warnings() == 0);
    let late: Vec<_> = (0..2).map(|_| process("late")).collect();
    assert!(told(2048));
    assert_eq!(warnings(), 1, "{}", logged());
    // Nobody knows who its peers are.
    rig.fail(&["off", "--job", "full", "--peer", "90"], &["peer 90"]);
    rig.succeed(&["off", "--job", "late", "--peer", "90"]);
    drop(full);
    until("all are looked at", || told(0));
    drop(late);
}

#[test]
fn a_page_is_handed_over_once() {
    let rig = Rig::start(&[]);
    let (_page, file) = Page::create(&Identity::of_this_process()).unwrap();
    let mut first = connect(&rig);
    offer(&first, file.as_fd()).unwrap();
    first.read_exact(&mut [0; 8]).unwrap();
    let second = connect(&rig);
    offer(&second, file.as_fd()).unwrap();
    assert!(text(&answer(second)).contains("this page is handed over already"));
    assert_eq!(rig.json(&["jobs"])[0]["processes"].as_array().unwrap().len(), 1);
}

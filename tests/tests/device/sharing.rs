//! Memory and events that two processes share.
#![allow(unsafe_code)] // memory of another process

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::process::{Child, ChildStdout};

use mgcomp_codecs::device::{Device, DeviceError, EventHandle, HANDLE_LEN, MemoryHandle, Stream};
use mgcomp_tests::stub::{Libraries, Stub, ends, second, told, with_stub, with_stub_that_keeps};

use crate::rig::{self, OUT_OF_MEMORY, download, upload};

/// What the second process says when it is at a place that the first one waits for.
const HERE: &str = "here";

/// The device, and a stream with a thread: only such streams wait for other processes.
fn open(stub: &Stub) -> (Device, Stream) {
    stub.set("threads", 1);
    stub.set("strict_free", 1);
    let device = rig::open();
    let stream = device.stream().unwrap();
    (device, stream)
}

fn to_text(handle: &[u8]) -> String {
    handle.iter().map(|byte| format!("{byte:02x}")).collect()
}

fn from_text(text: &str) -> [u8; HANDLE_LEN] {
    std::array::from_fn(|i| u8::from_str_radix(&text[2 * i..2 * i + 2], 16).unwrap())
}

fn code_of<T>(result: Result<T, DeviceError>) -> u32 {
    match result.map(drop).unwrap_err() {
        DeviceError::Driver { code, .. } => code,
        error => panic!("{error}"),
    }
}

/// In the second process: says that it is here, and waits until the first one lets it go on.
fn meet() {
    println!("\n{HERE}");
    std::io::stdin().read_exact(&mut [0]).unwrap();
}

/// In the first process: the second one, once it is at its place.
fn meeting(test: &str, told: &str) -> (Child, BufReader<ChildStdout>) {
    let mut process = second(test, told);
    let mut output = BufReader::new(process.stdout.take().unwrap());
    let mut line = String::new();
    while line.trim() != HERE {
        line.clear();
        assert_ne!(output.read_line(&mut line).unwrap(), 0, "the second process has ended");
    }
    (process, output)
}

/// Lets the second process go on, and waits for its good end.
fn part((mut process, mut output): (Child, BufReader<ChildStdout>)) {
    process.stdin.take().unwrap().write_all(&[0]).unwrap();
    let mut rest = String::new();
    output.read_to_string(&mut rest).unwrap();
    assert!(process.wait().unwrap().success(), "{rest}");
}

#[test]
fn a_process_writes_to_the_memory_of_another() {
    const TEST: &str = "sharing::a_process_writes_to_the_memory_of_another";
    with_stub(TEST, Libraries::DriverAndCompiler, |stub| {
        let (device, stream) = open(stub);
        if let Some(handles) = told() {
            let (memory, event) = handles.split_once(' ').unwrap();
            // SAFETY: the first process keeps it until this one has ended.
            let imported = unsafe { device.import(&MemoryHandle(from_text(memory)), 5000) }.unwrap();
            // SAFETY: as above.
            let again = unsafe { device.import(&MemoryHandle(from_text(memory)), 100) }.unwrap();
            assert_eq!(again.region().address(), imported.region().address());
            // SAFETY: as above.
            let short = unsafe { device.import(&MemoryHandle(from_text(memory)), 5001) }.map(drop);
            let what = "an opened buffer";
            assert_eq!(short, Err(DeviceError::TooShort { what, needed: 5001, got: 5000 }));
            // What was opened is closed if what comes then fails.
            stub.fail(Some("cuMemGetAddressRange_v2"), 1, OUT_OF_MEMORY);
            // SAFETY: as above.
            assert_eq!(code_of(unsafe { device.import(&MemoryHandle(from_text(memory)), 1) }), OUT_OF_MEMORY);
            let event = device.import_event(&EventHandle(from_text(event))).unwrap();
            assert_eq!(download(&stream, imported.region()).unwrap(), [1; 5000]);
            let own = upload(&device, &stream, &[2; 5000]).unwrap();
            stream.copy(own.region(), imported.region()).unwrap();
            stream.record(&event).unwrap();
            meet();
            stream.wait().unwrap();
            return;
        }
        let memory = upload(&device, &stream, &[1; 5000]).unwrap();
        let event = device.shared_milestone().unwrap();
        let handles = [memory.export().unwrap().0, event.export().unwrap().0];
        let process = meeting(TEST, &handles.map(|handle| to_text(&handle)).join(" "));
        stream.follow_event(&event).unwrap();
        event.wait().unwrap();
        assert_eq!(download(&stream, memory.region()).unwrap(), [2; 5000]);
        part(process);
        assert_eq!(code_of(device.milestone().unwrap().export()), 400);
    });
}

#[test]
fn handles_that_are_none_are_refused() {
    const TEST: &str = "sharing::handles_that_are_none_are_refused";
    with_stub(TEST, Libraries::DriverAndCompiler, |stub| {
        let (device, stream) = open(stub);
        let memory = upload(&device, &stream, &[1; 5000]).unwrap();
        if told().is_some() {
            println!("\n{}", to_text(&memory.export().unwrap().0));
            return meet();
        }
        // SAFETY: none of them can be opened.
        let import = |handle: &MemoryHandle| unsafe { device.import(handle, 1) };
        assert_eq!(code_of(import(&memory.export().unwrap())), 201, "in the process that has exported it");
        assert_eq!(code_of(import(&MemoryHandle([7; HANDLE_LEN]))), 400);
        assert_eq!(code_of(device.import_event(&EventHandle([7; HANDLE_LEN]))), 400);
        stub.set("no_ipc", 1);
        assert_eq!(code_of(memory.export()), 801);
        stub.set("no_ipc", 0);

        let mut process = second(TEST, "export");
        // Kept until the process has ended: it has more to say, and would end early if nobody could hear it.
        let mut lines = BufReader::new(process.stdout.take().unwrap()).lines();
        let text = lines.by_ref().map(Result::unwrap).find(|line| line.len() == 2 * HANDLE_LEN).unwrap();
        let theirs = MemoryHandle(from_text(&text));
        let mut other = theirs;
        other.0[0] ^= 1;
        assert_eq!(code_of(import(&other)), 400);
        // SAFETY: the process lives, and it ends at once when it is killed.
        drop(unsafe { device.import(&theirs, 5000) }.unwrap());
        process.kill().unwrap();
        process.wait().unwrap();
        drop(lines);
        assert_eq!(code_of(import(&theirs)), 400, "of a process that has ended");
    });
}

#[test]
fn memory_that_another_process_has_open_is_not_freed_unnoticed() {
    const TEST: &str = "sharing::memory_that_another_process_has_open_is_not_freed_unnoticed";
    ends(TEST, "memory is freed that another process has open", |stub| {
        let (device, stream) = open(stub);
        if let Some(handle) = told() {
            // SAFETY: it is not used.
            let imported = unsafe { device.import(&MemoryHandle(from_text(&handle)), 100) }.unwrap();
            meet();
            return drop(imported);
        }
        let memory = upload(&device, &stream, &[1; 100]).unwrap();
        let _process = meeting(TEST, &to_text(&memory.export().unwrap().0));
        drop(memory);
    });
}

#[test]
fn memory_that_work_uses_is_not_closed_unnoticed() {
    const TEST: &str = "sharing::memory_that_work_uses_is_not_closed_unnoticed";
    with_stub(TEST, Libraries::DriverAndCompiler, |stub| {
        let (device, stream) = open(stub);
        if let Some(handle) = told() {
            // SAFETY: the misuse is the point.
            let imported = unsafe { device.import(&MemoryHandle(from_text(&handle)), 100) }.unwrap();
            let word = device.alloc(8).unwrap();
            stream.zero(word.region()).unwrap();
            stream.wait_for(word.region().word(0), 1).unwrap();
            stream.zero(imported.region()).unwrap();
            drop(imported);
            return;
        }
        let memory = upload(&device, &stream, &[1; 100]).unwrap();
        let output = second(TEST, &to_text(&memory.export().unwrap().0)).wait_with_output().unwrap();
        assert!(!output.status.success(), "not found");
        // Its hold is gone with it.
        drop(memory);
    });
}

/// The file behind what the first process names as `pid/number`.
fn file_of(named: &str) -> std::fs::File {
    let (process, number) = named.split_once('/').unwrap();
    let path = format!("/proc/{process}/fd/{number}");
    std::fs::OpenOptions::new().read(true).write(true).open(path).unwrap()
}

#[test]
fn memory_behind_a_file_lasts_as_long_as_anybody_has_it() {
    const TEST: &str = "sharing::memory_behind_a_file_lasts_as_long_as_anybody_has_it";
    const LEN: u64 = (2 << 20) + 5;
    with_stub(TEST, Libraries::DriverAndCompiler, |stub| {
        let (device, stream) = open(stub);
        if let Some(named) = told() {
            let mapped = device.map_shareable(file_of(&named), LEN).unwrap();
            assert_eq!(download(&stream, mapped.region().slice(0..5000)).unwrap(), [1; 5000]);
            let own = upload(&device, &stream, &[2; 5000]).unwrap();
            stream.copy(own.region(), mapped.region().slice(LEN - 5000..LEN)).unwrap();
            stream.wait().unwrap();
            meet();
            // By now the other side has let go.
            assert_eq!(download(&stream, mapped.region().slice(0..5000)).unwrap(), [1; 5000]);
            return;
        }
        let memory = device.alloc_shareable(LEN).unwrap();
        assert_eq!((memory.region().len(), stub.left().contains("1 mapped")), (LEN, true));
        stream.upload(&[1; 5000], memory.region()).unwrap();
        let file = memory.export().unwrap();
        // Also where it comes from.
        let again = device.map_shareable(&file, 5000).unwrap();
        assert_eq!(download(&stream, again.region()).unwrap(), [1; 5000]);
        let named = format!("{}/{}", std::process::id(), std::os::fd::AsRawFd::as_raw_fd(&file));
        let process = meeting(TEST, &named);
        assert_eq!(download(&stream, memory.region().slice(LEN - 5000..LEN)).unwrap(), [2; 5000]);
        drop((memory, again));
        part(process);
    });
}

#[test]
fn what_nobody_can_wait_for_stays_mapped() {
    const TEST: &str = "sharing::what_nobody_can_wait_for_stays_mapped";
    with_stub_that_keeps(TEST, Libraries::DriverAndCompiler, |stub| {
        let (device, stream) = open(stub);
        let [first, second] = [(); 2].map(|()| device.alloc_shareable(5000).unwrap());
        drop(first);
        assert!(stub.left().contains("1 mapped"), "{}", stub.left());
        // To wait for all work of a context is no call for while a stream of it records.
        let recorded = stream.capture(|| {
            drop(second);
            Ok(())
        });
        assert_eq!(code_of(recorded), 901);
        assert!(stub.left().contains("1 mapped"), "{}", stub.left());
    });
}

#[test]
fn files_and_lengths_that_are_none_are_refused() {
    const TEST: &str = "sharing::files_and_lengths_that_are_none_are_refused";
    with_stub(TEST, Libraries::DriverAndCompiler, |stub| {
        stub.set("devices", 2);
        let (device, _) = open(stub);
        let memory = device.alloc_shareable(100).unwrap();
        let file = memory.export().unwrap();
        let other = Device::open_with(1, mgcomp_codecs::device::Cache::Off).unwrap();
        drop(other.map_shareable(&file, 100).unwrap());
        let null = std::fs::File::open("/dev/null").unwrap();
        assert_eq!(code_of(device.map_shareable(&null, 100)), 1, "no file of the driver's");
        assert_eq!(code_of(device.map_shareable(&file, 3 << 20)), 1, "longer than it is");
        for len in [u64::MAX, u64::MAX - 1, 1 << 62] {
            assert_ne!(code_of(device.map_shareable(&file, len)), 0);
            assert_ne!(code_of(device.alloc_shareable(len)), 0);
        }
        stub.set("no_peers", 1);
        // A device out of reach says so at once, whatever it is doing.
        let ([working, second], word) = ([(); 2].map(|()| other.stream().unwrap()), other.alloc(8).unwrap());
        second.zero(word.region()).unwrap();
        second.wait().unwrap();
        working.wait_for(word.region().word(0), 1).unwrap();
        assert_eq!(code_of(other.map_shareable(&file, 100)), 217);
        second.post(word.region().word(0), 1).unwrap();
        working.wait().unwrap();
        stub.set("no_vmm", 1);
        assert_eq!(code_of(device.alloc_shareable(100)), 801);
        assert_eq!(code_of(device.map_shareable(&file, 100)), 801);
    });
}

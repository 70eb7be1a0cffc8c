//! Where the driver, the compiler and the kernels come from, and what is said when they do not.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;

use mgcomp_codecs::Algorithm;
use mgcomp_codecs::device::{
    Cache, Capability, Compiler, Device, DeviceError, KernelSource, Origin, devices,
};
use mgcomp_codecs::frame::ChunkSize;
use mgcomp_tests::stub::{Libraries, in_process, with_stub};
use sha2::{Digest as _, Sha256};

use crate::rig;

fn origin(cache: Cache) -> Result<Origin, DeviceError> {
    let device = Device::open_with(0, cache)?;
    Ok(device.coder(Algorithm::Zvc, ChunkSize::DEFAULT)?.origin())
}

#[test]
fn there_is_a_device() {
    with_stub("loading::there_is_a_device", Libraries::DriverAndCompiler, |_| {
        let found = devices().unwrap();
        assert_eq!(found.len(), 1);
        assert_eq!(found[0], *rig::open().info());
        assert_eq!(found[0].name, "CPU shim");
        assert_eq!(found[0].capability, Capability { major: 9, minor: 0 });
        assert_eq!((found[0].sm_count, found[0].shared_bytes), (3, 227 << 10));
        assert_eq!((found[0].memory_bytes, found[0].driver_version), (1 << 30, 13000));
        let error = Device::open(1).unwrap_err();
        assert_eq!(error.to_string(), "there is no CUDA device 1; 1 are there");
    });
}

#[test]
fn no_driver() {
    in_process("loading::no_driver", Libraries::Own, || match Device::open(0) {
        Err(DeviceError::NoDriver) => assert_eq!(devices(), Err(DeviceError::NoDriver)),
        _ => eprintln!("SKIPPED: no_driver: this machine has a driver"),
    });
}

#[test]
fn what_later_drivers_have_is_asked_for_where_it_is_needed() {
    let test = "loading::what_later_drivers_have_is_asked_for_where_it_is_needed";
    with_stub(test, Libraries::OlderDriverAndCompiler, |_| {
        assert_eq!(origin(Cache::Off), Ok(Origin::Compiled));
        let device = Device::open(0).unwrap();
        let (stream, words) = (device.stream().unwrap(), device.alloc(8).unwrap());
        let missing = |symbol| DeviceError::MissingSymbol { library: "the CUDA driver", symbol };
        let word = || words.region().word(0);
        assert_eq!(stream.post(word(), 1).unwrap_err(), missing("cuStreamWriteValue32_v2"));
        assert_eq!(stream.wait_for(word(), 1).unwrap_err(), missing("cuStreamWaitValue32_v2"));
        let nothing = stream.capture(|| Ok::<(), DeviceError>(()));
        assert_eq!(nothing.err(), Some(missing("cuGraphInstantiateWithFlags")));
        stream.wait().unwrap();
    });
}

#[test]
fn no_compiler() {
    with_stub("loading::no_compiler", Libraries::Driver, |stub| {
        if Compiler::instance().is_ok() {
            eprintln!("SKIPPED: no_compiler: this machine has the compiler");
            return;
        }
        // Drivers of CUDA 13.0, 12.8 and 11.0.
        for version in [13000, 12080, 11000] {
            stub.set("driver_version", version);
            assert_eq!(origin(Cache::Off), Ok(Origin::Shipped), "{version}");
        }
        // One that is older than the PTX.
        stub.set("driver_version", 10020);
        let error = origin(Cache::Off).unwrap_err();
        let text = "no kernels of zvc for this device: no CUDA run-time compiler: libnvrtc is missing or does \
                    not load; and of the PTX that ships: cuModuleLoadData failed: CUDA error 222 \
                    (CUDA_ERROR_UNSUPPORTED_PTX_VERSION)";
        assert_eq!(error.to_string(), text);
    });
}

#[test]
fn a_variable_names_the_compiler() {
    with_stub("loading::a_variable_names_the_compiler", Libraries::DriverAndCompilerInFolder, |_| {
        assert_eq!(origin(Cache::Off), Ok(Origin::Compiled));
        assert_eq!(Compiler::instance().unwrap().version(), (13, 0));
    });
}

#[test]
fn a_variable_that_names_no_compiler_is_an_error() {
    let test = "loading::a_variable_that_names_no_compiler_is_an_error";
    with_stub(test, Libraries::DriverAndCompilerNotInFolder, |_| {
        let folder = std::env::var("MGCOMP_NVRTC").unwrap();
        // The system would find one, and there is PTX.
        let error = origin(Cache::Off).unwrap_err();
        assert_eq!(error.to_string(), format!("MGCOMP_NVRTC is {folder:?}: it has no libnvrtc.so"));
    });
}

#[test]
fn devices_that_are_too_old_or_too_new() {
    with_stub("loading::devices_that_are_too_old_or_too_new", Libraries::DriverAndCompiler, |stub| {
        stub.set("capability", 75);
        let error = origin(Cache::Off).unwrap_err();
        assert_eq!(error.to_string(), "the device has compute capability 7.5; the kernels need 8.0");
        for (capability, expected) in
            [(80, Origin::Compiled), (103, Origin::Compiled), (121, Origin::Compiled), (130, Origin::Shipped)]
        {
            stub.set("capability", capability);
            assert_eq!(origin(Cache::Off), Ok(expected), "{capability}");
        }
        // Neither: the compiler does not know the device, nor the driver the PTX.
        stub.set("driver_version", 10020);
        let error = origin(Cache::Off).unwrap_err();
        let DeviceError::NotLoaded { kernels: "zvc", compiled, .. } = error else { panic!("{error}") };
        let text = "nvrtcCompileProgram failed for zvc/zvc.cu, sm_130: NVRTC error 5\nnvrtc: error: invalid value \
                    for --gpu-architecture";
        assert_eq!(compiled.to_string(), text);
    });
}

#[test]
fn a_source_that_does_not_compile() {
    with_stub("loading::a_source_that_does_not_compile", Libraries::DriverAndCompiler, |_| {
        let mut bad = *KernelSource::of(Algorithm::Zvc).unwrap();
        bad.text = "#include \"nothing.cuh\"\n";
        let error = Compiler::instance().unwrap().compile(&bad, "sm_90".parse().unwrap()).unwrap_err();
        let DeviceError::Compiler { call: "nvrtcCompileProgram", code: 6, log, .. } = error else {
            panic!("{error}")
        };
        assert!(log.contains("cannot open source file \"nothing.cuh\""), "{log}");
    });
}

#[test]
fn every_call_of_the_compiler_may_fail() {
    let test = "loading::every_call_of_the_compiler_may_fail";
    with_stub(test, Libraries::DriverAndCompiler, |stub| {
        // Loaded once, so that its version was asked for.
        let compiler = Compiler::instance().unwrap();
        let zvc = KernelSource::of(Algorithm::Zvc).unwrap();
        let calls = [
            "nvrtcCreateProgram",
            "nvrtcCompileProgram",
            "nvrtcGetCUBINSize",
            "nvrtcGetCUBIN",
            "nvrtcGetProgramLogSize",
            "nvrtcGetProgramLog",
        ];
        for (at, expected) in (1..).zip(calls) {
            stub.fail_compiler(at, 11);
            let error = compiler.compile(zvc, "sm_90".parse().unwrap()).unwrap_err();
            let DeviceError::Compiler { call, code: 11, .. } = error else { panic!("{error}") };
            assert_eq!(call, expected);
            assert_eq!(stub.count("programs"), 0, "left after {call}");
            stub.fail_compiler(at, 11);
            assert_eq!(origin(Cache::Off), Ok(Origin::Shipped), "{call}");
        }
        stub.fail_compiler(7, 11);
        assert_eq!(origin(Cache::Off), Ok(Origin::Compiled));
    });
}

#[test]
fn algorithms_without_kernels() {
    with_stub("loading::algorithms_without_kernels", Libraries::DriverAndCompiler, |_| {
        let device = rig::open();
        for algorithm in [Algorithm::None, Algorithm::Deflate] {
            let error = device.coder(algorithm, ChunkSize::DEFAULT).unwrap_err();
            assert_eq!(error, DeviceError::NoKernels(algorithm));
        }
    });
}

#[test]
fn too_little_shared_memory() {
    with_stub("loading::too_little_shared_memory", Libraries::DriverAndCompiler, |stub| {
        stub.set("shared_len", 99 << 10);
        let device = rig::open();
        device.coder(Algorithm::Zvc, ChunkSize::DEFAULT).unwrap();
        // Two chunks of 64 KiB, and what the kernel takes besides.
        let error = device.coder(Algorithm::Zvc, ChunkSize::LARGE).unwrap_err();
        let what = "the shared memory of a block";
        let DeviceError::TooShort { what: got, needed, got: 101_376 } = error else { panic!("{error}") };
        assert!(got == what && needed > 128 << 10, "{got} {needed}");
    });
}

/// The only file in a folder.
fn only_file(folder: &Path) -> std::path::PathBuf {
    let files: Vec<_> = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()).collect();
    assert_eq!(files.len(), 1, "{files:?}");
    files[0].clone()
}

#[test]
fn kernels_are_compiled_once() {
    with_stub("loading::kernels_are_compiled_once", Libraries::DriverAndCompiler, |stub| {
        let folder = tempfile::tempdir().unwrap();
        let cache = Cache::At(folder.path().join("not/there/yet"));
        assert_eq!(origin(cache.clone()), Ok(Origin::Compiled));
        assert_eq!(origin(cache.clone()), Ok(Origin::Cached));
        assert_eq!(origin(Cache::Off), Ok(Origin::Compiled));

        let file = only_file(&folder.path().join("not/there/yet"));
        assert!(file.to_str().unwrap().contains("zvc-sm_90-"), "{}", file.display());
        stub.set("capability", 100);
        assert_eq!(origin(cache.clone()), Ok(Origin::Compiled), "another device");
        stub.set("capability", 90);

        let good = fs::read(&file).unwrap();
        let mut flipped = good.clone();
        *flipped.last_mut().unwrap() ^= 1;
        let mut of_another_source = good.clone();
        of_another_source[16] ^= 1;
        let too_short = good[..60].to_vec();
        let without_image = good[..80].to_vec();
        let damaged = [Vec::new(), b"hello".to_vec(), flipped, of_another_source, too_short, without_image];
        for bytes in damaged {
            fs::write(&file, &bytes).unwrap();
            assert_eq!(origin(cache.clone()), Ok(Origin::Compiled), "{} bytes", bytes.len());
            assert_eq!(fs::read(&file).unwrap(), good, "not replaced");
            assert_eq!(origin(cache.clone()), Ok(Origin::Cached));
        }
    });
}

#[test]
fn a_cached_image_that_the_driver_refuses_is_replaced() {
    let test = "loading::a_cached_image_that_the_driver_refuses_is_replaced";
    with_stub(test, Libraries::DriverAndCompiler, |stub| {
        let folder = tempfile::tempdir().unwrap();
        let cache = Cache::At(folder.path().to_owned());
        assert_eq!(origin(cache.clone()), Ok(Origin::Compiled));
        stub.fail(Some("cuModuleLoadData"), 1, 209);
        assert_eq!(origin(cache.clone()), Ok(Origin::Compiled));
        // Other errors are not about the image.
        stub.fail(Some("cuModuleLoadData"), 1, rig::OUT_OF_MEMORY);
        assert!(origin(cache.clone()).unwrap_err().is_out_of_memory());
        assert_eq!(origin(cache), Ok(Origin::Cached));
    });
}

/// Makes `file` of a cache hold another image, as if it had been compiled.
fn forge(file: &Path, image: &[u8]) {
    let mut content = fs::read(file).unwrap()[..48].to_vec();
    content.extend(Sha256::digest(image));
    content.extend(image);
    fs::write(file, content).unwrap();
}

#[test]
fn a_cached_image_that_is_not_what_its_name_says_is_replaced() {
    let test = "loading::a_cached_image_that_is_not_what_its_name_says_is_replaced";
    with_stub(test, Libraries::DriverAndCompiler, |stub| {
        let folder = tempfile::tempdir().unwrap();
        let cache = Cache::At(folder.path().to_owned());
        assert_eq!(origin(cache.clone()), Ok(Origin::Compiled));
        let file = only_file(folder.path());
        let good = fs::read(&file).unwrap();
        let without_kernels = &b"STUB CUBIN sm_90\nbdi/bdi.cu\n"[..];
        // The driver would take this; its only section lies behind its end.
        let mut cut = [0; 128];
        cut[..6].copy_from_slice(b"\x7fELF\x02\x01");
        (cut[40], cut[58], cut[60]) = (64, 64, 1);
        (cut[64 + 4], cut[64 + 24], cut[64 + 32]) = (1, 64, 65);
        for image in [without_kernels, &cut] {
            forge(&file, image);
            assert_eq!(origin(cache.clone()), Ok(Origin::Compiled), "{image:?}");
            assert_eq!(fs::read(&file).unwrap(), good, "not replaced");
            assert_eq!(origin(cache.clone()), Ok(Origin::Cached));
            // Without a compiler it is thrown away as well.
            forge(&file, image);
            stub.fail_compiler(1, 11);
            assert_eq!(origin(cache.clone()), Ok(Origin::Shipped), "{image:?}");
            assert!(!file.exists());
            assert_eq!(origin(cache.clone()), Ok(Origin::Compiled));
        }
        // One that ends where its section does is taken.
        cut[64 + 32] = 64;
        forge(&file, &cut);
        assert_eq!(origin(cache), Ok(Origin::Cached));
    });
}

#[test]
fn a_cache_that_others_may_write_to_is_not_used() {
    let test = "loading::a_cache_that_others_may_write_to_is_not_used";
    with_stub(test, Libraries::DriverAndCompiler, |_| {
        let folder = tempfile::tempdir().unwrap();
        let cache = Cache::At(folder.path().to_owned());
        let set_mode =
            |path: &Path, mode| fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
        set_mode(folder.path(), 0o777);
        assert_eq!(origin(cache.clone()), Ok(Origin::Compiled));
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 0);
        set_mode(folder.path(), 0o700);
        assert_eq!(origin(cache.clone()), Ok(Origin::Compiled));
        set_mode(&only_file(folder.path()), 0o666);
        assert_eq!(origin(cache.clone()), Ok(Origin::Compiled));
        assert_eq!(origin(cache), Ok(Origin::Cached));
    });
}

#[test]
fn a_cache_that_cannot_be_written_changes_nothing() {
    let test = "loading::a_cache_that_cannot_be_written_changes_nothing";
    with_stub(test, Libraries::DriverAndCompiler, |_| {
        let file = tempfile::NamedTempFile::new().unwrap();
        for folder in [file.path().to_owned(), file.path().join("below a file")] {
            assert_eq!(origin(Cache::At(folder.clone())), Ok(Origin::Compiled));
            assert_eq!(origin(Cache::At(folder)), Ok(Origin::Compiled));
        }
    });
}

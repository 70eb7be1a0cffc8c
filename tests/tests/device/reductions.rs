//! Numbers of several ranks, combined by the kernel.
#![allow(unsafe_code)] // launches a graph

use mgcomp_codecs::device::{Buffer, Cache, Device, DeviceError, Reduction, Region, Stream};
use mgcomp_codecs::reduction::{Datatype, Operation, combine, finish};
use mgcomp_tests::data::{self, Kind};
use mgcomp_tests::stub::{Libraries, with_stub};

use crate::rig;

fn of_rank(rank: u32, len: usize) -> Vec<u8> {
    data::bytes(Kind::Mixed, len, 70 + u64::from(rank))
}

/// What portable code makes of the numbers of so many ranks.
fn expected(datatype: Datatype, operation: Operation, ranks: u32, len: usize) -> Vec<u8> {
    let mut left = of_rank(0, len);
    (1..ranks).for_each(|rank| combine(operation, datatype, &mut left, &of_rank(rank, len)));
    finish(operation, datatype, &mut left, ranks);
    left
}

/// A buffer that holds these bytes.
fn holding(device: &Device, stream: &Stream, bytes: &[u8]) -> Result<Buffer, DeviceError> {
    let buffer = device.alloc(bytes.len() as u64)?;
    stream.upload(bytes, buffer.region())?;
    Ok(buffer)
}

fn bytes_of(stream: &Stream, region: Region<'_>) -> Result<Vec<u8>, DeviceError> {
    let mut bytes = vec![0; region.len() as usize];
    stream.download(region, &mut bytes)?;
    Ok(bytes)
}

/// The numbers of all ranks one behind the other.
fn together(ranks: u32, len: usize) -> Vec<u8> {
    (0..ranks).flat_map(|rank| of_rank(rank, len)).collect()
}

#[test]
fn numbers_are_those_of_portable_code() {
    with_stub("reductions::numbers_are_those_of_portable_code", Libraries::DriverAndCompiler, |stub| {
        let device = rig::open();
        let (stream, reducer) = (device.stream().unwrap(), device.reducer().unwrap());
        for (n, datatype) in Datatype::ALL.into_iter().enumerate() {
            for (k, operation) in Operation::ALL.into_iter().enumerate() {
                let (ranks, len) = (1 + (n + k) as u32 % 4, [0, 8, 1000, 8 << 10, 100_008][(n + k) % 5]);
                let all = holding(&device, &stream, &together(ranks, len)).unwrap();
                let result = device.alloc(len as u64).unwrap();
                stream.wait().unwrap();
                let launches = stub.count("launches");
                let reduction = Reduction {
                    datatype,
                    operation,
                    ranks,
                    numbers: all.region(),
                    stride: len as u64,
                    own: None,
                    result: result.region(),
                };
                reducer.reduce(&stream, &reduction).unwrap();
                assert_eq!(stub.count("launches"), launches, "somebody waited");
                let got = bytes_of(&stream, result.region()).unwrap();
                assert_eq!(stub.count("launches") - launches, u64::from(len > 0));
                assert!(
                    got == expected(datatype, operation, ranks, len),
                    "{operation} of {datatype}, {len} bytes"
                );
            }
        }
    });
}

#[test]
fn own_numbers_may_lie_where_the_result_goes_also_in_a_graph() {
    let test = "reductions::own_numbers_may_lie_where_the_result_goes_also_in_a_graph";
    with_stub(test, Libraries::DriverAndCompiler, |_| {
        let device = rig::open();
        let (stream, reducer) = (device.stream().unwrap(), device.reducer().unwrap());
        let (ranks, len, datatype, operation) = (3, 4004, Datatype::F32, Operation::Avg);
        for rank in 0..ranks {
            let mut bytes = together(ranks, len);
            bytes[rank as usize * len..][..len].fill(0xee);
            let (all, own) = (holding(&device, &stream, &bytes).unwrap(), device.alloc(len as u64).unwrap());
            let reduction = Reduction {
                datatype,
                operation,
                ranks,
                numbers: all.region(),
                stride: len as u64,
                own: Some((rank, own.region())),
                result: own.region(),
            };
            let graph = stream.capture(|| reducer.reduce(&stream, &reduction)).unwrap();
            for _ in 0..2 {
                stream.upload(&of_rank(rank, len), own.region()).unwrap();
                // SAFETY: all that the graph uses outlives the work, which is waited for.
                unsafe { graph.launch(&stream).unwrap() };
                let got = bytes_of(&stream, own.region()).unwrap();
                assert!(got == expected(datatype, operation, ranks, len), "rank {rank}");
            }
        }
    });
}

#[test]
fn regions_must_fit() {
    with_stub("reductions::regions_must_fit", Libraries::DriverAndCompiler, |stub| {
        let device = rig::open();
        let (stream, reducer) = (device.stream().unwrap(), device.reducer().unwrap());
        let memory = device.alloc(1000).unwrap();
        let at = |range| memory.slice(range);
        let good = Reduction {
            datatype: Datatype::F32,
            operation: Operation::Sum,
            ranks: 3,
            numbers: at(0..300),
            stride: 100,
            own: None,
            result: at(300..400),
        };
        let refused = |reduction: Reduction<'_>| reducer.reduce(&stream, &reduction).unwrap_err();
        let short = |what, needed, got| DeviceError::TooShort { what, needed, got };
        let width = refused(Reduction { result: at(300..302), ..good });
        assert_eq!(width, DeviceError::Width { len: 2, datatype: Datatype::F32 });
        assert_eq!(width.to_string(), "2 bytes are no whole number of f32");
        let what = "the numbers of all ranks";
        assert_eq!(refused(Reduction { numbers: at(0..299), ..good }), short(what, 300, 299));
        assert_eq!(refused(Reduction { stride: u64::MAX, ..good }), short(what, u64::MAX, 300));
        let own = Some((2, at(400..499)));
        assert_eq!(refused(Reduction { own, ..good }), short("the own numbers", 100, 99));
        // With the own ones last, the others end before.
        let own = Some((2, at(300..400)));
        reducer.reduce(&stream, &Reduction { own, numbers: at(0..200), ..good }).unwrap();
        let what = "the numbers of other ranks";
        let overlap = refused(Reduction { result: at(296..396), ..good });
        assert_eq!(overlap, DeviceError::Overlap { what });
        assert_eq!(overlap.to_string(), "the numbers of other ranks and the result have bytes in common");
        let own = Some((0, at(304..404)));
        assert_eq!(refused(Reduction { own, ..good }), DeviceError::Overlap { what: "the own numbers" });
        stream.wait().unwrap();
        assert_eq!(stub.count("launches"), 1);
        // Nothing is the result of no ranks, and of no numbers.
        reducer.reduce(&stream, &Reduction { ranks: 0, ..good }).unwrap();
        reducer.reduce(&stream, &Reduction { result: at(300..300), ..good }).unwrap();
        stream.wait().unwrap();
        assert_eq!(stub.count("launches"), 1);
    });
}

#[test]
fn every_call_may_fail() {
    with_stub("reductions::every_call_may_fail", Libraries::DriverAndCompiler, |stub| {
        let (datatype, operation, len) = (Datatype::Bf16, Operation::Sum, 1000);
        let run = || -> Result<bool, DeviceError> {
            let device = Device::open_with(0, Cache::Off)?;
            let (stream, reducer) = (device.stream()?, device.reducer()?);
            let all = holding(&device, &stream, &together(2, len))?;
            let result = device.alloc(len as u64)?;
            let (numbers, result) = (all.region(), result.region());
            let stride = len as u64;
            let reduction = Reduction { datatype, operation, ranks: 2, numbers, stride, own: None, result };
            reducer.reduce(&stream, &reduction)?;
            Ok(bytes_of(&stream, result)? == expected(datatype, operation, 2, len))
        };
        stub.fail_each_call(run);
    });
}

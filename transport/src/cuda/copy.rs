//! Copies that somebody waits for.

use mgcomp_codecs::device::DeviceError;

use crate::memory::Slice;

/// Copies `from` to `into`, which is as long, also where one of them is on a device. Waits until it is done, also in a thread that
/// records.
pub(crate) fn copy(from: &Slice, into: &Slice) -> Result<(), DeviceError> {
    match (from, into) {
        (Slice::Device(slice), _) | (_, Slice::Device(slice)) => {
            slice.device().relaxed(|| copy_now(from, into))
        }
        _ => copy_now(from, into),
    }
}

fn copy_now(from: &Slice, into: &Slice) -> Result<(), DeviceError> {
    match (from, into) {
        (Slice::Device(from), Slice::Device(into)) => {
            let (from, into) = (from.hold(), into.hold_mut());
            let stream = into.slice().device().stream()?;
            from.slice().order(&stream)?;
            into.slice().order(&stream)?;
            // By address alone, memory would have to be such that devices reach each other's.
            let [from, into] = [from.slice(), into.slice()].map(|slice| (slice.device(), slice.region()));
            let copied = stream.copy_between(from, into);
            copied.and(stream.wait()) // also after an error: the memory must not be let go before
        }
        (Slice::Host(from), Slice::Device(into)) => {
            let (from, into) = (from.hold(), into.hold_mut());
            let stream = into.slice().device().stream()?;
            into.slice().order(&stream)?;
            stream.upload(&from, into.slice().region())
        }
        (Slice::Device(from), Slice::Host(into)) => {
            let (from, mut into) = (from.hold(), into.hold_mut());
            let stream = from.slice().device().stream()?;
            from.slice().order(&stream)?;
            stream.download(from.slice().region(), &mut into)
        }
        (Slice::Host(from), Slice::Host(into)) => {
            into.write(|into| from.read(|from| into.copy_from_slice(from)));
            Ok(())
        }
    }
}

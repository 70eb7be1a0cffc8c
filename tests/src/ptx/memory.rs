//! Memory whose every access is checked: it stays within one object, on a multiple of its length.

use super::fault::Problem;
use super::parse::DYNAMIC_AT;

/// Distance of buffers: no offset that fits into 32 bits leads from one to another.
const STRIDE: u64 = 1 << 36;

/// Global memory: buffers far from each other.
#[derive(Clone, Debug, Default)]
pub struct Global {
    buffers: Vec<Buffer>,
}

#[derive(Clone, Debug)]
struct Buffer {
    /// Address of its first byte.
    at: u64,
    bytes: Vec<u8>,
    writable: bool,
}

impl Global {
    /// Adds a buffer of these bytes that starts `offset` bytes behind a multiple of 256, and gives its address.
    pub fn add(&mut self, bytes: Vec<u8>, offset: u64, writable: bool) -> u64 {
        let at = STRIDE * (self.buffers.len() as u64 + 1) + offset;
        self.buffers.push(Buffer { at, bytes, writable });
        at
    }

    /// The bytes of the buffer at `address`.
    ///
    /// # Panics
    /// If none starts there.
    #[must_use]
    pub fn bytes(&self, address: u64) -> &[u8] {
        let buffer = self.buffers.iter().find(|buffer| buffer.at == address);
        &buffer.expect("the address of a buffer").bytes
    }

    pub(super) fn load(&self, address: u64, width: u32) -> Result<u64, Problem> {
        let index = usize::try_from((address / STRIDE).wrapping_sub(1)).unwrap_or(usize::MAX);
        let within = |buffer: &Buffer| Some(number(buffer.bytes.get(range(buffer, address, width)?)?));
        let found = self.buffers.get(index).and_then(within);
        found.ok_or(Problem::Outside { address, len: width.into() })
    }

    pub(super) fn store(&mut self, address: u64, width: u32, value: u64) -> Result<(), Problem> {
        let outside = Problem::Outside { address, len: width.into() };
        let index = usize::try_from((address / STRIDE).wrapping_sub(1)).unwrap_or(usize::MAX);
        let buffer = self.buffers.get_mut(index).ok_or(outside)?;
        let range = range(buffer, address, width).ok_or(outside)?;
        let bytes = buffer.bytes.get_mut(range).ok_or(outside)?;
        if !buffer.writable {
            return Err(Problem::ReadOnly { address });
        }
        bytes.copy_from_slice(&value.to_le_bytes()[..width as usize]);
        Ok(())
    }
}

fn range(buffer: &Buffer, address: u64, width: u32) -> Option<std::ops::Range<usize>> {
    let start = usize::try_from(address.checked_sub(buffer.at)?).ok()?;
    Some(start..start + width as usize)
}

/// The little-endian number in up to 8 bytes.
fn number(bytes: &[u8]) -> u64 {
    let mut all = [0; 8];
    all[..bytes.len()].copy_from_slice(bytes);
    u64::from_le_bytes(all)
}

/// Shared memory of a block: the objects of a kernel, and the dynamic one.
#[derive(Clone, Debug)]
pub(super) struct Shared {
    bytes: Vec<u8>,
    /// Where they start, and their lengths.
    objects: Vec<(u64, u64)>,
}

impl Shared {
    /// The objects of a kernel and a dynamic one of `dynamic_len` bytes, all full of `garbage`.
    pub(super) fn new(objects: &[(u64, u64)], dynamic_len: u64, garbage: u8) -> Self {
        let bytes = vec![garbage; (DYNAMIC_AT + dynamic_len) as usize];
        let dynamic = (DYNAMIC_AT, dynamic_len);
        Self { bytes, objects: objects.iter().copied().chain([dynamic]).collect() }
    }

    fn range(&self, address: u64, width: u32) -> Result<std::ops::Range<usize>, Problem> {
        let len = u64::from(width);
        let holds = |(at, object_len): &(u64, u64)| {
            address.checked_sub(*at).is_some_and(|offset| offset < *object_len && offset + len <= *object_len)
        };
        if !self.objects.iter().any(holds) {
            return Err(Problem::Outside { address, len });
        }
        Ok(address as usize..(address + len) as usize)
    }

    pub(super) fn load(&self, address: u64, width: u32) -> Result<u64, Problem> {
        Ok(number(&self.bytes[self.range(address, width)?]))
    }

    pub(super) fn store(&mut self, address: u64, width: u32, value: u64) -> Result<(), Problem> {
        let range = self.range(address, width)?;
        self.bytes[range].copy_from_slice(&value.to_le_bytes()[..width as usize]);
        Ok(())
    }
}

/// What a warp may use.
#[derive(Debug)]
pub(super) struct Memory<'a> {
    pub(super) global: &'a mut Global,
    pub(super) shared: &'a mut Shared,
    pub(super) parameters: &'a [u8],
}

impl Memory<'_> {
    pub(super) fn load_parameter(&self, address: u64, width: u32) -> Result<u64, Problem> {
        let outside = Problem::Outside { address, len: width.into() };
        let start = usize::try_from(address).map_err(|_| outside)?;
        let end = start.checked_add(width as usize).ok_or(outside)?;
        self.parameters.get(start..end).map(number).ok_or(outside)
    }
}

/// Fails unless `address` is on a multiple of `len`.
pub(super) fn check_align(address: u64, len: u64) -> Result<(), Problem> {
    if address.is_multiple_of(len) { Ok(()) } else { Err(Problem::Misaligned { address, len }) }
}

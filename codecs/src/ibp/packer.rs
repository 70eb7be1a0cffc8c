//! Packing single tensors, and what tensors and chunks share.

#[cfg(target_arch = "x86_64")]
use super::avx2;
#[cfg(target_arch = "x86_64")]
use super::avx512;
use super::bits::{Sink, Source};
use super::codebook::Codebook;
use super::plan::Plan;
use super::portable;
use crate::Cpu;
use crate::chunk::{ChunkError, SectionReader};
use crate::cpu::prefetch;

/// Packs the tensors of a set one by one, in place or anywhere: what a table of compressed rows is made of.
///
/// The code of a tensor of *g* whole granules:
///
/// | section | length in bytes | content |
/// |---|---|---|
/// | participation | ⌈g / 8⌉ | bit i = granule i has its invariant bits and leaves them out |
/// | kept | ⌈bits / 8⌉ | the bits left of each granule in order, lowest first |
/// | tail | tensor length mod granule | what no granule covers, as it is |
///
/// Unused bits are zero. A tensor whose code would not be shorter is stored raw; a set never grows.
#[derive(Debug)]
pub struct Packer {
    cpu: Cpu,
    codebook: Codebook,
    plans: Vec<Plan>,
    shape: Shape,
}

/// How a tensor is cut, worked out once: dividing takes as long as decoding a line.
#[derive(Clone, Copy, Debug)]
struct Shape {
    /// Bytes of its whole granules.
    whole: usize,
    /// How many these are.
    granules: usize,
    /// Bytes of their participation bits.
    participation_len: usize,
    /// Bytes behind the last whole granule.
    tail_len: usize,
}

impl Shape {
    fn new(granule: usize, tensor_len: usize) -> Self {
        let granules = tensor_len / granule;
        let whole = granule * granules;
        Self { whole, granules, participation_len: granules.div_ceil(8), tail_len: tensor_len - whole }
    }
}

/// How a tensor is stored. It stands beside the tensor, not in it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Form {
    /// As it is.
    Raw,
    /// Packed with the invariant bits of this cluster.
    Packed {
        /// Index of the cluster in the codebook.
        cluster: u8,
    },
}

/// A tensor that was packed, or could be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Packed {
    /// How it is stored.
    pub form: Form,
    /// Its stored length in bytes, at most that of the tensor.
    pub len: usize,
}

impl Packer {
    /// A packer for the tensors that `codebook` was fitted to.
    #[must_use]
    pub fn on(cpu: Cpu, codebook: Codebook) -> Self {
        let clusters = codebook.clusters().iter();
        let plans = clusters.map(|invariants| Plan::new(cpu, codebook.granule(), invariants)).collect();
        let shape = Shape::new(codebook.granule().bytes(), codebook.tensor_len());
        Self { cpu, codebook, plans, shape }
    }

    /// The same packer on another instruction set.
    pub(super) fn on_other(&self, cpu: Cpu) -> Self {
        Self::on(cpu, self.codebook.clone())
    }

    /// What it packs with.
    #[must_use]
    pub fn codebook(&self) -> &Codebook {
        &self.codebook
    }

    /// What [`pack`](Self::pack) would return for `tensor`, without writing anything.
    ///
    /// The cluster that packs it shortest is taken; of several, the first.
    ///
    /// # Panics
    /// If `tensor` has not the length of the codebook's tensors.
    #[must_use]
    pub fn packed(&self, tensor: &[u8]) -> Packed {
        assert_eq!(tensor.len(), self.codebook.tensor_len(), "length of the tensor");
        let (cluster, saved) = self.best_cluster(0, &tensor[..self.whole(tensor.len())]);
        let len = self.code_len(tensor.len(), saved);
        if len < tensor.len() {
            Packed { form: Form::Packed { cluster: cluster as u8 }, len }
        } else {
            Packed { form: Form::Raw, len: tensor.len() }
        }
    }

    /// Writes `tensor` to the front of `slot`, packed or raw, whichever is shorter. What of the slot lies
    /// behind it may be overwritten up to the length of a tensor.
    ///
    /// # Panics
    /// If `tensor` has not the length of the codebook's tensors, or `slot` is shorter.
    pub fn pack(&self, tensor: &[u8], slot: &mut [u8]) -> Packed {
        let packed = self.packed(tensor);
        let slot = &mut slot[..tensor.len()];
        match packed.form {
            Form::Raw => slot.copy_from_slice(tensor),
            Form::Packed { cluster } => {
                let (granules, tail) = tensor.split_at(self.whole(tensor.len()));
                let (participation, kept) = slot.split_at_mut(self.participation_len(tensor.len()));
                let mut sink = Sink::new(participation, kept);
                self.encode(usize::from(cluster), 0, granules, &mut sink);
                sink.finish();
                slot[packed.len - tail.len()..packed.len].copy_from_slice(tail);
            }
        }
        packed
    }

    /// Fills `tensor` from the front of `slot`; returns the stored length in bytes. Bytes behind that may be
    /// anything, so a slot of a tensor's length will do.
    ///
    /// # Errors
    /// [`ChunkError`] if `slot` is too short for what it says, an unused bit is set, or the codebook has no
    /// such cluster. `tensor` then holds anything.
    ///
    /// # Panics
    /// If `tensor` has not the length of the codebook's tensors.
    #[inline]
    pub fn unpack(&self, form: Form, slot: &[u8], tensor: &mut [u8]) -> Result<usize, ChunkError> {
        assert_eq!(tensor.len(), self.codebook.tensor_len(), "length of the tensor");
        match self.unpack_whole(form, slot, tensor) {
            Some(len) => Ok(len),
            None => self.unpack_any(form, slot, tensor),
        }
    }

    /// [Unpacks](Self::unpack) the tensors at the front of two slots into `tensors`, one behind the other; faster than one at
    /// a time where both are stored alike.
    ///
    /// # Errors
    /// As of [`unpack`](Self::unpack), with the number of the tensor: 0 or 1.
    ///
    /// # Panics
    /// If `tensors` has not twice the length of the codebook's tensors.
    #[inline]
    pub fn unpack_pair(
        &self,
        pair: [(Form, &[u8]); 2],
        tensors: &mut [u8],
    ) -> Result<[usize; 2], (usize, ChunkError)> {
        assert_eq!(tensors.len(), 2 * self.codebook.tensor_len(), "length of the tensors");
        if let Some(len) = self.unpack_whole_pair(pair, tensors) {
            return Ok([len; 2]);
        }
        let (first, second) = tensors.split_at_mut(self.codebook.tensor_len());
        let mut lens = [0; 2];
        for (number, ((form, slot), tensor)) in pair.into_iter().zip([first, second]).enumerate() {
            lens[number] = self.unpack(form, slot, tensor).map_err(|error| (number, error))?;
        }
        Ok(lens)
    }

    /// Does what [`unpack`](Self::unpack) does if all granules participate and this machine has a faster way then; if not,
    /// `tensor` holds anything.
    #[inline]
    #[cfg_attr(not(target_arch = "x86_64"), allow(unused_variables))]
    fn unpack_whole(&self, form: Form, slot: &[u8], tensor: &mut [u8]) -> Option<usize> {
        #[cfg(target_arch = "x86_64")]
        if let (Cpu::Avx512(cpu), Form::Packed { cluster }) = (self.cpu, form) {
            let (granules, tail) = tensor.split_at_mut(self.shape.whole);
            let len = self.plans.get(usize::from(cluster))?.row().all.unpack(cpu, slot, granules)?;
            copy_tail(slot, len, tail)?;
            return Some(len + tail.len());
        }
        None
    }

    /// The same of two tensors with the same invariant bits, which are then of the same stored length.
    #[inline]
    #[cfg_attr(not(target_arch = "x86_64"), allow(unused_variables))]
    fn unpack_whole_pair(&self, pair: [(Form, &[u8]); 2], tensors: &mut [u8]) -> Option<usize> {
        #[cfg(target_arch = "x86_64")]
        if let (Cpu::Avx512(cpu), [(form, a), (other, b)]) = (self.cpu, pair)
            && let Form::Packed { cluster } = form
            && form == other
        {
            let (first, second) = tensors.split_at_mut(self.codebook.tensor_len());
            let (first, first_tail) = first.split_at_mut(self.shape.whole);
            let (second, second_tail) = second.split_at_mut(self.shape.whole);
            let all = &self.plans.get(usize::from(cluster))?.row().all;
            let len = all.unpack_pair(cpu, [a, b], [first, second])?;
            copy_tail(a, len, first_tail)?;
            copy_tail(b, len, second_tail)?;
            return Some(len + first_tail.len());
        }
        None
    }

    fn unpack_any(&self, form: Form, slot: &[u8], tensor: &mut [u8]) -> Result<usize, ChunkError> {
        let mut sections = SectionReader::new(slot);
        let Form::Packed { cluster } = form else {
            tensor.copy_from_slice(sections.take(tensor.len())?);
            return Ok(tensor.len());
        };
        self.check_clusters(&[cluster])?;
        match self.cpu {
            #[cfg(target_arch = "x86_64")]
            Cpu::Avx512(cpu) => self.decode_row(cpu, usize::from(cluster), &mut sections, tensor)?,
            _ => {
                let part = Part { cluster: usize::from(cluster), phase: 0, len: self.shape.whole };
                self.decode_sections(&mut sections, std::iter::once(part), tensor)?;
            }
        }
        Ok(sections.offset())
    }

    /// The stored length in bytes of the tensor at the front of `slot`, which is not decoded.
    ///
    /// # Errors
    /// [`ChunkError`] if not even its participation bits are there, or the codebook has no such cluster.
    pub fn stored_len(&self, form: Form, slot: &[u8]) -> Result<usize, ChunkError> {
        let Form::Packed { cluster } = form else { return Ok(self.codebook.tensor_len()) };
        self.check_clusters(&[cluster])?;
        let Shape { granules, participation_len, tail_len, whole } = self.shape;
        let participation = SectionReader::new(slot).take(participation_len)?;
        let saved = self.saved_in(usize::from(cluster), 0, participation, 0, granules);
        Ok(participation_len + (8 * whole - saved).div_ceil(8) + tail_len)
    }

    /// The fewest bytes that a tensor is stored in.
    #[must_use]
    pub fn min_stored_len(&self) -> usize {
        self.shape.participation_len + self.shape.tail_len
    }

    /// Asks for the front of a slot that will be [unpacked](Self::unpack) soon to be brought near, without waiting.
    #[inline]
    pub fn prefetch(front: &[u8]) {
        prefetch(front);
    }

    /// Decodes the sections of a whole tensor in one pass: how long the kept bits are is known when it is done.
    #[cfg(target_arch = "x86_64")]
    fn decode_row(
        &self,
        cpu: crate::Avx512,
        cluster: usize,
        sections: &mut SectionReader<'_>,
        tensor: &mut [u8],
    ) -> Result<(), ChunkError> {
        let Shape { whole, granules, participation_len, tail_len } = self.shape;
        let participation = sections.take(participation_len)?;
        check_unused(participation, granules, sections.offset())?;
        let mut source = Source::new(participation, sections.rest());
        let (granules, tail) = tensor.split_at_mut(whole);
        self.plans[cluster].row().any.decode(cpu, &mut source, granules);
        let kept = sections.take(source.bit.div_ceil(8))?;
        check_unused(kept, source.bit, sections.offset())?;
        if tail_len > 0 {
            tail.copy_from_slice(sections.take(tail_len)?);
        }
        Ok(())
    }

    /// Decodes participation bits, kept bits and tail of granules that lie in `parts`.
    pub(super) fn decode_sections(
        &self,
        sections: &mut SectionReader<'_>,
        parts: impl Iterator<Item = Part> + Clone,
        raw: &mut [u8],
    ) -> Result<(), ChunkError> {
        let whole = self.whole(raw.len());
        let granules = whole / self.granule();
        let participation = sections.take(self.participation_len(raw.len()))?;
        check_unused(participation, granules, sections.offset())?;
        let (mut saved, mut first) = (0, 0);
        for Part { cluster, phase, len } in parts.clone() {
            let count = len / self.granule();
            saved += self.saved_in(cluster, phase, participation, first, count);
            first += count;
        }
        let bits = 8 * whole - saved;
        // The coders may look behind the kept bits, but not behind the code.
        let rest = sections.rest();
        let kept = sections.take(bits.div_ceil(8))?;
        check_unused(kept, bits, sections.offset())?;
        let tail = sections.take(raw.len() - whole)?;

        let (mut granules, raw_tail) = raw.split_at_mut(whole);
        raw_tail.copy_from_slice(tail);
        let mut source = Source::new(participation, rest);
        for Part { cluster, phase, len } in parts {
            let (part, behind) = granules.split_at_mut(len);
            self.decode(cluster, phase, &mut source, part);
            granules = behind;
        }
        Ok(())
    }

    /// The cluster that saves the most bits of `granules`, the first of several, and how many these are.
    pub(super) fn best_cluster(&self, phase: usize, granules: &[u8]) -> (usize, usize) {
        let mut best = (0, self.saved_by(0, phase, granules));
        for cluster in 1..self.plans.len() {
            let saved = self.saved_by(cluster, phase, granules);
            if saved > best.1 {
                best = (cluster, saved);
            }
        }
        best
    }

    /// Refuses clusters that the codebook has not.
    pub(super) fn check_clusters(&self, clusters: &[u8]) -> Result<(), ChunkError> {
        match clusters.iter().position(|&cluster| usize::from(cluster) >= self.plans.len()) {
            Some(tensor) => {
                Err(ChunkError::Cluster { tensor, cluster: clusters[tensor], clusters: self.plans.len() })
            }
            None => Ok(()),
        }
    }

    /// Length in bytes of the code of `raw_len` bytes that saves so many bits.
    pub(super) fn code_len(&self, raw_len: usize, saved: usize) -> usize {
        let whole = self.whole(raw_len);
        self.participation_len(raw_len) + (8 * whole - saved).div_ceil(8) + (raw_len - whole)
    }

    /// Bytes of the participation bits of `raw_len` bytes.
    pub(super) fn participation_len(&self, raw_len: usize) -> usize {
        (raw_len / self.granule()).div_ceil(8)
    }

    /// Bytes of the whole granules of `raw_len` bytes.
    pub(super) fn whole(&self, raw_len: usize) -> usize {
        raw_len - raw_len % self.granule()
    }

    fn granule(&self) -> usize {
        self.codebook.granule().bytes()
    }
}

/// A stretch of granules that share their invariant bits.
#[derive(Clone, Copy)]
pub(super) struct Part {
    pub(super) cluster: usize,
    /// Where in the tensor it starts, in bytes.
    pub(super) phase: usize,
    /// Bytes of its granules.
    pub(super) len: usize,
}

/// Checks that `section`, which ends at `end`, has no bits set from `used` on.
fn check_unused(section: &[u8], used: usize, end: usize) -> Result<(), ChunkError> {
    match section.last() {
        Some(&last) if !used.is_multiple_of(8) && last >> (used % 8) != 0 => {
            Err(ChunkError::Padding { offset: end })
        }
        _ => Ok(()),
    }
}

/// Fills `tail` from byte `at` of `slot`, if it goes that far.
#[cfg(target_arch = "x86_64")]
#[inline]
fn copy_tail(slot: &[u8], at: usize, tail: &mut [u8]) -> Option<()> {
    if !tail.is_empty() {
        tail.copy_from_slice(slot.get(at..at + tail.len())?);
    }
    Some(())
}

/// The coders of each instruction set; see `portable.rs` for what they do.
impl Packer {
    pub(super) fn encode(&self, cluster: usize, phase: usize, granules: &[u8], sink: &mut Sink<'_>) {
        let plan = &self.plans[cluster];
        match self.cpu {
            Cpu::Portable => portable::encode(plan, phase, granules, sink),
            #[cfg(target_arch = "x86_64")]
            Cpu::Avx2(cpu) => avx2::encode(cpu, plan, phase, granules, sink),
            #[cfg(target_arch = "x86_64")]
            Cpu::Avx512(cpu) => avx512::encode(cpu, plan, phase, granules, sink),
        }
    }

    pub(super) fn saved_by(&self, cluster: usize, phase: usize, granules: &[u8]) -> usize {
        let plan = &self.plans[cluster];
        match self.cpu {
            Cpu::Portable => portable::saved_by(plan, phase, granules),
            #[cfg(target_arch = "x86_64")]
            Cpu::Avx2(cpu) => avx2::saved_by(cpu, plan, phase, granules),
            #[cfg(target_arch = "x86_64")]
            Cpu::Avx512(cpu) => avx512::saved_by(cpu, plan, phase, granules),
        }
    }

    fn saved_in(
        &self,
        cluster: usize,
        phase: usize,
        participation: &[u8],
        first: usize,
        count: usize,
    ) -> usize {
        let plan = &self.plans[cluster];
        match self.cpu {
            Cpu::Portable => portable::saved_in(plan, phase, participation, first, count),
            #[cfg(target_arch = "x86_64")]
            Cpu::Avx2(cpu) => avx2::saved_in(cpu, plan, phase, participation, first, count),
            #[cfg(target_arch = "x86_64")]
            Cpu::Avx512(cpu) => avx512::saved_in(cpu, plan, phase, participation, first, count),
        }
    }

    fn decode(&self, cluster: usize, phase: usize, source: &mut Source<'_>, granules: &mut [u8]) {
        let plan = &self.plans[cluster];
        match self.cpu {
            Cpu::Portable => portable::decode(plan, phase, source, granules),
            #[cfg(target_arch = "x86_64")]
            Cpu::Avx2(cpu) => avx2::decode(cpu, plan, phase, source, granules),
            #[cfg(target_arch = "x86_64")]
            Cpu::Avx512(cpu) => avx512::decode(cpu, plan, phase, source, granules),
        }
    }
}

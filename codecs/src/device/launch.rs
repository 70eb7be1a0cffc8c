//! What host and kernels agree on: numbers read from the kernels' own headers, and the structs of a launch.

use super::KernelSource;
use crate::Algorithm;
use crate::reduction::{Datatype, Operation};

/// The numbers of `launch.h`.
const NUMBERS: &str = include_str!("../../kernels/launch.h");
/// Those of reductions.
const REDUCTION_NUMBERS: &str = include_str!("../../kernels/reduce/task.cuh");

pub(super) const BLOCK_THREADS: u32 = number("BLOCK_THREADS");
pub(super) const UNIT: u64 = number("UNIT") as u64;
pub(super) const MAX_JOBS: usize = number("MAX_JOBS") as usize;
pub(super) const WORKSPACE_WORDS: u64 = number("WORKSPACE_WORDS") as u64;
/// Bytes of a word of 64 bits.
pub(super) const WORD: u64 = 8;
/// Bytes that a warp reads at a time of a row of a table.
pub(super) const PIECE_LEN: u64 = number("PIECE_LEN") as u64;
pub(super) const MAX_SLABS: usize = number("MAX_SLABS") as usize;
pub(super) const ROWS_REPORT_WORDS: usize = number("ROWS_REPORT_WORDS") as usize;
pub(super) const BUDDY_COUNTS: usize = number("BUDDY_COUNTS") as usize;
/// Raw bytes of an entry of XP in buddy memory.
pub(super) const BUDDY_XP_ENTRY_LEN: u64 = number("BUDDY_XP_ENTRY_LEN") as u64;
/// Raw bytes of one of BPC.
pub(super) const BUDDY_ENTRY_LEN: u64 = number("BUDDY_ENTRY_LEN") as u64;
/// Such entries that a warp works on at a time.
pub(super) const BUDDY_TILE: u64 = number("BUDDY_TILE") as u64;
pub(super) const STATUS_CODE_BITS: u32 = number("STATUS_CODE_BITS");

const BUFFERS: [u32; 3] = [number("ENCODE_BUFFERS"), number("DECODE_BUFFERS"), number("ESTIMATE_BUFFERS")];

/// What a kernel does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Direction {
    Encode,
    Decode,
    Estimate,
}

impl Direction {
    pub(super) const ALL: [Self; 3] = [Self::Encode, Self::Decode, Self::Estimate];

    /// The end of the kernels' names.
    pub(super) const fn name(self) -> &'static str {
        match self {
            Self::Encode => "encode",
            Self::Decode => "decode",
            Self::Estimate => "estimate",
        }
    }
}

impl KernelSource {
    /// The ends of the names of its kernels.
    pub(super) fn kernels(&self) -> Vec<&'static str> {
        let of_codec = Direction::ALL.iter().filter(|_| self.algorithm.is_some()).map(|d| d.name());
        let others: &[_] = match self.algorithm {
            Some(Algorithm::Ibp) => &["rows"],
            Some(_) => &[],
            None if self == Self::of_reductions() => &[REDUCTION_KERNEL],
            None => &ENTRY_KERNELS,
        };
        of_codec.chain(others.iter().copied()).collect()
    }

    /// Dynamic shared memory of a launch over chunks of up to 2^`chunk_log2` bytes.
    pub(super) const fn shared_len(&self, direction: Direction, chunk_log2: u32) -> u32 {
        let scratch = match direction {
            Direction::Decode => self.decode_scratch,
            Direction::Encode | Direction::Estimate => self.encode_scratch,
        };
        (BUFFERS[direction as usize] << chunk_log2) + (scratch << chunk_log2 >> 10)
    }

    /// Dynamic shared memory of a launch over entries of XP, whose kernels of frames these are: `xp_buddy_shared_len` of
    /// `buddy/allocation.cuh`. To read, to read with room, and to write.
    pub(super) const fn xp_buddy_shared_lens(&self) -> [u32; 3] {
        let len = BUDDY_XP_ENTRY_LEN as u32;
        let (encode, decode) = (len / 1024 * self.encode_scratch, len / 1024 * self.decode_scratch);
        [decode + len, decode + 2 * len, encode + 2 * len]
    }
}

/// One buffer of a launch: `MgcJob` of `frame/batch.cuh`, field by field.
#[derive(Clone, Copy, Debug, Default)]
#[repr(C)]
pub(super) struct Job {
    pub(super) src: u64,
    pub(super) src_len: u64,
    /// To decode `src_len_at`, else `codebook`.
    pub(super) src_len_at: u64,
    pub(super) dst: u64,
    pub(super) dst_len: u64,
    pub(super) out_len: u64,
    pub(super) status: u64,
    pub(super) first_chunk: u32,
    pub(super) element: u16,
    pub(super) codebook_units: u16,
}

/// What one launch works on: `MgcBatch` of `frame/batch.cuh`, field by field.
#[derive(Debug)]
#[repr(C)]
pub(super) struct Batch {
    pub(super) jobs: u32,
    pub(super) chunks: u32,
    pub(super) chunk_log2: u32,
    pub(super) names_codebooks: u32,
    pub(super) workspace: u64,
    pub(super) known_codebook: u64,
    pub(super) unused: [u64; 4],
    pub(super) job: [Job; MAX_JOBS],
}

/// Rows of a table that are wanted: `MgcRows` of `ibp/table.cuh`, field by field.
#[derive(Debug)]
#[repr(C)]
pub(super) struct Rows {
    pub(super) slots: u64,
    pub(super) rows: u64,
    pub(super) packed: u64,
    pub(super) clusters: u64,
    pub(super) masks: u64,
    pub(super) least_lens: u64,
    pub(super) row_len: u32,
    pub(super) granule: u32,
    pub(super) cluster_count: u32,
    pub(super) map_log2: u32,
    pub(super) map: u64,
    pub(super) totals: u64,
    pub(super) slabs: [u64; MAX_SLABS],
    pub(super) slab_lens: [u64; MAX_SLABS],
    pub(super) indices: u64,
    pub(super) count: u64,
    pub(super) out: u64,
    pub(super) report: u64,
    pub(super) workspace: u64,
}

/// Entries of an allocation in buddy memory: `MgcBuddy` of `buddy/allocation.cuh`, field by field.
#[derive(Debug)]
#[repr(C)]
pub(super) struct Entries {
    pub(super) slots: u64,
    pub(super) states: u64,
    pub(super) spills: u64,
    pub(super) len: u64,
    pub(super) slot_len: u32,
    pub(super) spill_len: u32,
    pub(super) totals: u64,
    pub(super) start: u64,
    pub(super) end: u64,
    pub(super) data: u64,
    pub(super) report: u64,
    pub(super) workspace: u64,
    pub(super) element: u32,
    pub(super) gap: u32,
}

/// Dynamic shared memory of a launch over entries of BPC: `bpc_buddy_shared_len` of `buddy/allocation.cuh`.
pub(super) const fn bpc_buddy_shared_len() -> u32 {
    let code_len = 4 * number("BUDDY_CODE_WORDS") as u64;
    let counts_len = WORD * (BUDDY_COUNTS as u64 + 1);
    (BLOCK_THREADS as u64 / 32 * (BUDDY_TILE * (BUDDY_ENTRY_LEN + code_len) + counts_len)) as u32
}

/// Dynamic shared memory of a gather of rows: `rows_shared_len` of `ibp/table.cuh`.
pub(super) const fn rows_shared_len(row_len: u32, granule: u32) -> u32 {
    let participation_len = (row_len / granule).div_ceil(8) as u64;
    let head_len = (participation_len + PIECE_LEN - 1).next_multiple_of(PIECE_LEN);
    (BLOCK_THREADS as u64 / 32 * (head_len + 2 * PIECE_LEN)) as u32
}

/// The ends of the names of the kernels that read and write entries in buddy memory.
pub(super) const ENTRY_KERNELS: [&str; 2] = ["read", "write"];
/// The end of the name of the kernel that combines numbers.
pub(super) const REDUCTION_KERNEL: &str = "numbers";
/// Bytes of the result that a block works on at a time.
pub(super) const REDUCTION_STEP: u64 =
    number_in(REDUCTION_NUMBERS, "REDUCE_UNITS") as u64 * UNIT * BLOCK_THREADS as u64;

/// Numbers of several ranks: `MgcReduction` of `reduce/task.cuh`, field by field.
#[derive(Debug)]
#[repr(C)]
pub(super) struct Numbers {
    pub(super) numbers: u64,
    pub(super) stride: u64,
    pub(super) own: u64,
    pub(super) result: u64,
    pub(super) len: u64,
    pub(super) ranks: u32,
    pub(super) own_rank: u32,
    pub(super) operation: u32,
    pub(super) form: u32,
    pub(super) is_signed: u32,
    pub(super) width: u32,
}

/// How the kernel knows an operation.
pub(super) const fn operation_number(operation: Operation) -> u32 {
    let name = match operation {
        Operation::Sum => "REDUCE_SUM",
        Operation::Min => "REDUCE_MIN",
        Operation::Max => "REDUCE_MAX",
        Operation::Avg => "REDUCE_AVG",
    };
    number_in(REDUCTION_NUMBERS, name)
}

/// How the kernel knows what the numbers are, but for the sign of integers.
pub(super) const fn form_number(datatype: Datatype) -> u32 {
    let name = match datatype {
        Datatype::I8 | Datatype::U8 => "FORM_INT8",
        Datatype::I16 | Datatype::U16 => "FORM_INT16",
        Datatype::I32 | Datatype::U32 => "FORM_INT32",
        Datatype::I64 | Datatype::U64 => "FORM_INT64",
        Datatype::F16 => "FORM_F16",
        Datatype::Bf16 => "FORM_BF16",
        Datatype::F32 => "FORM_F32",
        Datatype::F64 => "FORM_F64",
    };
    number_in(REDUCTION_NUMBERS, name)
}

/// The most that the parameters of a kernel may take on any device.
const MAX_PARAMETERS_LEN: usize = 4096;

const _: () = assert!(size_of::<Job>() == 64 && size_of::<Batch>() <= MAX_PARAMETERS_LEN);
const _: () = assert!(size_of::<Rows>() == 248 && size_of::<Entries>() == 96 && size_of::<Numbers>() == 64);

/// What `launch.h` says of the status `code`: the comment above its number.
pub(super) fn status_text(code: u32) -> Option<String> {
    let lines: Vec<&str> = NUMBERS.lines().collect();
    let is_code = |line: &&str| {
        let define = line.strip_prefix("#define MGC_BAD_").and_then(|define| define.split_once(' '));
        define.is_some_and(|(_, value)| value.parse() == Ok(code))
    };
    let at = lines.iter().position(is_code)?;
    let comment = lines[..at].iter().rev().map_while(|line| line.strip_prefix("// "));
    let mut comment: Vec<&str> = comment.collect();
    comment.reverse();
    Some(comment.join(" ").trim_end_matches('.').to_owned())
}

/// The number that `launch.h` defines as `MGC_` and `name`. Without one this crate does not compile.
const fn number(name: &str) -> u32 {
    number_in(NUMBERS, name)
}

/// The same in another header.
const fn number_in(text: &str, name: &str) -> u32 {
    let text = text.as_bytes();
    let mut at = 0;
    while at < text.len() {
        let after_name = skip(text, skip(text, Some(at), "#define MGC_"), name);
        if let Some(digits) = skip(text, after_name, " ") {
            return parse(text, digits);
        }
        while at < text.len() && text[at] != b'\n' {
            at += 1;
        }
        at += 1;
    }
    panic!("a header lacks a number")
}

/// Where `text` goes on behind `prefix`, if that is what stands at `at`.
const fn skip(text: &[u8], at: Option<usize>, prefix: &str) -> Option<usize> {
    let Some(at) = at else { return None };
    let prefix = prefix.as_bytes();
    let mut i = 0;
    while i < prefix.len() {
        if at + i >= text.len() || text[at + i] != prefix[i] {
            return None;
        }
        i += 1;
    }
    Some(at + i)
}

const fn parse(text: &[u8], mut at: usize) -> u32 {
    let mut value = 0;
    while at < text.len() && text[at].is_ascii_digit() {
        value = 10 * value + (text[at] - b'0') as u32;
        at += 1;
    }
    value
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::device::{EntryForm, sources};
    use crate::frame;

    #[test]
    fn numbers_are_those_of_the_frame() {
        assert_eq!(UNIT, frame::UNIT as u64);
        assert_eq!(number("HEADER_LEN") as usize, frame::HEADER_LEN);
        assert_eq!(number("GOOD"), 0);
        assert_eq!(1 << number("MIN_CHUNK_LOG2"), frame::ChunkSize::SMALL.bytes());
        assert_eq!(1 << number("MAX_CHUNK_LOG2"), frame::ChunkSize::LARGE.bytes());
    }

    #[test]
    fn every_source_has_its_kernels() {
        assert!(!sources().is_empty());
        for source in sources() {
            if let Some(algorithm) = source.algorithm {
                assert_eq!(source.name, algorithm.name());
                assert_eq!(source.file, format!("{0}/{0}.cu", source.name));
                assert!(source.text.contains("MGC_KERNELS("), "{}", source.file);
                continue;
            }
            for kernel in source.kernels() {
                let name = format!(" {}_{kernel}(", source.name);
                assert!(source.text.contains(&name), "{}: no{name}", source.file);
            }
        }
        let of_forms = EntryForm::ALL.map(KernelSource::of_entries);
        let others = sources().iter().filter(|source| source.algorithm.is_none());
        let known = |source| source == KernelSource::of_reductions() || of_forms.contains(&source);
        assert!(others.clone().all(known) && others.count() == 3);
    }

    #[test]
    fn shared_memory_is_buffers_and_scratch() {
        let zvc = KernelSource::of(crate::Algorithm::Zvc).unwrap();
        let source = KernelSource { encode_scratch: 128, decode_scratch: 64, ..*zvc };
        assert_eq!(source.shared_len(Direction::Encode, 14), 2 * 16384 + 16 * 128);
        assert_eq!(source.shared_len(Direction::Estimate, 14), 16384 + 16 * 128);
        assert_eq!(source.shared_len(Direction::Decode, 16), 65536 + 64 * 64);
    }

    #[test]
    fn shared_memory_of_gathers_is_participation_bits_and_pieces() {
        // For each of 8 warps two pieces, and those that the participation bits may lie in: a byte is in one, two
        // may be in two.
        assert_eq!(rows_shared_len(3, 4), 8 * (128 + 256));
        assert_eq!(rows_shared_len(32, 4), 8 * (128 + 256));
        assert_eq!(rows_shared_len(36, 4), 8 * (256 + 256));
        assert_eq!(rows_shared_len(512, 8), 8 * (256 + 256));
        assert_eq!(rows_shared_len(128 << 10, 4), 8 * (4096 + 128 + 256));
    }

    #[test]
    fn shared_memory_of_entries_is_raw_bytes_codes_and_counts() {
        // For each of 8 warps 32 entries of 128 bytes and 25 words, five counts and a gap.
        assert_eq!(bpc_buddy_shared_len(), 8 * (32 * (128 + 100) + 6 * 8));
        // Of XP what is stored, raw bytes where they need room, and 512 bytes of scratch for each KiB to encode, 320 to decode.
        let xp = KernelSource::of(Algorithm::Xp).unwrap().xp_buddy_shared_lens();
        assert_eq!(xp, [(32 + 10) << 10, (64 + 10) << 10, (64 + 16) << 10]);
    }

    #[test]
    fn every_status_has_a_text() {
        assert_eq!(status_text(number("BAD_TRAILING")).unwrap(), "Bytes follow the last chunk");
        assert_eq!(status_text(0), None);
        assert_eq!(status_text(255), None);
    }
}

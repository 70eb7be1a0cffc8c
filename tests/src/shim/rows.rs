//! Gathers of rows from packed tables: the struct of `codecs/kernels/ibp/table.cuh`, and memory for it.

use mgcomp_codecs::ibp::{Codebook, Granule, Invariants};
use mgcomp_transport::table::{Cache, Table, TableOptions};

use super::{Launch, Shim, Status, launch};
use crate::data::Random;
use crate::guarded::Guarded;

const PIECE_LEN: usize = launch::PIECE_LEN as usize;
const SLABS: usize = launch::MAX_SLABS as usize;
const REPORT_WORDS: usize = launch::ROWS_REPORT_WORDS as usize;

/// What multiplies an index to its hash.
const ROW_HASH: u64 = 0x9e37_79b9_7f4a_7c15;
/// An entry of the map that was never used.
const FREE: u64 = u64::MAX;
/// One that is used no more.
pub const GONE: u64 = u64::MAX - 1;

/// `MgcRows`.
#[repr(C)]
#[derive(Debug)]
pub(super) struct RawRows {
    slots: *const u8,
    rows: u64,
    packed: *const u8,
    clusters: *const u8,
    masks: *const u32,
    least_lens: *const u32,
    row_len: u32,
    granule: u32,
    cluster_count: u32,
    map_log2: u32,
    map: *const Pair,
    totals: *mut u64,
    slabs: [*const u8; SLABS],
    slab_lens: [u64; SLABS],
    indices: *const u64,
    count: u64,
    out: *mut u8,
    report: *mut u64,
    workspace: *mut u64,
}

const _: () = assert!(size_of::<RawRows>() == 248);

/// A row and its entry.
#[repr(C, align(16))]
#[derive(Clone, Copy, Debug)]
struct Pair(u64, u64);

/// Memory on a multiple of the piece.
#[derive(Clone, Debug)]
struct Pieces {
    pieces: Vec<Piece>,
    len: usize,
}

#[repr(C, align(128))]
#[derive(Clone, Copy, Debug)]
struct Piece([u8; PIECE_LEN]);

impl Pieces {
    fn new(bytes: &[u8]) -> Self {
        let piece = |bytes: &[u8]| {
            let mut piece = Piece([0xa5; PIECE_LEN]);
            piece.0[..bytes.len()].copy_from_slice(bytes);
            piece
        };
        Self { pieces: bytes.chunks(PIECE_LEN).map(piece).collect(), len: bytes.len() }
    }

    fn as_ptr(&self) -> *const u8 {
        self.pieces.as_ptr().cast()
    }

    fn bytes(&self) -> Vec<u8> {
        let mut bytes: Vec<u8> = self.pieces.iter().flat_map(|piece| piece.0).collect();
        bytes.truncate(self.len);
        bytes
    }
}

/// A table as the kernel finds it, and what of it is cached. All of it can be damaged.
#[derive(Clone, Debug)]
pub struct RowTable {
    /// The places of the rows.
    slots: Pieces,
    row_len: usize,
    granule: usize,
    cluster_count: usize,
    /// A bit for each row.
    pub packed: Vec<u8>,
    /// A byte for each row; empty if there is one cluster.
    pub clusters: Vec<u8>,
    masks: Vec<u32>,
    least_lens: Vec<u32>,
    map: Vec<Pair>,
    slabs: Vec<Pieces>,
}

impl RowTable {
    /// A table without a cache.
    #[must_use]
    pub fn of(table: &Table) -> Self {
        let codebook = table.codebook();
        let granule = codebook.granule().bytes();
        let whole = codebook.tensor_len() / granule * granule;
        Self {
            slots: Pieces::new(table.slots()),
            row_len: table.row_len(),
            granule,
            cluster_count: codebook.clusters().len(),
            packed: table.packed_mask().to_vec(),
            clusters: table.row_clusters().to_vec(),
            masks: masks(codebook, whole),
            least_lens: least_lens(codebook, whole),
            map: Vec::new(),
            slabs: Vec::new(),
        }
    }

    /// The same with other bytes in the places of the rows.
    #[must_use]
    pub fn with_slots(self, slots: &[u8]) -> Self {
        Self { slots: Pieces::new(slots), ..self }
    }

    /// The same with the rows of a cache, in a map of 2^`map_log2` pairs.
    ///
    /// # Panics
    /// If the map is too small.
    #[must_use]
    pub fn with_cache(mut self, cache: &Cache, map_log2: u32) -> Self {
        self.map = vec![Pair(0, FREE); 1 << map_log2];
        for row in 0..self.rows() {
            if let Some(entry) = cache.entry(row) {
                self.insert(row, entry.bits());
            }
        }
        self.slabs = (0..SLABS).map_while(|slab| cache.slab(slab)).map(Pieces::new).collect();
        self
    }

    /// Gives a row an entry of the map: one that is [`GONE`], say.
    ///
    /// # Panics
    /// If the map is full.
    pub fn insert(&mut self, row: u64, entry: u64) {
        let pairs = self.map.len() as u64;
        let hash = row.wrapping_mul(ROW_HASH) >> (64 - pairs.ilog2());
        let mut places = (0..pairs).map(|probed| ((hash + probed) % pairs) as usize);
        let place = places.find(|&at| self.map[at].1 == FREE || self.map[at].0 == row);
        self.map[place.expect("room in the map")] = Pair(row, entry);
    }

    fn rows(&self) -> u64 {
        (self.slots.len / self.row_len) as u64
    }

    fn raw(&self, indices: &[u64], out: &mut [u8], words: &mut Words, workspace: &mut [u8]) -> RawRows {
        let pointer = |bytes: &[u8]| if bytes.is_empty() { std::ptr::null() } else { bytes.as_ptr() };
        RawRows {
            slots: self.slots.as_ptr(),
            rows: self.rows(),
            packed: self.packed.as_ptr(),
            clusters: pointer(&self.clusters),
            masks: self.masks.as_ptr(),
            least_lens: self.least_lens.as_ptr(),
            row_len: self.row_len as u32,
            granule: self.granule as u32,
            cluster_count: self.cluster_count as u32,
            map_log2: self.map_log2(),
            map: if self.map.is_empty() { std::ptr::null() } else { self.map.as_ptr() },
            totals: if self.map.is_empty() { std::ptr::null_mut() } else { words.totals.as_mut_ptr() },
            slabs: std::array::from_fn(|slab| self.slabs.get(slab).map_or(std::ptr::null(), Pieces::as_ptr)),
            slab_lens: self.slab_lens(),
            indices: indices.as_ptr(),
            count: indices.len() as u64,
            out: out.as_mut_ptr(),
            report: words.report.as_mut_ptr(),
            workspace: workspace.as_mut_ptr().cast(),
        }
    }

    fn map_log2(&self) -> u32 {
        self.map.len().checked_ilog2().unwrap_or(0)
    }

    fn slab_lens(&self) -> [u64; SLABS] {
        std::array::from_fn(|slab| self.slabs.get(slab).map_or(0, |bytes| bytes.len as u64))
    }
}

/// A table of `rows` rows by a codebook that leaves out words of zeros, half of which are none: rows are longer than the
/// codebook alone would tell.
///
/// # Panics
/// If no codebook has rows of this length.
#[must_use]
pub fn sparse_table(row_len: usize, rows: usize) -> Table {
    let mut random = Random::new(row_len as u64);
    let whole = row_len - row_len % 4;
    let mut mask = vec![0xff; row_len];
    mask[whole..].fill(0);
    let zeros = Invariants { mask, bitval: vec![0; row_len] };
    let codebook = Codebook::new(Granule::Four, row_len, vec![zeros]).expect("a codebook");
    let mut raw = vec![0; row_len * rows];
    for word in raw.chunks_mut(4) {
        if random.percent(50) {
            word.fill_with(|| random.bits() as u8);
        }
    }
    Table::with_codebook(raw, codebook, &TableOptions::default()).expect("a table")
}

/// Mask and value of each word, cluster by cluster.
fn masks(codebook: &Codebook, whole: usize) -> Vec<u32> {
    let word = |bytes: &[u8], at| u32::from_le_bytes(bytes[at..at + 4].try_into().expect("four bytes"));
    let clusters = codebook.clusters().iter();
    clusters
        .flat_map(|c| (0..whole).step_by(4).flat_map(move |at| [word(&c.mask, at), word(&c.bitval, at)]))
        .collect()
}

fn least_lens(codebook: &Codebook, whole: usize) -> Vec<u32> {
    let granules = whole / codebook.granule().bytes();
    let tail = codebook.tensor_len() - whole;
    let kept = |mask: &[u8]| mask[..whole].iter().map(|byte| byte.count_zeros() as usize).sum::<usize>();
    let least = |mask| granules.div_ceil(8) + kept(mask).div_ceil(8) + tail;
    codebook.clusters().iter().map(|cluster| least(&cluster.mask) as u32).collect()
}

/// Words that a gather writes.
struct Words {
    report: [u64; REPORT_WORDS],
    totals: [u64; 2],
}

/// What a gather leaves.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GatheredRows {
    /// The rows.
    pub out: Vec<u8>,
    /// The words of its report.
    pub report: [u64; REPORT_WORDS],
}

impl GatheredRows {
    /// The first error, with its position among the indices as the chunk.
    #[must_use]
    pub fn status(&self) -> Status {
        Status::from_word(self.report[0])
    }
}

impl Shim {
    /// Gathers the rows that `indices` name.
    ///
    /// # Panics
    /// If the kernel wrote outside of the rows, or left the workspace other than zero.
    #[must_use]
    pub fn gather(self, table: &RowTable, indices: &[u64], launch: Launch) -> GatheredRows {
        let mut out = Guarded::new(&vec![0x5a; indices.len() * table.row_len], launch.dst_offset);
        let mut workspace = Guarded::new(&[0; 8 * launch::WORKSPACE_WORDS as usize], 0);
        let mut words = Words { report: [u64::MAX; REPORT_WORDS], totals: [70, 700] };
        let raw = table.raw(indices, out.content_mut(), &mut words, workspace.content_mut());
        run(&raw, launch);
        out.check();
        workspace.check();
        assert!(workspace.content().iter().all(|&byte| byte == 0), "{launch:?}: the workspace is not zero");
        let Words { report, totals: [hits, misses] } = words;
        let added = if table.map.is_empty() { (0, 0) } else { (report[5], report[1]) };
        assert_eq!((hits, misses), (70 + added.0, 700 + added.1), "{launch:?}: hits and misses in all");
        GatheredRows { out: out.content().to_vec(), report }
    }
}

/// Appends the record of a gather to `file`, for `replay_rows.cpp`. The expected answer is that of this build's kernel,
/// which other tests compare with portable code.
pub fn push(file: &mut Vec<u8>, shim: Shim, table: &RowTable, indices: &[u64], launch: Launch) {
    let gathered = shim.gather(table, indices, launch);
    let map: Vec<u8> =
        table.map.iter().flat_map(|pair| [pair.0, pair.1]).flat_map(u64::to_le_bytes).collect();
    let numbers = [
        launch.blocks,
        launch.order.number(),
        launch.os_threads,
        launch.dst_offset as u32,
        table.row_len as u32,
        table.granule as u32,
        table.cluster_count as u32,
        table.map_log2(),
    ];
    file.extend(numbers.into_iter().flat_map(u32::to_le_bytes));
    let lens = [table.rows(), table.clusters.len() as u64, map.len() as u64, indices.len() as u64];
    let words = lens.into_iter().chain(table.slab_lens()).chain(gathered.report);
    file.extend(words.flat_map(u64::to_le_bytes));
    file.extend(table.slots.bytes());
    file.extend_from_slice(&table.packed);
    file.extend_from_slice(&table.clusters);
    file.extend(table.masks.iter().chain(&table.least_lens).copied().flat_map(u32::to_le_bytes));
    file.extend(map);
    table.slabs.iter().for_each(|slab| file.extend(slab.bytes()));
    file.extend(indices.iter().copied().flat_map(u64::to_le_bytes));
    if gathered.status() == Status::GOOD {
        file.extend(gathered.out);
    }
}

#[cfg(mgcomp_shim)]
fn run(rows: &RawRows, launch: Launch) {
    unsafe extern "C" {
        fn mgc_shim_rows(blocks: u32, order: u32, seed: u64, os_threads: u32, rows: *const RawRows) -> i32;
    }
    let seed = if let super::LaneOrder::Random(seed) = launch.order { seed } else { 0 };
    // SAFETY: pointers and lengths are those of live memory that nobody else uses meanwhile. That the kernel stays inside
    // whatever the rows hold is what the tests check, with guard bytes and under a sanitizer.
    let refused =
        unsafe { mgc_shim_rows(launch.blocks, launch.order.number(), seed, launch.os_threads, rows) };
    assert_eq!(refused, 0, "no such order");
}

#[cfg(not(mgcomp_shim))]
fn run(_: &RawRows, _: Launch) {
    unreachable!("a Shim exists only where the kernels were built")
}

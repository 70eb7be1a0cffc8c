//! What both ends know of a set of tensors: which bits hardly ever change, and what they are.
//!
//! # Layout of the body
//! ```text
//! byte  0         1                2 .. 3          4 .. 7
//!       version   granule: 4, 8    clusters, u16   tensor length in bytes, u32
//! byte  8 ..
//!       for each cluster: mask, then bitval, each of the tensor's length
//! ```

/// The unit that matches the invariant bits or does not.
///
/// The paper calls it a chunk; here that is what a frame consists of.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Granule {
    /// 4 bytes.
    Four,
    /// 8 bytes.
    Eight,
}

impl Granule {
    /// The one for tensors of `tensor_len` bytes where nobody asks for another: 8 bytes where that divides
    /// the tensor, else 4.
    #[must_use]
    pub const fn for_tensor(tensor_len: usize) -> Self {
        if tensor_len.is_multiple_of(8) { Self::Eight } else { Self::Four }
    }

    /// The length in bytes.
    #[must_use]
    pub const fn bytes(self) -> usize {
        match self {
            Self::Four => 4,
            Self::Eight => 8,
        }
    }
}

/// The invariant bits of one cluster of tensors.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Invariants {
    /// Ones where the bit is invariant; as long as a tensor.
    pub mask: Vec<u8>,
    /// The invariant bits' values, zero elsewhere; as long as a tensor.
    pub bitval: Vec<u8>,
}

/// The invariant bits of a set of tensors of one length, and how they are cut.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Codebook {
    granule: Granule,
    tensor_len: usize,
    clusters: Vec<Invariants>,
    id: u64,
}

/// The longest body of a codebook in bytes: the invariant bits of one tensor of 128 KiB, or of more that are
/// shorter.
pub const MAX_CODEBOOK_LEN: usize = BODY_HEADER_LEN + 2 * MAX_INVARIANT_LEN;
/// The most clusters: a tensor names its own in a byte.
pub const MAX_CLUSTERS: usize = 256;

/// The most bytes of tensors that the masks of a codebook cover.
const MAX_INVARIANT_LEN: usize = 128 << 10;
const BODY_HEADER_LEN: usize = 8;
const VERSION: u8 = 0;

/// Why something is no codebook. Offsets count from the front of its body.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum CodebookError {
    /// The body ends too early.
    #[error("truncated: {needed} bytes are needed, {got} are there")]
    Truncated {
        /// Bytes that the codebook says it has.
        needed: usize,
        /// Bytes there.
        got: usize,
    },
    /// Bytes follow the last cluster.
    #[error("too long: it ends at byte {end}, but {got} bytes are there")]
    Trailing {
        /// Where the last cluster ends.
        end: usize,
        /// Bytes there.
        got: usize,
    },
    /// A frame says that it carries a body longer than any codebook has.
    #[error("{got} bytes (byte 8) are over the limit of {MAX_CODEBOOK_LEN}")]
    TooLong {
        /// The length given in bytes.
        got: u64,
    },
    /// A version that this code does not know.
    #[error("version {0} (byte 0) is not supported; this is version 0")]
    Version(u8),
    /// A granule of neither 4 nor 8 bytes.
    #[error("byte 1: granules of {0} bytes; 4 and 8 are possible")]
    Granule(u8),
    /// No cluster, or too many.
    #[error("byte 2: {0} clusters; 1 to {MAX_CLUSTERS} are possible")]
    Clusters(usize),
    /// Tensors of no bytes, or masks of too many in all.
    #[error(
        "byte 4: {clusters} clusters of tensors of {tensor_len} bytes; 1 to {MAX_INVARIANT_LEN} bytes in all are possible"
    )]
    TensorLen {
        /// Bytes of a tensor.
        tensor_len: usize,
        /// How many clusters there are.
        clusters: usize,
    },
    /// A mask or its values have not the length of a tensor.
    #[error("cluster {cluster}: a mask of {mask} bytes and values of {bitval}; a tensor has {tensor_len}")]
    Cluster {
        /// Index of the cluster.
        cluster: usize,
        /// Bytes of its mask.
        mask: usize,
        /// Bytes of its values.
        bitval: usize,
        /// Bytes of a tensor.
        tensor_len: usize,
    },
    /// A value is set where the mask says that the bit varies.
    #[error("cluster {cluster}: byte {byte} has the value {bitval:#04x} outside its mask {mask:#04x}")]
    Value {
        /// Index of the cluster.
        cluster: usize,
        /// Index of the byte in the tensor.
        byte: usize,
        /// The values there.
        bitval: u8,
        /// The mask there.
        mask: u8,
    },
    /// A bit is invariant in the tail, which no granule covers.
    #[error("cluster {cluster}: byte {byte} is masked, but lies behind the last whole granule")]
    Tail {
        /// Index of the cluster.
        cluster: usize,
        /// Index of the byte in the tensor.
        byte: usize,
    },
    /// The content is not that of the codebook named.
    #[error("codebook {computed:#018x} is there where {named:#018x} is named")]
    Id {
        /// The identity given.
        named: u64,
        /// That of the content.
        computed: u64,
    },
    /// A frame names the empty codebook, which needs no naming.
    #[error("codebook 0 is empty and is not named")]
    Empty,
    /// Padding behind the body is not zero.
    #[error("byte {offset} behind the codebook is {got:#04x}, not zero")]
    Padding {
        /// Where it stands.
        offset: usize,
        /// What it holds.
        got: u8,
    },
    /// A frame cannot use the codebook: its chunks would start within a granule.
    #[error("tensors of {tensor_len} bytes have no whole number of granules of {granule}, as chunks need it")]
    Cut {
        /// Bytes of a tensor.
        tensor_len: usize,
        /// Bytes of a granule.
        granule: usize,
    },
}

impl Codebook {
    /// The codebook of tensors of `tensor_len` bytes, whose clusters have these invariant bits.
    ///
    /// # Errors
    /// [`CodebookError`] if lengths or numbers are out of range or do not agree, a value lies outside its
    /// mask, or a bit behind the last whole granule is masked.
    pub fn new(
        granule: Granule,
        tensor_len: usize,
        clusters: Vec<Invariants>,
    ) -> Result<Self, CodebookError> {
        check_size(tensor_len, clusters.len())?;
        for (cluster, Invariants { mask, bitval }) in clusters.iter().enumerate() {
            if mask.len() != tensor_len || bitval.len() != tensor_len {
                let (mask, bitval) = (mask.len(), bitval.len());
                return Err(CodebookError::Cluster { cluster, mask, bitval, tensor_len });
            }
            if let Some(byte) = (0..tensor_len).find(|&i| bitval[i] & !mask[i] != 0) {
                let (bitval, mask) = (bitval[byte], mask[byte]);
                return Err(CodebookError::Value { cluster, byte, bitval, mask });
            }
            let whole = tensor_len - tensor_len % granule.bytes();
            if let Some(i) = mask[whole..].iter().position(|&byte| byte != 0) {
                return Err(CodebookError::Tail { cluster, byte: whole + i });
            }
        }
        let mut codebook = Self { granule, tensor_len, clusters, id: 0 };
        codebook.id = identify(&codebook.to_bytes());
        Ok(codebook)
    }

    /// The codebook without invariant bits, whose identity is 0. It needs no naming and no carrying.
    #[must_use]
    pub fn empty() -> Self {
        let nothing = Invariants { mask: vec![0; 8], bitval: vec![0; 8] };
        Self { granule: Granule::Eight, tensor_len: 8, clusters: vec![nothing], id: 0 }
    }

    /// Reads the body of a codebook.
    ///
    /// # Errors
    /// [`CodebookError`] naming what is wrong with it. Nothing is allocated for a body that is too long or
    /// incomplete.
    pub fn parse(body: &[u8]) -> Result<Self, CodebookError> {
        let got = body.len();
        let Some((header, masks)) = body.split_first_chunk::<BODY_HEADER_LEN>() else {
            return Err(CodebookError::Truncated { needed: BODY_HEADER_LEN, got });
        };
        let [version, granule, c0, c1, len @ ..] = *header;
        if version != VERSION {
            return Err(CodebookError::Version(version));
        }
        let granule = match granule {
            4 => Granule::Four,
            8 => Granule::Eight,
            other => return Err(CodebookError::Granule(other)),
        };
        let clusters = usize::from(u16::from_le_bytes([c0, c1]));
        let tensor_len = u32::from_le_bytes(len) as usize;
        check_size(tensor_len, clusters)?;
        let end = Self::body_len(tensor_len, clusters);
        if got < end {
            return Err(CodebookError::Truncated { needed: end, got });
        }
        if got > end {
            return Err(CodebookError::Trailing { end, got });
        }
        let clusters = masks.chunks_exact(2 * tensor_len).map(|cluster| {
            let (mask, bitval) = cluster.split_at(tensor_len);
            Invariants { mask: mask.to_vec(), bitval: bitval.to_vec() }
        });
        Self::new(granule, tensor_len, clusters.collect())
    }

    /// The body, as [`parse`](Self::parse) reads it.
    #[must_use]
    pub fn to_bytes(&self) -> Vec<u8> {
        let mut body = Vec::with_capacity(Self::body_len(self.tensor_len, self.clusters.len()));
        body.extend_from_slice(&[VERSION, self.granule.bytes() as u8]);
        body.extend_from_slice(&(self.clusters.len() as u16).to_le_bytes());
        body.extend_from_slice(&(self.tensor_len as u32).to_le_bytes());
        for Invariants { mask, bitval } in &self.clusters {
            body.extend_from_slice(mask);
            body.extend_from_slice(bitval);
        }
        body
    }

    /// Bytes of the body of a codebook of so many clusters.
    pub(super) const fn body_len(tensor_len: usize, clusters: usize) -> usize {
        BODY_HEADER_LEN + 2 * tensor_len * clusters
    }

    /// The number that stands for this content: the same wherever it was fitted; 0 for
    /// [`empty`](Self::empty) alone.
    #[must_use]
    pub fn id(&self) -> u64 {
        self.id
    }

    /// The granule that tensors are cut into.
    #[must_use]
    pub fn granule(&self) -> Granule {
        self.granule
    }

    /// Length of a tensor in bytes.
    #[must_use]
    pub fn tensor_len(&self) -> usize {
        self.tensor_len
    }

    /// The invariant bits of each cluster; at least one.
    #[must_use]
    pub fn clusters(&self) -> &[Invariants] {
        &self.clusters
    }
}

/// Refuses numbers that no codebook has.
pub(super) fn check_size(tensor_len: usize, clusters: usize) -> Result<(), CodebookError> {
    if !(1..=MAX_CLUSTERS).contains(&clusters) {
        return Err(CodebookError::Clusters(clusters));
    }
    if !(1..=MAX_INVARIANT_LEN / clusters).contains(&tensor_len) {
        return Err(CodebookError::TensorLen { tensor_len, clusters });
    }
    Ok(())
}

/// FNV-1a of a body, in 64 bits; 1 instead of 0, which stands for the empty codebook.
fn identify(body: &[u8]) -> u64 {
    let hash = body.iter().fold(0xcbf2_9ce4_8422_2325u64, |hash, &byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3)
    });
    hash.max(1)
}

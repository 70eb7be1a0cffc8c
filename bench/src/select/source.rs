//! The data that transfers are cut from.

use mgcomp_codecs::frame::{Options, sampled_frame_len};
use mgcomp_codecs::{Algorithm, Element, codec};

use crate::codec::Data;
use crate::data::{self, Item, Random};
use crate::error::BenchError;
use crate::timing::{Buffer, CandidateError};

/// More of the data than the longest transfer needs, so that not all long ones begin at the same place.
const SLACK_BYTES: usize = 4 << 20;
/// Bytes of a file that its kind is told from.
const LOOK_BYTES: usize = 256 << 10;
/// Part of the elements that is zero in maps after ReLU.
const SPARSE: f64 = 0.3;
/// What noise may shrink to.
const NOISE: f64 = 0.99;
/// Files that a note names; of more it gives the number.
const NAMED: usize = 8;

/// A kind of data that has a sequence of its own.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    /// Floats of 16 bits, hardly any of them zero.
    Dense,
    /// Floats, many of them zero.
    Relu,
    Indices,
    Noise,
}

impl Kind {
    pub(super) const ALL: [Self; 4] = [Self::Dense, Self::Relu, Self::Indices, Self::Noise];

    pub(super) const fn name(self) -> &'static str {
        match self {
            Self::Dense => "dense",
            Self::Relu => "relu",
            Self::Indices => "indices",
            Self::Noise => "random",
        }
    }

    /// What a file that starts with `content` holds, if any of these.
    fn of(element: Element, content: &[u8]) -> Option<Self> {
        if is_noise(element, content) {
            return Some(Self::Noise);
        }
        let values = content.chunks_exact(element.width_bytes());
        let zeros = values.clone().filter(|value| value.iter().all(|&byte| byte == 0)).count();
        match element {
            Element::U32 | Element::U64 => Some(Self::Indices),
            Element::F16 | Element::Bf16 | Element::F32 if zeros as f64 >= SPARSE * values.len() as f64 => {
                Some(Self::Relu)
            }
            Element::Bf16 => Some(Self::Dense),
            _ => None,
        }
    }
}

/// Whether no codec that is there to be chosen shortens it.
fn is_noise(element: Element, content: &[u8]) -> bool {
    let options = Options::for_len(content.len());
    Algorithm::ALL.into_iter().filter(|&algorithm| algorithm != Algorithm::Deflate).filter_map(codec).all(
        |codec| {
            let len = sampled_frame_len(codec, element, content, options, LOOK_BYTES / 4);
            len as f64 >= NOISE * content.len() as f64
        },
    )
}

/// A file that transfers are to be cut from.
pub(super) struct Chosen {
    /// Its kind, where it stands for one; a file that flags name stands for itself.
    kind: Option<Kind>,
    item: Item,
}

/// What there is to cut from, and what is to be said of the files that are not among it.
pub(super) struct Choice {
    pub(super) chosen: Vec<Chosen>,
    pub(super) notes: Vec<String>,
}

/// What a sequence of one source is called by.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Called<'a> {
    Kind(Kind),
    File(&'a str, Element),
}

impl<'a> Called<'a> {
    fn of(kind: Option<Kind>, item: &'a Item) -> Self {
        kind.map_or(Self::File(&item.label, item.element), Self::Kind)
    }
}

/// What flags offer to cut from, none of it read.
pub(super) struct Offer {
    /// Of these, one file of each kind of data is taken: of the samples, if there is none in the list.
    folders: Option<Vec<Data>>,
    named: Vec<Item>,
}

impl Offer {
    pub(super) fn of(data: &[Data]) -> Result<Self, BenchError> {
        let (named, folders): (Vec<Data>, Vec<Data>) =
            data.iter().cloned().partition(|data| !data.path.is_dir());
        let named_items = if named.is_empty() { Vec::new() } else { crate::codec::items_of(&named)? };
        let has_folders = named.is_empty() || !folders.is_empty();
        Ok(Self { folders: has_folders.then_some(folders), named: named_items })
    }

    /// What the sources may be called by: there are no others, but a folder may lack a kind of data.
    pub(super) fn called(&self) -> Vec<Called<'_>> {
        let kinds = self.folders.iter().flat_map(|_| Kind::ALL.map(Called::Kind));
        kinds.chain(self.named.iter().map(|item| Called::of(None, item))).collect()
    }

    /// One file for each kind of data from the folders, by chance, and every file that is named. None is read but for the
    /// front that tells its kind: a folder may hold more than memory does.
    pub(super) fn choose(self, seed: u64) -> Result<Choice, BenchError> {
        let mut choice = Choice { chosen: Vec::new(), notes: Vec::new() };
        if let Some(folders) = self.folders {
            let items = crate::codec::items_of(&folders)?;
            let count = items.len();
            choice = one_of_each_kind(items, seed)?;
            if choice.chosen.is_empty() && self.named.is_empty() {
                return Err(BenchError::NoKind { files: count });
            }
            // Which of the samples were taken is nobody's question.
            if folders.is_empty() {
                choice.notes.clear();
            }
        }
        choice.chosen.extend(self.named.into_iter().map(|item| Chosen { kind: None, item }));
        Ok(choice)
    }
}

/// Of files that stand for kinds of data, one for each.
fn one_of_each_kind(items: Vec<Item>, seed: u64) -> Result<Choice, BenchError> {
    let mut by_kind: [Vec<Item>; 4] = Default::default();
    let mut others = Vec::new();
    for item in items {
        match Kind::of(item.element, &data::read_first(&item.path, LOOK_BYTES)?) {
            Some(kind) => by_kind[kind as usize].push(item),
            None => others.push(format!("{} ({})", item.path.display(), item.element)),
        }
    }
    let mut random = Random::new(seed);
    let mut choice = Choice { chosen: Vec::new(), notes: Vec::new() };
    for (kind, mut items) in Kind::ALL.into_iter().zip(by_kind) {
        let of = items.len();
        if of > 0 {
            let item = items.swap_remove(random.below(of));
            choice.notes.push(taken(kind, &item, of));
            choice.chosen.push(Chosen { kind: Some(kind), item });
        }
    }
    choice.notes.extend(left_out(&others));
    Ok(choice)
}

fn taken(kind: Kind, item: &Item, of: usize) -> String {
    let (kind, path) = (kind.name(), item.path.display());
    match of {
        1 => format!("{kind} is cut from {path}"),
        _ => format!("{kind} is cut from {path}, by chance one of {of} such files"),
    }
}

fn left_out(files: &[String]) -> Option<String> {
    let named = files[..files.len().min(NAMED)].join(", ");
    let rest = files.len().saturating_sub(NAMED);
    let more = if rest > 0 { format!(" and {rest} more") } else { String::new() };
    (!files.is_empty())
        .then(|| format!("left out, for no kind fits: {named}{more}; a file that is named itself is not"))
}

impl Chosen {
    pub(super) fn called(&self) -> Called<'_> {
        Called::of(self.kind, &self.item)
    }

    /// The data repeated until the longest transfer fits, or as much of it as that takes.
    pub(super) fn load(self, longest: usize) -> Result<Source, BenchError> {
        let Self { kind, item } = self;
        let bytes = longest + SLACK_BYTES.min(longest);
        let mut raw = Buffer::new(bytes).map_err(|source| BenchError::Buffer { bytes, source })?;
        data::fill(&item, &mut raw)?;
        Ok(Source { kind, item, raw })
    }
}

/// Data to cut transfers from.
pub(super) struct Source {
    pub(super) kind: Option<Kind>,
    pub(super) item: Item,
    raw: Buffer,
}

impl Source {
    /// An algorithm that failed on it.
    pub(super) fn failed(&self, algorithm: Algorithm, source: CandidateError) -> BenchError {
        BenchError::Candidate { path: self.item.path.clone(), algorithm: algorithm.name(), source }
    }

    pub(super) fn called(&self) -> Called<'_> {
        Called::of(self.kind, &self.item)
    }

    pub(super) fn raw(&self) -> &[u8] {
        &self.raw
    }

    /// A source of zeros.
    #[cfg(test)]
    pub(super) fn of_zeros(kind: Option<Kind>, label: &str, element: Element, bytes: usize) -> Self {
        let item = Item { label: label.into(), path: label.into(), element, kind: None };
        Self { kind, item, raw: Buffer::new(bytes).unwrap() }
    }
}

#[cfg(test)]
mod tests {
    use std::fs::{self, OpenOptions};
    use std::path::Path;

    use super::*;

    /// Data of one kind: words that count, floats of which half are zero, or the same float over and over.
    fn write(folder: &Path, name: &str) -> Data {
        let path = folder.join(name);
        let words: Vec<u32> = match name.split('.').next().unwrap() {
            "counting" => (0..4096).collect(),
            "sparse" => (0..4096).map(|i| if i % 2 == 0 { 0 } else { 0x3f80_0000 }).collect(),
            _ => vec![0x3f80_3f80; 4096],
        };
        fs::write(&path, words.iter().flat_map(|word| word.to_le_bytes()).collect::<Vec<u8>>()).unwrap();
        Data { path, element: None }
    }

    fn choose(data: &[Data], seed: u64) -> Result<Choice, BenchError> {
        Offer::of(data)?.choose(seed)
    }

    fn shown(choice: &Choice) -> Vec<(Option<Kind>, String)> {
        let name = |chosen: &Chosen| chosen.item.path.file_name().unwrap().to_string_lossy().into_owned();
        choice.chosen.iter().map(|chosen| (chosen.kind, name(chosen))).collect()
    }

    #[test]
    fn files_that_are_named_stay_whatever_stands_beside_them() {
        let outside = tempfile::tempdir().unwrap();
        let named =
            ["ones.f64.bin", "counting.u32.bin", "ones.bf16.bin"].map(|name| write(outside.path(), name));
        let folder = tempfile::tempdir().unwrap();
        for name in ["counting.u32.bin", "counting.u64.bin", "ones.bf16.bin", "ones.f64.bin", "ones.u8.bin"] {
            write(folder.path(), name);
        }
        let of_folder = Data { path: folder.path().into(), element: None };
        let choice = choose(&[named.to_vec(), vec![of_folder]].concat(), 1).unwrap();
        let shown = shown(&choice);
        assert_eq!(shown[0], (Some(Kind::Dense), "ones.bf16.bin".into()));
        assert_eq!(shown[1].0, Some(Kind::Indices));
        let named = ["ones.f64.bin", "counting.u32.bin", "ones.bf16.bin"].map(|name| (None, name.to_owned()));
        assert_eq!(shown[2..], named);
        let folder = folder.path().display();
        assert_eq!(choice.notes[0], format!("dense is cut from {folder}/ones.bf16.bin"));
        assert!(choice.notes[1].ends_with(", by chance one of 2 such files"), "{}", choice.notes[1]);
        assert_eq!(
            choice.notes[2],
            format!(
                "left out, for no kind fits: {folder}/ones.f64.bin (f64), {folder}/ones.u8.bin (u8); a file that is named itself is not"
            )
        );
    }

    #[test]
    #[cfg(unix)] // files with holes
    fn of_files_that_no_memory_holds_only_the_front_is_read() {
        let folder = tempfile::tempdir().unwrap();
        let file = write(folder.path(), "counting.u32.bin");
        OpenOptions::new().write(true).open(&file.path).unwrap().set_len(1 << 40).unwrap();
        for data in [file, Data { path: folder.path().into(), element: None }] {
            let mut choice = choose(&[data], 1).unwrap();
            // 1001 bytes and as many again; elements are four bytes.
            let source = choice.chosen.remove(0).load(1001).unwrap();
            let counted: Vec<u8> = (0..501u32).flat_map(u32::to_le_bytes).collect();
            assert_eq!(source.raw(), &counted[..2002]);
        }
    }

    #[test]
    fn files_alone_need_no_notes_and_folders_without_any_kind_are_refused() {
        let folder = tempfile::tempdir().unwrap();
        let file = write(folder.path(), "ones.f64.bin");
        let alone = choose(std::slice::from_ref(&file), 1).unwrap();
        assert_eq!((shown(&alone), alone.notes.len()), (vec![(None, "ones.f64.bin".to_owned())], 0));
        let nothing = choose(&[Data { path: folder.path().into(), element: None }], 1);
        assert!(matches!(nothing, Err(BenchError::NoKind { files: 1 })));
        // With a file that is named there is something to cut from.
        let both = choose(&[file, Data { path: folder.path().into(), element: None }], 1).unwrap();
        assert_eq!((shown(&both), both.notes.len()), (vec![(None, "ones.f64.bin".to_owned())], 1));
        // What is declared counts, not what the name says.
        let as_floats = Data { path: folder.path().into(), element: Some(Element::Bf16) };
        assert_eq!(shown(&choose(&[as_floats], 1).unwrap())[0].0, Some(Kind::Dense));
        write(folder.path(), "sparse.f32.bin");
        assert_eq!(
            shown(&choose(&[Data { path: folder.path().into(), element: None }], 1).unwrap())[0].0,
            Some(Kind::Relu)
        );
    }

    #[test]
    fn notes_name_some_files_and_count_the_others() {
        let files: Vec<String> = (0..10).map(|i| i.to_string()).collect();
        let note = left_out(&files).unwrap();
        assert_eq!(
            note,
            "left out, for no kind fits: 0, 1, 2, 3, 4, 5, 6, 7 and 2 more; a file that is named itself is not"
        );
        assert_eq!(left_out(&[]), None);
    }
}

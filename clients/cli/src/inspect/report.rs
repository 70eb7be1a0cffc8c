//! What `inspect` prints, as text and as JSON.

use std::fmt::Write;

use mgcomp_codecs::frame::{Frame, FrameError, HEADER_LEN};
use serde::Serialize;

use super::fields::{Field, fields};
use super::scan::{ChunkLine, Scan};

/// Everything there is to say about one frame. Parts that its damage hides are absent.
#[derive(Debug, Serialize)]
pub(crate) struct Report {
    file: String,
    frame_bytes: usize,
    header: Vec<Field>,
    #[serde(flatten)]
    content: Option<Content>,
    /// Why the frame, or its first damaged chunk, cannot be decoded.
    error: Option<String>,
}

/// What header and table of a sound frame say, and what became of its chunks.
#[derive(Debug, Serialize)]
struct Content {
    algorithm: &'static str,
    element: &'static str,
    checksum: bool,
    raw_bytes: u64,
    ratio: f64,
    table_bytes: usize,
    /// What stands between table and chunks, if anything does.
    codebook: Option<Codebook>,
    chunk_bytes: usize,
    chunks: usize,
    coded_chunks: usize,
    raw_chunks: usize,
    damaged_chunks: usize,
    /// Those that cannot be decoded without a codebook that is not there.
    unchecked_chunks: usize,
    /// Index and stored bytes.
    smallest_chunk: Option<(usize, usize)>,
    /// Index and stored bytes.
    largest_chunk: Option<(usize, usize)>,
    #[serde(skip_serializing_if = "Option::is_none")]
    chunk_list: Option<Vec<ChunkLine>>,
}

/// The codebook of a frame.
#[derive(Debug, Serialize)]
struct Codebook {
    offset: usize,
    bytes: usize,
    /// In hexadecimal, as it is a hash.
    identity: String,
    /// Whether it is all there. Else the reader is expected to know it.
    carried: bool,
}

impl Codebook {
    fn of(frame: &Frame<'_>) -> Option<Self> {
        let (section, offset) = (frame.codebook()?, frame.header().table_end());
        Some(Self {
            offset,
            bytes: frame.chunks_offset() - offset,
            identity: format!("{:#018x}", section.id()),
            carried: section.carried().is_some(),
        })
    }
}

impl Report {
    /// What the header of `frame` says, right or wrong.
    pub(crate) fn of_header(file: &str, frame: &[u8]) -> Self {
        Self {
            file: file.to_owned(),
            frame_bytes: frame.len(),
            header: fields(frame),
            content: None,
            error: None,
        }
    }

    /// Adds why header or table cannot be right.
    pub(crate) fn add_error(&mut self, error: &FrameError) {
        self.error = Some(error.to_string());
    }

    /// Adds the table, and what became of the chunks.
    pub(crate) fn add_scan(&mut self, frame: &Frame<'_>, scan: &mut Scan) {
        let header = frame.header();
        self.error = scan.why_not_all();
        self.content = Some(Content {
            algorithm: header.algorithm.name(),
            element: header.element.name(),
            checksum: header.checksum,
            raw_bytes: header.raw_len,
            ratio: header.raw_len as f64 / self.frame_bytes as f64,
            table_bytes: header.table_end() - HEADER_LEN,
            codebook: Codebook::of(frame),
            chunk_bytes: self.frame_bytes - frame.chunks_offset(),
            chunks: scan.chunks,
            coded_chunks: scan.chunks - scan.raw,
            raw_chunks: scan.raw,
            damaged_chunks: scan.damaged,
            unchecked_chunks: scan.unchecked,
            smallest_chunk: scan.smallest,
            largest_chunk: scan.largest,
            chunk_list: scan.list.take(),
        });
    }

    /// One JSON object and a line end.
    pub(crate) fn to_json(&self) -> String {
        let json = serde_json::to_string(self).expect("a report has string keys and finite numbers");
        json + "\n"
    }

    /// Lines for people.
    pub(crate) fn to_text(&self) -> String {
        let mut text = format!("{}: {} bytes\n\n", self.file, self.frame_bytes);
        text += "offset  field       bytes                    meaning\n";
        for Field { field, offset, bytes, meaning } in &self.header {
            line(&mut text, format_args!("{offset:>6}  {field:<10}  {bytes:<23}  {meaning}"));
        }
        if let Some(content) = &self.content {
            content.write_table(&mut text);
            content.write_list(&mut text);
            content.write_verdict(&mut text, self.frame_bytes);
        }
        if let Some(error) = &self.error {
            line(&mut text, format_args!("\nerror: {error}"));
        }
        text
    }
}

impl Content {
    fn write_table(&self, text: &mut String) {
        let entry =
            if self.checksum { "end in units of 16 bytes, CRC32C" } else { "end in units of 16 bytes" };
        line(
            text,
            format_args!(
                "{HEADER_LEN:>6}  {:<10}  {:<23}  {} entries: {entry}",
                "table",
                format!("({} bytes)", self.table_bytes),
                self.chunks
            ),
        );
        let mut chunks_offset = HEADER_LEN + self.table_bytes;
        if let Some(Codebook { offset, bytes, identity, carried }) = &self.codebook {
            let carried = if *carried { "all of it" } else { "only named: the reader is to have it" };
            let size = format!("({bytes} bytes)");
            line(text, format_args!("{offset:>6}  {:<10}  {size:<23}  {identity}, {carried}", "codebook"));
            chunks_offset += bytes;
        }
        line(
            text,
            format_args!(
                "{:>6}  {:<10}  {:<23}  {} coded, {} raw",
                chunks_offset,
                "chunks",
                format!("({} bytes)", self.chunk_bytes),
                self.coded_chunks,
                self.raw_chunks
            ),
        );
        if let (Some((small, small_bytes)), Some((large, large_bytes))) =
            (self.smallest_chunk, self.largest_chunk)
        {
            line(
                text,
                format_args!(
                    "{:>45}smallest {small_bytes} bytes (chunk {small}), largest {large_bytes} bytes (chunk {large})",
                    ""
                ),
            );
        }
    }

    fn write_list(&self, text: &mut String) {
        let Some(list) = &self.chunk_list else { return };
        *text += "\n   chunk      offset  stored bytes  raw bytes  crc32c    state\n";
        for ChunkLine { chunk, offset, stored_bytes, raw_bytes, crc32c, state } in list {
            let crc32c = crc32c.as_deref().unwrap_or("-");
            let state = state.name();
            line(
                text,
                format_args!(
                    "{chunk:>8}  {offset:>10}  {stored_bytes:>12}  {raw_bytes:>9}  {crc32c:<8}  {state}"
                ),
            );
        }
    }

    fn write_verdict(&self, text: &mut String, frame_bytes: usize) {
        let checked =
            if self.checksum { "decode and match their checksums" } else { "decode (no checksums)" };
        let (raw_bytes, ratio) = (self.raw_bytes, self.ratio);
        line(text, format_args!("\nratio {ratio:.2}: {raw_bytes} raw bytes in {frame_bytes}"));
        let chunks = self.chunks;
        match (self.damaged_chunks, self.unchecked_chunks) {
            (0, 0) => line(text, format_args!("verified: all {chunks} chunks {checked}")),
            (0, unchecked) => {
                line(
                    text,
                    format_args!(
                        "not verified: {unchecked} of {chunks} chunks cannot be checked without the codebook"
                    ),
                );
            }
            (damaged, _) => line(text, format_args!("damaged: {damaged} of {chunks} chunks do not decode")),
        }
    }
}

/// Appends one line; writing to a string cannot fail.
fn line(text: &mut String, content: std::fmt::Arguments<'_>) {
    let _ = writeln!(text, "{content}");
}

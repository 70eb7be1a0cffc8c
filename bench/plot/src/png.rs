//! PNG files: 8 bits each of red, green and blue.

use crc_fast::{CrcAlgorithm, checksum};

/// Bytes of a pixel.
const PIXEL_LEN: usize = 3;
const SIGNATURE: [u8; 8] = [0x89, b'P', b'N', b'G', b'\r', b'\n', 0x1a, b'\n'];
/// Level of zlib.
const LEVEL: u8 = 6;

/// Pixels row by row, from the top.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Image {
    pub(super) width: u32,
    pub(super) height: u32,
    pub(super) pixels: Vec<[u8; PIXEL_LEN]>,
}

impl Image {
    /// A white image.
    pub(super) fn white(width: u32, height: u32) -> Self {
        Self { width, height, pixels: vec![[0xff; PIXEL_LEN]; (width * height) as usize] }
    }

    /// The image as a PNG file.
    pub(super) fn png(&self) -> Vec<u8> {
        let mut header = [self.width.to_be_bytes(), self.height.to_be_bytes()].concat();
        // 8 bits, colours; zlib, the only filters, not interlaced.
        header.extend([8, 2, 0, 0, 0]);
        // Each row has the number of its filter in front: none.
        let rows = self.pixels.chunks(self.width as usize);
        let raw: Vec<u8> =
            rows.flat_map(|row| std::iter::once(0).chain(row.iter().flatten().copied())).collect();
        let mut file = SIGNATURE.to_vec();
        chunk(&mut file, b"IHDR", &header);
        chunk(&mut file, b"IDAT", &miniz_oxide::deflate::compress_to_vec_zlib(&raw, LEVEL));
        chunk(&mut file, b"IEND", &[]);
        file
    }
}

fn chunk(file: &mut Vec<u8>, kind: &[u8; 4], data: &[u8]) {
    let named = [kind, data].concat();
    file.extend((data.len() as u32).to_be_bytes());
    file.extend(&named);
    // 32 bits of it.
    file.extend((checksum(CrcAlgorithm::Crc32IsoHdlc, &named) as u32).to_be_bytes());
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_have_their_chunks() {
        let mut image = Image::white(3, 2);
        image.pixels[4] = [1, 2, 3];
        let file = image.png();
        assert_eq!(file[..8], SIGNATURE);
        assert_eq!(file[8..16], *b"\0\0\0\x0dIHDR");
        assert_eq!(file[16..29], [0, 0, 0, 3, 0, 0, 0, 2, 8, 2, 0, 0, 0]);
        // The end of every PNG file.
        assert_eq!(file[file.len() - 12..], *b"\0\0\0\0IEND\xae\x42\x60\x82");
        let data = &file[33 + 8..file.len() - 12 - 4];
        let raw = miniz_oxide::inflate::decompress_to_vec_zlib(data).unwrap();
        let row = [[0].as_slice(), &[0xff; 9]].concat();
        assert_eq!(raw[..10], row);
        assert_eq!(raw[10..], [0, 255, 255, 255, 1, 2, 3, 255, 255, 255]);
    }
}

//! How much room texts need, and where they go so that none covers another.

/// About how wide a letter is in SVG, where the font is the reader's: that of wide fonts.
const LETTER: f64 = 7.5;
/// How wide a letter is in PNG.
pub(super) const PNG_LETTER: f64 = 5.0;
/// Between texts in a row.
const GAP: f64 = 8.0;

/// The width of `text` where it is widest.
pub(super) fn width(text: &str) -> f64 {
    let letters = |text: &str| text.chars().count() as f64;
    // Written out, a Greek letter may need more in PNG than in SVG.
    (LETTER * letters(text)).max(PNG_LETTER * letters(&plain(text)))
}

/// The width of the widest.
pub(super) fn widest<'a>(texts: impl Iterator<Item = &'a str>) -> f64 {
    texts.map(width).fold(0.0, f64::max)
}

/// `text` with what the font of PNG lacks, or shows badly, written otherwise.
pub(super) fn plain(text: &str) -> String {
    let mut plain = String::with_capacity(text.len());
    for letter in text.chars() {
        match letter {
            '×' => plain.push('x'),
            '−' | '–' => plain.push('-'),
            'µ' => plain.push('μ'),
            '·' => plain.push('.'),
            '≥' => plain.push('>'),
            // It is there, but hardly differs from an A.
            'λ' => plain.push_str("lambda"),
            letter => plain.push(letter),
        }
    }
    plain
}

/// For texts from one place to another in a line, in which row below each other they go: the first with room.
pub(super) fn staggered(spans: impl Iterator<Item = (f64, f64)>) -> Vec<usize> {
    let mut ends: Vec<f64> = Vec::new();
    let row = |(start, end): (f64, f64)| {
        let row = ends.iter().position(|last| last + GAP <= start).unwrap_or(ends.len());
        ends.resize(ends.len().max(row + 1), end);
        ends[row] = end;
        row
    };
    spans.map(row).collect()
}

/// For `count` cells of `width` in rows within `room`, how many to put into each row.
pub(super) fn columns(count: usize, width: f64, room: f64) -> usize {
    let most = ((room / width) as usize).clamp(1, count.max(1));
    // As many as fill the rows evenly.
    count.div_ceil(count.div_ceil(most).max(1)).max(1)
}

/// `heights` moved down where one is nearer than `least` to the one above, in their order.
pub(super) fn spread(heights: &[f64], least: f64) -> Vec<f64> {
    let mut order: Vec<usize> = (0..heights.len()).collect();
    order.sort_by(|&a, &b| heights[a].total_cmp(&heights[b]));
    let mut spread = heights.to_vec();
    for pair in order.windows(2) {
        spread[pair[1]] = spread[pair[1]].max(spread[pair[0]] + least);
    }
    spread
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn widths_are_those_of_the_wider_format() {
        // Three letters of 7.5; ten of 5.
        assert_eq!([width("abc"), width("λ = 6")].map(f64::to_bits), [22.5, 50.0].map(f64::to_bits));
        assert_eq!(widest(["a", "abc", ""].into_iter()).to_bits(), 22.5f64.to_bits());
    }

    #[test]
    fn letters_are_those_of_the_font() {
        assert_eq!(plain("λ = 6 × 2 − 1 µs"), "lambda = 6 x 2 - 1 μs");
    }

    #[test]
    fn texts_go_into_the_first_row_with_room() {
        let spans = [(0.0, 30.0), (20.0, 50.0), (38.0, 60.0), (40.0, 70.0), (58.0, 80.0)];
        assert_eq!(staggered(spans.into_iter()), [0, 1, 0, 2, 1]);
    }

    #[test]
    fn rows_are_filled_evenly() {
        // Four of 100 fit, and all do; of five, three and two; one that is too wide is alone.
        assert_eq!(
            [(4, 100.0), (5, 100.0), (3, 500.0), (0, 100.0)].map(|(n, w)| columns(n, w, 420.0)),
            [4, 3, 1, 1]
        );
    }

    #[test]
    fn heights_keep_their_distance_and_order() {
        assert_eq!(spread(&[50.0, 10.0, 12.0, 90.0], 14.0), [50.0, 10.0, 24.0, 90.0]);
        assert_eq!(spread(&[20.0, 18.0, 25.0], 14.0), [32.0, 18.0, 46.0]);
    }
}

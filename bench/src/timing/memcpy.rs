//! What every figure is compared with.

use std::hint::black_box;
use std::time::Duration;

use super::lockstep;

/// Copies `raw` to `out`, which is as long, so many times, each of `threads` threads an equal share.
pub(crate) fn memcpy(raw: &[u8], out: &mut [u8], threads: usize, calls: usize) -> Duration {
    let share = raw.len().div_ceil(threads);
    let tasks = raw.chunks(share).zip(out.chunks_mut(share)).collect();
    lockstep(tasks, calls, |(raw, out): &mut (&[u8], &mut [u8])| {
        // Without the black boxes, one copy would do for all calls.
        out.copy_from_slice(black_box(raw));
        black_box(out);
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn everything_is_copied() {
        let raw: Vec<u8> = (1..=101).collect();
        for threads in [1, 2, 3, 101, 200] {
            let mut out = vec![0; raw.len()];
            assert!(memcpy(&raw, &mut out, threads, 3) > Duration::ZERO);
            assert_eq!(out, raw);
        }
    }
}

//! How many entries of a snapshot overflow at each target.

use mgcomp_codecs::bpc;

use super::form::slot_len;
use super::{Form, Target};

/// The entries of a snapshot in one form.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Counts {
    pub(super) entries: u64,
    pub(super) zeros: u64,
    /// By the number of the target.
    pub(super) overflowing: [u64; Target::ALL.len()],
}

impl Counts {
    /// Counts the entries of `snapshot`.
    pub(super) fn of(form: Form, snapshot: &[u8]) -> Self {
        let (mut counts, mut scratch) = (Self::default(), Vec::new());
        for batch in snapshot.chunks(form.entry_len() * form.batch()) {
            if batch.len().is_multiple_of(bpc::ENTRY_LEN) {
                counts.add(form, batch, &mut scratch);
            } else {
                let mut batch = batch.to_vec(); // the last
                batch.resize(batch.len().next_multiple_of(bpc::ENTRY_LEN), 0);
                counts.add(form, &batch, &mut scratch);
            }
        }
        counts
    }

    /// Adds the entries of a batch.
    fn add(&mut self, form: Form, batch: &[u8], scratch: &mut Vec<u8>) {
        let raw_len = form.entry_len().min(batch.len());
        form.states(batch, scratch, |state| {
            let stored = form.stored_len(state, raw_len).unwrap_or(raw_len);
            self.entries += 1;
            self.zeros += u64::from(stored == 0);
            for &target in form.targets() {
                self.overflowing[target as usize] += u64::from(stored > slot_len(raw_len, target));
            }
        });
    }
}

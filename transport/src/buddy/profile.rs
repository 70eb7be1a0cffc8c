//! From snapshots of an allocation to the form and target that suit it.

use mgcomp_codecs::Element;

use super::counts::Counts;
use super::stats::share;
use super::{Footprint, Form, Target, Threshold};

/// Why there is no profile.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ProfileError {
    /// A threshold out of range.
    #[error("a threshold of {percent} %; it may be 10 to 50")]
    Threshold {
        /// The number asked for.
        percent: u8,
    },
    /// A snapshot without a byte.
    #[error("snapshot {index} is empty")]
    NoBytes {
        /// How many were added before.
        index: usize,
    },
    /// Nothing to choose from: no snapshot, or no form.
    #[error("{snapshots} snapshots and {forms} forms to choose from")]
    Nothing {
        /// Snapshots added.
        snapshots: usize,
        /// Forms asked for.
        forms: usize,
    },
}

/// What snapshots of one allocation, taken at different times, need.
#[derive(Clone, Debug)]
pub struct Profile {
    element: Element,
    /// Length of the longest snapshot.
    len: u64,
    snapshots: Vec<[Counts; 2]>,
}

/// What a profile recommends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Choice {
    /// How entries are to be coded.
    pub form: Form,
    /// The largest target under the threshold.
    pub target: Target,
    /// Entries of all snapshots together.
    pub entries: u64,
    /// Of these, entries of zeros.
    pub zero_entries: u64,
    /// Of all, entries that overflow.
    pub overflowing_entries: u64,
    /// Bytes of the longest snapshot.
    pub raw_bytes: u64,
    /// What an allocation as long would take.
    pub footprint: Footprint,
}

impl Choice {
    /// The share of entries that overflow.
    #[must_use]
    pub fn overflow_share(&self) -> f64 {
        share(self.overflowing_entries, self.entries)
    }

    /// Raw bytes per byte of device memory, metadata counted.
    #[must_use]
    pub fn effective_capacity(&self) -> f64 {
        self.raw_bytes as f64 / (self.footprint.device_bytes + self.footprint.metadata_bytes) as f64
    }
}

impl Profile {
    /// A profile of an allocation of `element`, which only [`Form::Xp`] cares for.
    #[must_use]
    pub const fn new(element: Element) -> Self {
        Self { element, len: 0, snapshots: Vec::new() }
    }

    /// The forms that are looked at, in the order in which one of equals is taken.
    #[must_use]
    pub const fn forms(&self) -> [Form; 2] {
        [Form::Bpc, Form::Xp(self.element)]
    }

    /// Looks at what the allocation holds at some time.
    ///
    /// # Errors
    /// If that is nothing.
    pub fn add(&mut self, snapshot: &[u8]) -> Result<(), ProfileError> {
        if snapshot.is_empty() {
            return Err(ProfileError::NoBytes { index: self.snapshots.len() });
        }
        self.snapshots.push(self.forms().map(|form| Counts::of(form, snapshot)));
        self.len = self.len.max(snapshot.len() as u64);
        Ok(())
    }

    /// The share of entries of `form` that overflow at `target`, over all snapshots.
    #[must_use]
    pub fn overflow_share(&self, form: Form, target: Target) -> f64 {
        let all = self.all(form);
        share(all.overflowing[target as usize], all.entries)
    }

    /// The form and the target of the largest ratio whose share of overflowing entries stays under the
    /// threshold; among forms of the same target that with the smaller share, then the earlier.
    ///
    /// The share is that of all snapshots together. Target 16 is for what stays zero: each snapshot by itself
    /// has to be under the threshold.
    ///
    /// # Errors
    /// If there is no snapshot, or none of `forms` is one of [`forms`](Self::forms).
    pub fn choose(&self, threshold: Threshold, forms: &[Form]) -> Result<Choice, ProfileError> {
        let nothing = ProfileError::Nothing { snapshots: self.snapshots.len(), forms: forms.len() };
        let mut best: Option<Choice> = None;
        for form in self.forms().into_iter().filter(|form| forms.contains(form) && self.len > 0) {
            let choice = self.choose_target(threshold, form);
            let is_better = |best: &Choice| {
                choice.target > best.target
                    || choice.target == best.target && choice.overflow_share() < best.overflow_share()
            };
            if best.as_ref().is_none_or(is_better) {
                best = Some(choice);
            }
        }
        best.ok_or(nothing)
    }

    fn choose_target(&self, threshold: Threshold, form: Form) -> Choice {
        let all = self.all(form);
        let fits = |counts: &Counts, target: Target| {
            threshold.keeps(counts.overflowing[target as usize], counts.entries)
        };
        let stays = |target| target != Target::Sixteen || self.counts(form).all(|one| fits(one, target));
        let targets = form.targets().iter().rev().copied();
        // At target 1 nothing overflows.
        let target = targets.into_iter().find(|&t| fits(&all, t) && stays(t)).unwrap_or(Target::One);
        Choice {
            form,
            target,
            entries: all.entries,
            zero_entries: all.zeros,
            overflowing_entries: all.overflowing[target as usize],
            raw_bytes: self.len,
            footprint: form.footprint(self.len, target),
        }
    }

    fn counts(&self, form: Form) -> impl Iterator<Item = &Counts> {
        let index = usize::from(form != Form::Bpc);
        self.snapshots.iter().map(move |counts| &counts[index])
    }

    fn all(&self, form: Form) -> Counts {
        let mut all = Counts::default();
        for counts in self.counts(form) {
            all.entries += counts.entries;
            all.zeros += counts.zeros;
            all.overflowing.iter_mut().zip(counts.overflowing).for_each(|(all, one)| *all += one);
        }
        all
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Entries of zeros, of a ramp (a code of 2 bytes) and of noise.
    fn snapshot(zeros: usize, ramps: usize, noises: usize) -> Vec<u8> {
        let mut state = 1u64;
        let mut noise = || {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            (state >> 32) as u32
        };
        let mut words = vec![0; 32 * zeros];
        (0..ramps).for_each(|_| words.extend(0..32));
        words.extend((0..32 * noises).map(|_| noise()));
        words.into_iter().flat_map(u32::to_le_bytes).collect()
    }

    fn chosen(snapshots: &[Vec<u8>], percent: u8) -> (Target, u64, u64) {
        let mut profile = Profile::new(Element::U32);
        snapshots.iter().for_each(|snapshot| profile.add(snapshot).unwrap());
        let choice = profile.choose(Threshold::percent(percent).unwrap(), &[Form::Bpc]).unwrap();
        (choice.target, choice.overflowing_entries, choice.entries)
    }

    #[test]
    fn the_share_has_to_stay_under_the_threshold() {
        // 10 of 100 entries do not fit: under 11 %, not under 10 %.
        let data = [snapshot(50, 40, 10)];
        assert_eq!(chosen(&data, 11), (Target::Sixteen, 10, 100));
        assert_eq!(chosen(&data, 10), (Target::One, 0, 100));
        assert_eq!(chosen(&[snapshot(0, 70, 30)], 30).0, Target::One);
        assert_eq!(chosen(&[snapshot(0, 71, 29)], 30), (Target::Sixteen, 29, 100));
    }

    #[test]
    fn mostly_zero_has_to_hold_at_all_times() {
        // 20 of 100 in the first and none in the second are 10 % together.
        let data = [snapshot(80, 0, 20), snapshot(100, 0, 0)];
        assert_eq!(chosen(&data, 15), (Target::Four, 20, 200));
        assert_eq!(chosen(&data, 25), (Target::Sixteen, 20, 200));
    }

    #[test]
    fn a_tail_counts_as_an_entry() {
        let mut data = snapshot(0, 9, 0);
        data.push(1);
        let mut profile = Profile::new(Element::F32);
        profile.add(&data).unwrap();
        let choice = profile.choose(Threshold::DEFAULT, &[Form::Bpc]).unwrap();
        assert_eq!((choice.entries, choice.raw_bytes, choice.zero_entries), (10, 9 * 128 + 1, 0));
        // 10 slots of 8 bytes are three sectors; metadata takes one.
        assert_eq!(choice.effective_capacity(), 1153.0 / 128.0);
    }

    #[test]
    fn forms_compete() {
        // Weights: four exponents, fractions and signs of noise. That is 10 bits of 16, just 5/8, and XP has a table.
        let noise = snapshot(0, 0, 1024);
        let data: Vec<u8> = noise
            .as_chunks::<4>()
            .0
            .iter()
            .flat_map(|four| {
                ((four[0] as u16) << 15 | (120 + u16::from(four[1] & 3)) << 7 | u16::from(four[2] & 127))
                    .to_le_bytes()
            })
            .collect();
        let mut profile = Profile::new(Element::Bf16);
        profile.add(&data).unwrap();
        let both = profile.choose(Threshold::DEFAULT, &profile.forms()).unwrap();
        assert_eq!(
            (both.form, both.target, both.overflowing_entries),
            (Form::Xp(Element::Bf16), Target::FourThirds, 0)
        );
        let bpc = profile.choose(Threshold::DEFAULT, &[Form::Bpc]).unwrap();
        assert_eq!(bpc.target, Target::One);
    }

    #[test]
    fn nothing_is_no_profile() {
        let mut profile = Profile::new(Element::U8);
        assert_eq!(profile.add(&[]), Err(ProfileError::NoBytes { index: 0 }));
        let nothing = Err(ProfileError::Nothing { snapshots: 0, forms: 2 });
        assert_eq!(profile.choose(Threshold::DEFAULT, &profile.forms()), nothing);
        assert_eq!(Threshold::percent(9), Err(ProfileError::Threshold { percent: 9 }));
        assert_eq!(Threshold::percent(51), Err(ProfileError::Threshold { percent: 51 }));
    }
}

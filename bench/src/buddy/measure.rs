//! One snapshot: what a profile chooses for it, and whether that is true.

use mgcomp_transport::buddy::{BuddyPool, Choice, Form, Profile, Threshold};

use super::snapshot::{Class, Snapshot};
use super::{BuddyBenchError, THRESHOLDS, count};

/// From which forms a target is chosen.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Forms {
    Bpc,
    Xp,
    Best,
}

impl Forms {
    pub(super) const ALL: [Self; 3] = [Self::Bpc, Self::Xp, Self::Best];

    pub(super) const fn name(self) -> &'static str {
        match self {
            Self::Bpc => "bpc",
            Self::Xp => "xp",
            Self::Best => "best",
        }
    }

    fn of(self, profile: &Profile) -> Vec<Form> {
        let [bpc, xp] = profile.forms();
        match self {
            Self::Bpc => vec![bpc],
            Self::Xp => vec![xp],
            Self::Best => vec![bpc, xp],
        }
    }
}

/// What was chosen for a snapshot under a threshold.
pub(super) struct Row {
    pub(super) label: String,
    pub(super) class: Class,
    pub(super) threshold: u8,
    pub(super) forms: Forms,
    pub(super) choice: Choice,
}

/// Chooses under every threshold, and holds each choice against a pool and a second count.
pub(super) fn measure(snapshot: &Snapshot) -> Result<Vec<Row>, BuddyBenchError> {
    let mut profile = Profile::new(snapshot.element);
    profile.add(&snapshot.bytes)?;
    let mut rows = Vec::new();
    let mut checked = Vec::new();
    for threshold in THRESHOLDS {
        for forms in Forms::ALL {
            let choice = profile.choose(Threshold::percent(threshold)?, &forms.of(&profile))?;
            if !checked.contains(&(choice.form, choice.target)) {
                check(&snapshot.bytes, &choice)?;
                checked.push((choice.form, choice.target));
            }
            let (label, class) = (snapshot.label.clone(), snapshot.class);
            rows.push(Row { label, class, threshold, forms, choice });
        }
    }
    Ok(rows)
}

/// Keeps `raw` in a pool that is just large enough and compares: the bytes, and the entries that overflow.
fn check(raw: &[u8], choice: &Choice) -> Result<(), BuddyBenchError> {
    let Choice { form, target, footprint, .. } = *choice;
    let counted = count::overflowing(raw, form, target)?;
    let mut pool = BuddyPool::new(footprint.device_bytes + footprint.metadata_bytes, footprint.buddy_bytes)?;
    let len = raw.len() as u64;
    let allocation = pool.alloc_as(len, form, target)?;
    pool.write(allocation, 0..len, raw)?;
    let mut back = vec![0x5a; raw.len()];
    pool.read(allocation, 0..len, &mut back)?;
    if let Some(offset) = back.iter().zip(raw).position(|(back, raw)| back != raw) {
        return Err(BuddyBenchError::RoundTrip { offset });
    }
    let in_pool = pool.stats().overflowing_entries;
    for (counter, got) in [("profile", choice.overflowing_entries), ("pool", in_pool)] {
        // To within one in a hundred of the entries.
        if got.abs_diff(counted) * 100 > choice.entries {
            return Err(BuddyBenchError::Miscounted { form, target, counter, got, counted });
        }
    }
    Ok(())
}

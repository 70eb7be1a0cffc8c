//! From snapshots of an allocation to the form and target that suit it in a buddy pool.
#![allow(unsafe_code)] // called from C

use std::ffi::c_void;
use std::mem::MaybeUninit;
use std::sync::{Mutex, MutexGuard, PoisonError};

use mgcomp_codecs::Element;
use mgcomp_transport::buddy::{Choice, Form, Profile, ProfileError, Threshold};

use crate::buddy::{form_of, mgcompBuddyForm, mgcompBuddyTarget, target_of};
use crate::error::{Failure, call, making, mgcompResult};
use crate::handle::{Handles, Kind};
use crate::memory::{Out, Span};
use crate::number::{element, mgcompElement, named};

static PROFILES: Handles<Seen> = Handles::new(Kind::BuddyProfile);

/// What snapshots of an allocation, taken at different times, need.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct mgcompBuddyProfile {
    /// What tells it from others; not to be changed.
    pub id: u64,
}

/// What a profile recommends.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct mgcompBuddyChoice {
    /// How entries are to be coded.
    pub form: MaybeUninit<mgcompBuddyForm>,
    /// The largest target under the threshold.
    pub target: MaybeUninit<mgcompBuddyTarget>,
    /// Entries of all snapshots together.
    pub entries: u64,
    /// Of these, entries of zeros.
    pub zero_entries: u64,
    /// Of all, entries that overflow at this target.
    pub overflowing_entries: u64,
    /// Bytes of the longest snapshot. The rest is what an allocation as long takes.
    pub raw_bytes: u64,
    /// Bytes of its places in device memory.
    pub device_bytes: u64,
    /// Bytes of its metadata, in device memory too.
    pub metadata_bytes: u64,
    /// Bytes of buddy memory that are taken for it, used or not.
    pub buddy_bytes: u64,
}

struct Seen {
    element: Element,
    profile: Mutex<Profile>,
}

/// Makes a profile without a snapshot. It needs no pool.
///
/// @param element what the allocation holds; MGCOMP_BUDDY_FORM_BPC has no use for it.
/// @param profile set to the handle, to be given to mgcompDestroyBuddyProfile.
///
/// Any number of threads may call this at once.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mgcompCreateBuddyProfile(
    element: MaybeUninit<mgcompElement>,
    profile: *mut mgcompBuddyProfile,
) -> mgcompResult {
    making(|| {
        let element = self::element(element)?;
        // SAFETY: the header asks for a place for a handle, or NULL.
        let out = unsafe { Out::new("profile", profile) }?;
        let seen = Seen { element, profile: Mutex::new(Profile::new(element)) };
        out.set(mgcompBuddyProfile { id: PROFILES.insert(seen)? });
        Ok(())
    })
}

/// Looks at what the allocation holds at some time. All of it is encoded for every form, which takes about as long as
/// mgcompWriteBuddy of as many bytes.
///
/// @param snapshot bytes bytes, at least one. They are the program's again when this returns.
///
/// Any number of threads may call this at once; of those with the same profile, one after the other has its turn.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mgcompAddBuddySnapshot(
    profile: mgcompBuddyProfile,
    snapshot: *const c_void,
    bytes: usize,
) -> mgcompResult {
    call(|| {
        let snapshot = Span::new("snapshot", snapshot, bytes)?;
        let seen = PROFILES.get(profile.id)?;
        // SAFETY: the header asks for these bytes.
        Ok(seen.lock().add(unsafe { snapshot.bytes() })?)
    })
}

/// The form and the largest target with which few enough entries overflow: for mgcompAllocateBuddy. Of forms with the same
/// target it is the one with fewer overflowing entries, then the earlier.
///
/// @param thresholdPercent the share of entries that must not be reached by those that overflow: 10 to 50; 0 for 30. It is that
/// of all snapshots together; for MGCOMP_BUDDY_TARGET_SIXTEEN, each snapshot has to be under it.
/// @param forms formCount forms to choose from; NULL and 0 for all that there are.
/// @param choice set to the choice. There is none without a snapshot (MGCOMP_RESULT_INVALID_ARGUMENT).
///
/// Any number of threads may call this at once.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mgcompChooseBuddyTarget(
    profile: mgcompBuddyProfile,
    threshold_percent: u32,
    forms: *const MaybeUninit<mgcompBuddyForm>,
    form_count: usize,
    choice: *mut mgcompBuddyChoice,
) -> mgcompResult {
    call(|| {
        let forms = Span::of("forms", forms, form_count)?;
        // SAFETY: the header asks for a place for it, or NULL.
        let out = unsafe { Out::new("choice", choice) }?;
        let threshold = match threshold_percent {
            0 => Threshold::DEFAULT,
            // More than a byte holds is too much anyway.
            percent => Threshold::percent(u8::try_from(percent).unwrap_or(u8::MAX))?,
        };
        let seen = PROFILES.get(profile.id)?;
        // SAFETY: the header asks for as many forms, or none; any bits may be there.
        let given = unsafe { forms.values::<MaybeUninit<mgcompBuddyForm>>() };
        let forms: Vec<Form> =
            given.iter().map(|form| form_of(*form, seen.element)).collect::<Result<_, _>>()?;
        let profile = seen.lock();
        let forms = if forms.is_empty() { profile.forms().to_vec() } else { forms };
        out.set(profile.choose(threshold, &forms)?.into());
        Ok(())
    })
}

/// The share of entries that overflow with a form and a target, over all snapshots.
///
/// @param share set to 0 to 1.
///
/// Any number of threads may call this at once.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mgcompGetBuddyOverflow(
    profile: mgcompBuddyProfile,
    form: MaybeUninit<mgcompBuddyForm>,
    target: MaybeUninit<mgcompBuddyTarget>,
    share: *mut f64,
) -> mgcompResult {
    call(|| {
        // SAFETY: the header asks for a place for a number, or NULL.
        let out = unsafe { Out::new("share", share) }?;
        let seen = PROFILES.get(profile.id)?;
        let (form, target) = (form_of(form, seen.element)?, target_of(target)?);
        if !form.targets().contains(&target) {
            return Err(Failure::argument(format_args!("target {target} is not for form {form}")));
        }
        out.set(seen.lock().overflow_share(form, target));
        Ok(())
    })
}

/// Destroys a profile.
///
/// Any number of threads may call this at once; all but the first one for a handle fail.
#[unsafe(no_mangle)]
pub extern "C" fn mgcompDestroyBuddyProfile(profile: mgcompBuddyProfile) -> mgcompResult {
    call(|| PROFILES.remove(profile.id).map(drop))
}

impl Seen {
    fn lock(&self) -> MutexGuard<'_, Profile> {
        self.profile.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl From<Choice> for mgcompBuddyChoice {
    fn from(choice: Choice) -> Self {
        Self {
            form: named(u8::from(choice.form != Form::Bpc)),
            target: named(choice.target as u8),
            entries: choice.entries,
            zero_entries: choice.zero_entries,
            overflowing_entries: choice.overflowing_entries,
            raw_bytes: choice.raw_bytes,
            device_bytes: choice.footprint.device_bytes,
            metadata_bytes: choice.footprint.metadata_bytes,
            buddy_bytes: choice.footprint.buddy_bytes,
        }
    }
}

impl From<ProfileError> for Failure {
    fn from(error: ProfileError) -> Self {
        Self::argument(error)
    }
}

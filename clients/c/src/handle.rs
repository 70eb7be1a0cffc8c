//! What programs hold of the library's objects: numbers that are checked, never addresses.
//!
//! ```text
//! bit 63     56 55                20 19      0
//!     kind      generation           place
//! ```
//! A place is used again, with the next generation; the first one is chance. So a handle that was destroyed, that is
//! of another kind or that comes from elsewhere names nothing, and the call that it was given to fails.

use std::hash::{BuildHasher, RandomState};
use std::sync::{Arc, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};

use crate::error::{Failure, mgcompResult};

const PLACE_BITS: u32 = 20;
const KIND_SHIFT: u32 = 56;
const GENERATION_MASK: u64 = (1 << (KIND_SHIFT - PLACE_BITS)) - 1;
const MOST_PLACES: usize = 1 << PLACE_BITS;

/// What a handle is one of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub(crate) enum Kind {
    Workers = 1,
    Table = 2,
    BuddyPool = 3,
    BuddyAllocation = 4,
    Copier = 5,
    Request = 6,
    Node = 7,
    Communicator = 8,
    Kept = 9,
    OffloadQueue = 10,
    OffloadTicket = 11,
    BuddyProfile = 12,
    PeerCopier = 13,
}

impl Kind {
    fn name(self) -> &'static str {
        match self {
            Self::Workers => "workers",
            Self::Table => "a table",
            Self::BuddyPool => "a buddy pool",
            Self::BuddyAllocation => "a buddy allocation",
            Self::Copier => "a copier",
            Self::Request => "a request",
            Self::Node => "a node",
            Self::Communicator => "a communicator",
            Self::Kept => "something kept",
            Self::OffloadQueue => "an offload queue",
            Self::OffloadTicket => "an offload ticket",
            Self::BuddyProfile => "a buddy profile",
            Self::PeerCopier => "a peer copier",
        }
    }
}

/// Objects of a kind.
#[derive(Debug)]
pub(crate) struct Handles<T> {
    kind: Kind,
    places: RwLock<Places<T>>,
}

#[derive(Debug)]
struct Places<T> {
    all: Vec<Place<T>>,
    free: Vec<usize>,
}

#[derive(Debug)]
struct Place<T> {
    first_generation: u64,
    generation: u64,
    object: Option<Arc<T>>,
}

impl<T> Handles<T> {
    pub(crate) const fn new(kind: Kind) -> Self {
        Self { kind, places: RwLock::new(Places { all: Vec::new(), free: Vec::new() }) }
    }

    /// Takes an object in; returns its handle.
    pub(crate) fn insert(&self, object: T) -> Result<u64, Failure> {
        let mut places = self.write();
        let index = match places.free.pop() {
            Some(index) => index,
            None if places.all.len() < MOST_PLACES => {
                let generation = RandomState::new().hash_one(self.kind as u8) & GENERATION_MASK;
                places.all.push(Place { first_generation: generation, generation, object: None });
                places.all.len() - 1
            }
            None => {
                let text = format!("there are {MOST_PLACES} handles of {} already", self.kind.name());
                return Err(Failure::new(mgcompResult::NoMemory, text));
            }
        };
        let place = &mut places.all[index];
        place.object = Some(Arc::new(object));
        Ok((self.kind as u64) << KIND_SHIFT | place.generation << PLACE_BITS | index as u64)
    }

    /// The object of a handle, which lives on as long as it is used.
    #[inline]
    pub(crate) fn get(&self, id: u64) -> Result<Arc<T>, Failure> {
        let places = self.read();
        let place = self.index(id).and_then(|index| places.all.get(index)).filter(|place| place.is(id));
        place.and_then(|place| place.object.clone()).ok_or_else(|| self.refusal(id))
    }

    /// Takes the object of a handle out, which names nothing from then on.
    pub(crate) fn remove(&self, id: u64) -> Result<Arc<T>, Failure> {
        let mut places = self.write();
        let index = self.index(id).filter(|&index| places.all.get(index).is_some_and(|place| place.is(id)));
        index.and_then(|index| places.take(index)).ok_or_else(|| self.refusal(id))
    }

    /// Takes all objects out, whose handles name nothing from then on.
    pub(crate) fn remove_all(&self) -> Vec<Arc<T>> {
        let mut places = self.write();
        (0..places.all.len()).filter_map(|index| places.take(index)).collect()
    }

    /// All objects there are, which live on as long as they are used.
    pub(crate) fn all(&self) -> Vec<Arc<T>> {
        self.read().all.iter().filter_map(|place| place.object.clone()).collect()
    }

    fn index(&self, id: u64) -> Option<usize> {
        (id >> KIND_SHIFT == self.kind as u64).then_some(id as usize % MOST_PLACES)
    }

    #[cold]
    fn refusal(&self, id: u64) -> Failure {
        let name = self.kind.name();
        let text = match id {
            0 => format!("the handle of {name} is empty"),
            _ => format!("{id:#018x} is no handle of {name}, or one that is destroyed or finished already"),
        };
        Failure::new(mgcompResult::InvalidHandle, text)
    }

    fn read(&self) -> RwLockReadGuard<'_, Places<T>> {
        self.places.read().unwrap_or_else(PoisonError::into_inner)
    }

    fn write(&self) -> RwLockWriteGuard<'_, Places<T>> {
        self.places.write().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<T> Places<T> {
    /// The object at a place, if there is one; the place has the next generation then.
    fn take(&mut self, index: usize) -> Option<Arc<T>> {
        let place = &mut self.all[index];
        let object = place.object.take()?;
        place.generation = (place.generation + 1) & GENERATION_MASK;
        // When all generations have been used, a handle of the first one would be good again.
        if place.generation != place.first_generation {
            self.free.push(index);
        }
        Some(object)
    }
}

impl<T> Place<T> {
    fn is(&self, id: u64) -> bool {
        self.generation == id >> PLACE_BITS & GENERATION_MASK
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn handles_name_one_object_until_it_is_removed() {
        let handles = Handles::new(Kind::Workers);
        let (a, b) = (handles.insert('a').unwrap(), handles.insert('b').unwrap());
        assert_eq!((*handles.get(a).unwrap(), *handles.get(b).unwrap()), ('a', 'b'));
        assert_eq!(*handles.remove(a).unwrap(), 'a');
        assert!(handles.get(a).is_err() && handles.remove(a).is_err());
        let c = handles.insert('c').unwrap(); // at the place of `a`
        assert_eq!(c % (1 << PLACE_BITS), a % (1 << PLACE_BITS));
        assert!(handles.get(a).is_err() && *handles.get(c).unwrap() == 'c');
        for foreign in [0, 1, b ^ 1 << KIND_SHIFT, b ^ 1 << PLACE_BITS, b + 2, u64::MAX] {
            assert!(handles.get(foreign).is_err(), "{foreign:#x}");
        }
    }

    #[test]
    fn a_place_whose_generations_are_used_up_is_left() {
        let handles = Handles::new(Kind::Workers);
        let first = handles.insert(1).unwrap();
        handles.remove(first).unwrap();
        {
            let place = &mut handles.write().all[0];
            place.generation = place.first_generation.wrapping_sub(1) & GENERATION_MASK;
        }
        let last = handles.insert(2).unwrap();
        handles.remove(last).unwrap();
        let other = handles.insert(3).unwrap();
        assert!(handles.get(first).is_err() && other % (1 << PLACE_BITS) == 1);
    }

    #[test]
    fn all_can_be_removed_at_once() {
        let handles = Handles::new(Kind::Workers);
        let (a, b) = (handles.insert('a').unwrap(), handles.insert('b').unwrap());
        handles.remove(a).unwrap();
        assert_eq!(handles.all().iter().map(|object| **object).collect::<Vec<_>>(), ['b']);
        assert_eq!(handles.remove_all().iter().map(|object| **object).collect::<Vec<_>>(), ['b']);
        assert!(handles.get(b).is_err() && handles.remove_all().is_empty());
        let c = handles.insert('c').unwrap();
        assert!(*handles.get(c).unwrap() == 'c' && c != a && c != b);
    }

    #[test]
    fn what_is_used_outlives_its_handle() {
        let handles = Handles::new(Kind::Workers);
        let id = handles.insert(String::from("here")).unwrap();
        let used = handles.get(id).unwrap();
        drop(handles.remove(id).unwrap());
        assert_eq!(*used, "here");
    }
}

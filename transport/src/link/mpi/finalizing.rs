//! MPI may be finalized while links live. They end before that, while MPI can still be called.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

use super::error::MpiFailure;
use super::raw::{self, Unused};
use super::shared::Shared;

static REGISTRY: Mutex<Registry> =
    Mutex::new(Registry { is_hooked: false, links: Vec::new(), unused: Vec::new() });

struct Registry {
    is_hooked: bool,
    links: Vec<Weak<Shared>>,
    /// Communicators of links that have ended.
    unused: Vec<Unused>,
}

/// Has `link` end before MPI does.
pub(super) fn register(link: &Arc<Shared>) -> Result<(), MpiFailure> {
    let mut registry = registry();
    if !registry.is_hooked {
        raw::before_finalizing(end_all)?;
        registry.is_hooked = true;
    }
    registry.links.retain(|link| link.strong_count() > 0);
    registry.links.push(Arc::downgrade(link));
    Ok(())
}

/// Keeps the communicator of a link that has ended. Open MPI crashes if one thread gives a communicator back while another
/// makes one, and the thread that ends a link does not know what the program does meanwhile.
pub(super) fn keep(communicator: Unused) {
    registry().unused.push(communicator);
}

/// Gives back what was kept. To be called where the program makes a link.
pub(super) fn free_unused() {
    let unused = std::mem::take(&mut registry().unused);
    unused.into_iter().for_each(Unused::free);
}

fn end_all() {
    let links = std::mem::take(&mut registry().links);
    let links: Vec<_> = links.iter().filter_map(Weak::upgrade).collect();
    // All at once: each may take its time.
    links.iter().for_each(|link| link.finalize());
    Shared::finish_all(links);
    free_unused();
}

fn registry() -> MutexGuard<'static, Registry> {
    REGISTRY.lock().unwrap_or_else(PoisonError::into_inner)
}

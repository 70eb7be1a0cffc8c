use mgcomp_transport::control::Settings;

use super::*;
use crate::played::{Played, config};

#[test]
fn one_user_does_not_take_all_the_room() {
    let folder = tempfile::tempdir().unwrap();
    let config = Config { max_processes: 5, max_processes_per_user: Some(2), ..config(&folder) };
    let processes = Processes::default();
    let adopt = |uid, is_operator| {
        let owner = Owner { uid, pid: 0, is_operator };
        let page = Played::new("a", 0).page();
        let adopted = processes.adopt(page, owner, &config, &Scopes::default());
        adopted.map_err(|error| error.to_string())
    };
    let first = adopt(7, false).unwrap();
    adopt(7, false).unwrap();
    let full = "user 7 has 2 processes connected already: raise max_processes_per_user of the daemon";
    assert_eq!(adopt(7, false).unwrap_err(), full);
    adopt(8, false).unwrap();
    processes.remove(&first);
    adopt(7, false).unwrap();
    // Operators share with all alone.
    adopt(0, true).unwrap();
    adopt(0, true).unwrap();
    let full = "5 processes are connected already: raise max_processes of the daemon";
    assert_eq!([adopt(0, true), adopt(9, false)].map(Result::unwrap_err), [full; 2]);
    assert_eq!(processes.count(), 5);
}

#[test]
fn who_comes_at_the_same_time_is_counted_too() {
    let folder = tempfile::tempdir().unwrap();
    let config = Config { max_processes_per_user: Some(3), ..config(&folder) };
    let (processes, start) = (Processes::default(), std::sync::Barrier::new(8));
    let adopt = || {
        let owner = Owner { uid: 7, pid: 0, is_operator: false };
        let pages = [(); 4].map(|()| Played::new("a", 0).page());
        start.wait();
        let adopted = pages.map(|page| processes.adopt(page, owner, &config, &Scopes::default()).is_ok());
        adopted.into_iter().filter(|is_ok| *is_ok).count()
    };
    let adopted: usize = std::thread::scope(|scope| {
        let threads: Vec<_> = (0..8).map(|_| scope.spawn(adopt)).collect();
        threads.into_iter().map(|thread| thread.join().unwrap()).sum()
    });
    assert_eq!((adopted, processes.count()), (3, 3));
}

#[test]
fn a_page_is_taken_once() {
    let folder = tempfile::tempdir().unwrap();
    let (processes, config) = (Processes::default(), config(&folder));
    let adopt = |played: &Played| {
        let owner = Owner { uid: 7, pid: 0, is_operator: false };
        processes.adopt(played.page(), owner, &config, &Scopes::default())
    };
    let (played, other) = (Played::new("a", 0), Played::new("a", 0));
    let first = adopt(&played).unwrap();
    assert!(matches!(adopt(&played), Err(AdoptError::Twice)));
    adopt(&other).unwrap();
    assert_eq!(processes.count(), 2);
    processes.remove(&first);
    adopt(&played).unwrap();
}

#[test]
fn one_user_does_not_have_slots_without_end_looked_at() {
    let folder = tempfile::tempdir().unwrap();
    let (processes, config) = (Processes::default(), config(&folder));
    let adopt = |played: &Played, uid, is_operator| {
        let owner = Owner { uid, pid: 0, is_operator };
        processes.adopt(played.page(), owner, &config, &Scopes::default()).unwrap()
    };
    let full = || Played::full("a");
    let pages = MOST_SLOTS_OF_USER / 1024;
    let mut of_user: Vec<_> = (0..pages - 1).map(|_| adopt(&full(), 7, false)).collect();
    // One that comes with few slots and has more later.
    let mut growing = Played::new("a", 0);
    growing.sends(1, 100);
    of_user.push(adopt(&growing, 7, false));
    let late = adopt(&full(), 7, false);
    let looked_at = |process: &Process| {
        let _ = processes.all();
        process.used()
    };
    assert_eq!(looked_at(&late), 1023);
    growing.has_used(1024);
    assert_eq!((looked_at(&of_user[pages - 1]), looked_at(&late)), (1, 1023));
    assert_eq!(looked_at(&adopt(&full(), 7, false)), 0);
    // Nobody else has less of it.
    assert_eq!(looked_at(&adopt(&full(), 8, false)), 1024);
    let of_operator: Vec<_> = (0..=pages).map(|_| adopt(&full(), 0, true)).collect();
    assert!(of_operator.iter().all(|process| looked_at(process) == 1024));
    // What is free again goes to those that are there, the first ones first.
    processes.remove(&of_user[0]);
    assert_eq!((looked_at(&of_user[pages - 1]), looked_at(&late)), (1024, 1024));
    let all = processes.all();
    let of_user = all.iter().filter(|process| process.who.uid == 7);
    assert_eq!(of_user.map(|process| process.used()).sum::<usize>(), MOST_SLOTS_OF_USER);
}

/// Processes of user 7 that have as many slots as are looked at.
fn fill(processes: &Processes, config: &Config) -> Vec<Arc<Process>> {
    let full = |_| adopt_of_user(processes, &Played::full("full"), config, &Scopes::default());
    (0..MOST_SLOTS_OF_USER / 1024).map(full).collect()
}

fn adopt_of_user(processes: &Processes, played: &Played, config: &Config, scopes: &Scopes) -> Arc<Process> {
    let owner = Owner { uid: 7, pid: 0, is_operator: false };
    processes.adopt(played.page(), owner, config, scopes).unwrap()
}

#[test]
fn who_looks_while_a_process_goes_sees_it_whole() {
    let folder = tempfile::tempdir().unwrap();
    let (processes, config) = (Processes::default(), config(&folder));
    let (mut played, mut other) = (Played::new("a", 0), Played::new("a", 0));
    played.sends(1, 100);
    other.sends(1, 5);
    let process = adopt_of_user(&processes, &played, &config, &Scopes::default());
    adopt_of_user(&processes, &other, &config, &Scopes::default());
    // Of one moment: what the process counts is not among what is gone.
    let (connected, gone) = processes.with_gone();
    processes.remove(&process);
    assert_eq!((gone.iter().count(), connected[0].used()), (0, 1));
    assert_eq!(Totals::of(&connected[0].slots()).sent().raw_bytes, 100);
    // Nothing is given back twice.
    processes.remove(&process);
    assert_eq!(processes.read(|known| known.slots.get(&7).copied()), Some(1));
}

#[test]
fn slots_that_are_not_looked_at_go_by_what_is_set_for_their_job() {
    let folder = tempfile::tempdir().unwrap();
    let config = config(&folder);
    let off = |compress| Settings { compress: Some(compress), ..Settings::default() };
    let (mut narrow, mut wide) = (Scopes::default(), Scopes::default());
    narrow.set(Scope { job: Some("a".to_owned()), peer: Some(1), stream: None }, off(true));
    wide.set(Scope::default(), off(false));
    let mut played = Played::new("a", 0);
    let slot = played.sends(1, 100);
    adopt_of_user(&Processes::default(), &played, &config, &narrow);
    assert_eq!(played.goes_by(slot).compress, Some(true));
    // A daemon after that one, which does not look at the slot.
    let processes = Processes::default();
    let full = fill(&processes, &config);
    let process = adopt_of_user(&processes, &played, &config, &wide);
    assert_eq!((process.used(), played.goes_by(slot).compress), (0, Some(false)));
    // Once it is looked at, it has settings of its own again.
    narrow.set(Scope::default(), off(false));
    processes.apply(&narrow);
    assert_eq!(played.goes_by(slot).compress, Some(false));
    processes.remove(&full[0]);
    processes.apply_to_granted(&narrow);
    assert_eq!((process.used(), played.goes_by(slot).compress), (1, Some(true)));
}

#[test]
fn it_is_said_once_that_slots_are_not_looked_at() {
    let folder = tempfile::tempdir().unwrap();
    let (processes, config) = (Processes::default(), config(&folder));
    let said = || processes.read(|known| known.left_out.contains(&7));
    let full = fill(&processes, &config);
    assert_eq!((processes.left_out(), said()), (0, false));
    let mut played = Played::new("a", 0);
    for peer in 0..3 {
        played.sends(peer, 1);
    }
    let late = adopt_of_user(&processes, &played, &config, &Scopes::default());
    assert_eq!((processes.left_out(), said()), (3, true));
    played.sends(3, 1);
    let _ = processes.all();
    assert_eq!((processes.left_out(), said()), (4, true));
    // Whose they are is not known, so nobody is told that a peer is not there.
    let has = |peer| processes.has(&Scope { job: Some("a".to_owned()), peer: Some(peer), stream: None });
    assert!(has(3) && has(90));
    processes.remove(&full[0]);
    let _ = processes.all();
    assert_eq!((processes.left_out(), said()), (0, false));
    assert!(has(3) && !has(90));
    assert_eq!(late.used(), 4);
}

//! Position and start.

use std::sync::{Arc, mpsc};

use mgcomp_transport::link::{LinkError, Position};
use mgcomp_transport::message::Rank;

use crate::ROOMY;
use crate::common::end::{End, numbered};
use crate::common::fabric::Fabric;

pub(crate) fn positions_are_those_of_the_fabric(fabric: Fabric) {
    for ranks in [1, 2, 5] {
        let links = fabric.links(ranks, ROOMY);
        let positions: Vec<_> = links.iter().map(|link| link.position()).collect();
        let expected: Vec<_> = (0..ranks).map(|rank| Position { rank: Rank(rank), ranks }).collect();
        assert_eq!(positions, expected);
    }
}

pub(crate) fn starting_twice_fails_and_changes_nothing(fabric: Fabric) {
    let mut ends: Vec<_> = fabric.links(2, ROOMY).into_iter().map(End::start).collect();
    let (report, second) = mpsc::channel();
    let again = ends[1].link.start(Arc::new(move |event| drop(report.send(event))));
    assert_eq!(again, Err(LinkError::StartedTwice));
    ends.iter_mut().for_each(End::meet);
    ends[0].send(Rank(1), &numbered(1, 10));
    ends[1].expect(Rank(0), 1, 10);
    assert_eq!(second.iter().count(), 0, "the second sink is let go unused");
}

pub(crate) fn messages_wait_for_a_late_starter(fabric: Fabric) {
    let mut links = fabric.links(3, ROOMY);
    let late = links.remove(1); // one of the others connects to it, the other is connected to
    let mut early: Vec<_> = links.into_iter().map(End::start).collect();
    for end in &early {
        (0..50).for_each(|number| end.send(Rank(1), &numbered(number, 1000)));
    }
    early[0].send(Rank(2), &numbered(7, 70));
    early[1].message(Rank(0)); // the hello
    early[1].expect(Rank(0), 7, 70); // does not wait for the late one

    let mut late = End::start(late);
    late.meet();
    for peer in [Rank(0), Rank(2)] {
        (0..50).for_each(|number| late.expect(peer, number, 1000));
    }
}

//! What a node does first.

use std::mem;
use std::sync::{Arc, Mutex};

use mgcomp_codecs::Element;
use mgcomp_selector::{CheapFacts, Decision, Estimate, Fixed, Outcome, Plan, Policy};
use mgcomp_transport::link::Message;
use mgcomp_transport::link::loopback::Loopback;
use mgcomp_transport::memory::HostBuffer;
use mgcomp_transport::message::{Header, Rank, Tag};
use mgcomp_transport::node::Node;

use super::overheard::Overheard;
use crate::common::job::{config, end_of, meet, node};
use crate::common::{wait_until, watched};

/// What has happened, in order.
type Notes = Arc<Mutex<Vec<&'static str>>>;

/// Notes what it is asked and told.
#[derive(Debug)]
struct NotingPolicy {
    choice: Fixed,
    notes: Notes,
}

impl Policy for NotingPolicy {
    fn name(&self) -> String {
        "noting".into()
    }

    fn plan(&mut self, facts: &CheapFacts) -> Plan {
        self.notes.lock().unwrap().push("planned");
        self.choice.plan(facts)
    }

    fn choose(&mut self, facts: &CheapFacts, estimates: &[Estimate]) -> Decision {
        self.choice.choose(facts, estimates)
    }

    fn observe(&mut self, _: &CheapFacts, _: &Decision, _: &Outcome) {
        self.notes.lock().unwrap().push("observed");
    }
}

#[test]
fn what_came_of_a_transfer_is_learned_once_it_is_on_its_way() {
    watched(|| {
        let notes = Notes::default();
        let [first, second] = Loopback::fabric(2, None).unwrap().try_into().ok().unwrap();
        let heard = notes.clone();
        let hear = move |message: &Message| {
            // What holds bytes of the program.
            if matches!(message.header, Header::TaggedSend(_)) {
                heard.lock().unwrap().push("sent");
            }
        };
        let link = Overheard { link: first, hear };
        let choice = Fixed::try_new(mgcomp_codecs::Algorithm::Zvc).unwrap();
        let policy = NotingPolicy { choice, notes: notes.clone() };
        // At once, on the thread that does all else.
        let config = mgcomp_transport::node::NodeConfig { codec_threads: 0, ..config() };
        let sender = Node::start(Box::new(link), Box::new(policy), config.clone()).unwrap();
        let receiver = node(Box::new(second), "fixed:none", config);
        [&sender, &receiver].into_iter().for_each(meet);
        let (from, into) = (HostBuffer::zeroed(16 << 10), HostBuffer::zeroed(16 << 10));
        for _ in 0..3 {
            let received = receiver.receive(Rank(0), Tag(1), into.all());
            let sent = sender.send(Rank(1), Tag(1), from.all(), Element::F32);
            end_of(received).unwrap();
            end_of(sent).unwrap();
            wait_until("it is learned", || notes.lock().unwrap().len() == 3);
            assert_eq!(mem::take(&mut *notes.lock().unwrap()), ["planned", "sent", "observed"]);
        }
    });
}

//! What the other tests lean on: values are what their kind says, and a fence stops whoever steps over it.

mod common;

use common::Random;
use common::data::{floats, kinds};
use common::fence::{Fenced, Place};
use mgcomp_codecs::Element;

#[test]
fn floats_have_the_bits_of_their_format() {
    let known: [(Element, f64, u64); 18] = [
        (Element::F32, 1.0, 0x3f80_0000),
        (Element::F32, -0.0, 0x8000_0000),
        (Element::F32, 1e-40, 0x0001_16c2),
        (Element::F64, -2.5, 0xc004_0000_0000_0000),
        (Element::F64, 5e-324, 1),
        (Element::Bf16, 1.0, 0x3f80),
        (Element::Bf16, -3.0, 0xc040),
        (Element::F16, 1.0, 0x3c00),
        (Element::F16, -2.0, 0xc000),
        (Element::F16, 65_504.0, 0x7bff),
        (Element::F16, 1e9, 0x7bff),
        (Element::F16, 2f64.powi(-24), 1),
        (Element::F16, 2f64.powi(-25), 0),
        (Element::F8E4M3, 1.0, 0x38),
        (Element::F8E4M3, -1.5, 0xbc),
        (Element::F8E5M2, 1.0, 0x3c),
        (Element::F8E5M2, 1.75, 0x3f),
        (Element::U32, 1.0, 0x3f80_0000), // an integer holds the float of its width
    ];
    for (element, x, expected) in known {
        assert_eq!(floats::bits(element, x), expected, "{element} {x}");
    }
}

#[test]
fn kinds_fill_any_length_and_depend_on_the_seed_alone() {
    for kind in kinds() {
        for element in Element::ALL {
            for len in [0, 1, 7, 8, 9, 1001] {
                let raw = kind.fill(&mut Random(len as u64), element, len);
                assert_eq!(raw.len(), len, "{} {element}", kind.name);
                assert_eq!(raw, kind.fill(&mut Random(len as u64), element, len), "{} {element}", kind.name);
            }
        }
    }
}

#[test]
fn buffers_lie_where_asked_between_guard_bytes() {
    let mut fenced = Fenced::new(1);
    for (place, len) in [(Place::End, 100), (Place::End, 0), (Place::Start(0), 64), (Place::Start(17), 3)] {
        let content = fenced.hold(place, &vec![7; len]);
        let address = match place {
            Place::End => content.as_ptr().addr() + len,
            Place::Start(offset) => content.as_ptr().addr() - offset,
        };
        assert_eq!(address % 4096, 0, "{place:?} {len}");
        assert_eq!(fenced.content(), vec![7; len]);
        assert_eq!(fenced.harm(), None);
        let away = if place == Place::End { -1 } else { len as isize };
        fenced.harm_byte(away);
        assert_eq!(fenced.harm(), Some(away), "{place:?} {len}");
    }
}

/// Reads one byte behind the buffer that `every_step_over_the_fence_ends_the_process` asks for.
#[test]
#[ignore = "ends the process: started by another test"]
fn step_over_the_fence() {
    let mut fenced = Fenced::new(1);
    let (place, at) = match std::env::var("MGCOMP_TEST_STEP").as_deref() {
        Ok("behind") => (Place::End, 100),
        Ok("before") => (Place::Start(0), -1),
        _ => (Place::End, 99),
    };
    fenced.place(place, 100, 7);
    assert_eq!(fenced.peek(at), 7);
}

#[test]
fn every_step_over_the_fence_ends_the_process() {
    let status_of = |step| {
        let mut command = std::process::Command::new(std::env::current_exe().unwrap());
        command.args(["--ignored", "--exact", "step_over_the_fence"]).env("MGCOMP_TEST_STEP", step);
        command.output().unwrap().status
    };
    assert!(status_of("inside").success());
    for step in ["behind", "before"] {
        let status = status_of(step);
        assert_eq!(status.code(), None, "{step}: {status}, not a signal");
    }
}

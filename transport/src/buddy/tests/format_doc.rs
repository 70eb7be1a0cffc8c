//! The examples of `FORMAT.md`, read out of the document and held against what pools keep.

use super::*;

const DOCUMENT: &str = include_str!("../../../../FORMAT.md");

/// The bytes of the dump called `name`: lines of an offset, bytes, and behind a bar what they mean.
fn dump(name: &str) -> Vec<u8> {
    let (_, block) = DOCUMENT.split_once(&format!("```text {name}\n")).expect(name);
    let lines = block.split_once("```").expect(name).0.lines();
    let mut bytes = Vec::new();
    for line in lines {
        let mut numbers = line.split('|').next().unwrap().split_whitespace();
        let offset = usize::from_str_radix(numbers.next().unwrap(), 16);
        assert_eq!(offset, Ok(bytes.len()), "{name}: {line:?}");
        bytes.extend(numbers.map(|byte| u8::from_str_radix(byte, 16).unwrap()));
    }
    bytes
}

/// Holds what `pool` has at the start of device memory and at `spill` of buddy memory against dumps, and what it
/// reads from memories that have been filled from dumps against `raw`.
fn check(form: Form, raw: &[u8], (device, overflow): (&str, &str), spill: u64) {
    let (device, overflow) = (dump(device), dump(overflow));
    let len = raw.len() as u64;
    let pool = || {
        let mut pool = BuddyPool::new(4096, 4096).unwrap();
        let allocation = pool.alloc_as(len, form, Target::Sixteen).unwrap();
        (pool, allocation)
    };
    let (mut written, allocation) = pool();
    written.write(allocation, 0..len, raw).unwrap();
    let mut found = (vec![0; device.len()], vec![0; overflow.len()]);
    let (memory, buddy) = written.memories();
    memory.load(0, &mut found.0).unwrap();
    buddy.load(spill, &mut found.1).unwrap();
    assert_eq!(found, (device.clone(), overflow.clone()), "{form}");

    let (mut filled, allocation) = pool();
    let (memory, buddy) = filled.memories_mut();
    memory.store(0, &device).unwrap();
    buddy.store(spill, &overflow).unwrap();
    let mut out = vec![1; raw.len()];
    filled.read(allocation, 0..len, &mut out).unwrap();
    assert_eq!(out, raw, "{form}");
}

#[test]
fn entries_lie_as_the_document_says() {
    let words = (0..32).map(|_| 0).chain(0..32).chain((0..32).map(|i| i * i));
    let raw: Vec<u8> = words.flat_map(u32::to_le_bytes).collect();
    check(Form::Bpc, &raw, ("buddy bpc device", "buddy bpc overflow of 2"), 256);
    let ones: Vec<u8> = [1f32; 50].into_iter().flat_map(f32::to_le_bytes).collect();
    check(Form::Xp(Element::F32), &ones, ("buddy xp device", "buddy xp overflow"), 0);
}

#[test]
fn the_numbers_in_the_text_are_those_of_the_code() {
    assert!(DOCUMENT.contains("| `xp` | 32,768;") && XP_ENTRY_LEN == 32_768);
    let sixteenths = |form: Form| -> Vec<usize> {
        form.targets().iter().rev().map(|target| target.device_sixteenths()).collect()
    };
    assert_eq!(sixteenths(Form::Bpc), [1, 4, 8, 12, 16]);
    assert_eq!(sixteenths(Form::Xp(Element::U8)), [1, 4, 6, 8, 10, 12, 16]);
}

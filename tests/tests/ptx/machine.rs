//! What the machine itself says: of texts that are no programs, and of programs that do wrong.

use mgcomp_tests::ptx::{Counts, Entry, Fault, Global, Grid, Order, ParseProblem, Problem, Program, launch};

const GRID: Grid = Grid { blocks: 1, threads: 64, dynamic_len: 64, order: Order::InTurn, limit: 1 << 20 };

/// A program whose kernel `k` has these lines, the first of which is line 10.
fn program(lines: &[&str]) -> String {
    let head = [
        ".version 9.0",
        ".extern .shared .align 16 .b8 memory[];",
        ".visible .entry k(",
        ".param .b64 k_param_0",
        ")",
        "{ // a kernel",
        ".reg .pred %p<9>;",
        ".reg .b32 %r<9>;",
        ".reg .b64 %rd<9>;",
    ];
    [&head[..], lines, &["}", ""]].concat().join("\n")
}

fn entry(lines: &[&str]) -> Entry {
    Program::parse(&program(lines)).unwrap().entry("k").unwrap().clone()
}

/// Runs a kernel on a buffer of 256 bytes, and gives it as words.
fn run(lines: &[&str], grid: Grid) -> Result<(Vec<u32>, Counts), Fault> {
    let mut global = Global::default();
    let address = global.add(vec![0; 256], 0, true);
    let counts = launch(&entry(lines), grid, &address.to_le_bytes(), &mut global)?;
    let words = global.bytes(address).as_chunks::<4>().0.iter().copied().map(u32::from_le_bytes);
    Ok((words.collect(), counts))
}

fn problem(lines: &[&str], grid: Grid) -> Problem {
    run(lines, grid).unwrap_err().problem
}

/// Puts `%r1` of each thread into its word.
const STORE: [&str; 5] = [
    "ld.param.u64 %rd1, [k_param_0];",
    "mov.u32 %r8, %tid.x;",
    "mul.wide.u32 %rd2, %r8, 4;",
    "add.s64 %rd3, %rd1, %rd2;",
    "st.global.u32 [%rd3], %r1;",
];

/// `lines`, then the store.
fn stored(lines: &[&str]) -> Vec<u32> {
    run(&[lines, &STORE, &["ret;"]].concat(), GRID).unwrap().0
}

#[test]
fn lanes_that_part_meet_again() {
    let lines = [
        "mov.u32 %r2, %tid.x;",
        "mov.u32 %r1, 0;",
        "mov.u32 %r3, %r2;",
        "setp.eq.s32 %p1, %r2, 40;",
        "@%p1 bra $L2;",
        "$L1:",
        "setp.lt.u32 %p2, %r3, 3;",
        "@%p2 bra $L2;",
        "add.s32 %r3, %r3, -3;",
        "add.s32 %r1, %r1, 1;",
        "bra.uni $L1;",
        "$L2:",
        // All lanes are here at once: those that divided, and the one that did not.
        "vote.sync.ballot.b32 %r4, %p1, -1;",
        "popc.b32 %r4, %r4;",
        "add.s32 %r1, %r1, %r4;",
    ];
    let words = stored(&lines);
    for (thread, word) in words.iter().enumerate() {
        let quotient = if thread == 40 { 0 } else { thread as u32 / 3 };
        assert_eq!(*word, quotient + u32::from(thread >= 32), "thread {thread}");
    }
}

#[test]
fn predicates_keep_lanes_from_computing() {
    // The sum of a lane and the one two below it, where there is one; odd lanes add it to a word of shared memory.
    let lines = [
        "mov.u32 %r2, %tid.x;",
        "mov.u32 %r1, %r2;",
        "shfl.sync.up.b32 %r3|%p1, %r2, 2, 0, -1;",
        "@%p1 add.s32 %r1, %r1, %r3;",
        "@!%p1 mov.u32 %r1, 1000;",
        "and.b32 %r4, %r2, 1;",
        "setp.ne.s32 %p2, %r4, 0;",
        "mov.u64 %rd5, memory;",
        "st.shared.u32 [%rd5], 0;",
        "bar.sync 0;",
        "@%p2 atom.shared.add.u32 %r5, [%rd5], 1;",
        "bar.sync 0;",
        "ld.shared.u32 %r5, [%rd5];",
        "shl.b32 %r5, %r5, 16;",
        "or.b32 %r1, %r1, %r5;",
    ];
    let expected = |thread: u32| if thread % 32 < 2 { 1000 } else { 2 * thread - 2 } | 32 << 16;
    assert_eq!(stored(&lines), (0..64).map(expected).collect::<Vec<u32>>());
}

#[test]
fn threads_meet_at_barriers() {
    // Each puts its number where the other warp looks for it.
    let lines = [
        "mov.u32 %r2, %tid.x;",
        "cvt.u64.u32 %rd4, %r2;",
        "mov.u64 %rd5, memory;",
        "add.s64 %rd6, %rd5, %rd4;",
        "st.shared.u8 [%rd6], %r2;",
        "bar.sync 0;",
        "xor.b32 %r3, %r2, 63;",
        "cvt.u64.u32 %rd4, %r3;",
        "add.s64 %rd6, %rd5, %rd4;",
        "ld.shared.u8 %r1, [%rd6];",
    ];
    assert_eq!(stored(&lines), (0..64).rev().collect::<Vec<u32>>());
}

#[test]
fn an_or_over_the_block() {
    let lines = [
        "mov.u32 %r2, %tid.x;",
        "setp.eq.s32 %p1, %r2, 63;",
        "bar.red.or.pred %p2, 0, %p1;",
        "selp.u32 %r1, 7, 0, %p2;",
    ];
    assert_eq!(stored(&lines), [7; 64]);
}

#[test]
fn lanes_meet_by_their_masks() {
    // Odd and even lanes sum up apart, wherever they come from.
    let lines = [
        "mov.u32 %r2, %tid.x;",
        "and.b32 %r3, %r2, 1;",
        "setp.ne.s32 %p1, %r3, 0;",
        "selp.b32 %r4, -1431655766, 1431655765, %p1;",
        "@%p1 bra $L1;",
        "bra.uni $L2;",
        "$L1:",
        "nanosleep.u32 %r2;",
        "$L2:",
        "redux.sync.add.u32 %r1, %r3, %r4;",
    ];
    let expected: Vec<u32> = (0..64).map(|thread| 16 * (thread & 1)).collect();
    assert_eq!(stored(&lines), expected);
}

#[test]
fn copies_land_when_they_are_waited_for() {
    let lines = [
        "ld.param.u64 %rd1, [k_param_0];",
        "mov.u32 %r7, 77;",
        "st.global.u32 [%rd1+48], %r7;",
        "mov.u64 %rd5, memory;",
        "cvt.u32.u64 %r2, %rd5;",
        "add.s64 %rd6, %rd1, 48;",
        "cp.async.ca.shared.global [%r2], [%rd6], 16;",
        "cp.async.commit_group;",
        "ld.shared.u32 %r5, [memory];",
        "cp.async.wait_group 0;",
        "ld.shared.u32 %r6, [memory];",
        // The garbage of the first block, which is 0xa5 in each byte.
        "setp.eq.s32 %p1, %r5, -1515870811;",
        "selp.b32 %r1, %r6, 0, %p1;",
    ];
    let one_warp = Grid { threads: 32, ..GRID };
    let lines = [&lines[..], &STORE, &["ret;"]].concat();
    assert_eq!(run(&lines, one_warp).unwrap().0[..32], [77; 32]);
    let unwaited: Vec<&str> = lines.iter().copied().filter(|line| !line.contains("wait_group")).collect();
    assert_eq!(problem(&unwaited, one_warp), Problem::PendingCopies);
}

#[test]
fn counts_are_those_of_warps() {
    let lines = ["mov.u32 %r1, 1;", "mov.u32 %r2, %tid.x;", "setp.lt.u32 %p1, %r2, 40;", "@%p1 bra $L1;"];
    let lines = [&lines[..], &["ret;", "$L1:"], &STORE, &["ret;"]].concat();
    let (_, counts) = run(&lines, GRID).unwrap();
    // Two warps at first; of the second one, 24 lanes end and 8 go on.
    assert_eq!(counts.executed, [2, 2, 2, 2, 1, 2, 2, 2, 2, 2, 2]);
    assert_eq!(counts.lanes, [64, 64, 64, 64, 24, 40, 40, 40, 40, 40, 40]);
    assert_eq!((counts.stores.bytes, counts.stores.sectors), (160, 5));
    assert_eq!((counts.loads.bytes, counts.shared_cycles), (0, 0));
}

#[test]
fn what_a_kernel_does_wrong_is_told() {
    let of = |lines: &[&str]| problem(&[lines, &["ret;"]].concat(), GRID);
    let load = "ld.param.u64 %rd1, [k_param_0];";
    let outside = of(&[load, "ld.global.u32 %r1, [%rd1+256];"]);
    assert!(matches!(outside, Problem::Outside { len: 4, .. }), "{outside}");
    assert!(matches!(of(&[load, "st.global.u8 [%rd1+-1], %r1;"]), Problem::Outside { .. }));
    assert!(matches!(of(&["ld.shared.u64 %rd1, [memory+64];"]), Problem::Outside { .. }));
    assert!(matches!(of(&["ld.param.u64 %rd1, [k_param_0+8];"]), Problem::Outside { .. }));
    let misaligned = of(&[load, "ld.global.v4.u32 {%r1, %r2, %r3, %r4}, [%rd1+8];"]);
    assert!(matches!(misaligned, Problem::Misaligned { len: 16, .. }), "{misaligned}");
    assert_eq!(of(&["$L1:", "bra.uni $L1;"]), Problem::Endless);
    // Lane 3 leaves itself out; lane 31 asks a lane that is not there.
    assert_eq!(of(&["vote.sync.ballot.b32 %r1, %p1, -9;"]), Problem::Mask { lane: 3 });
    let half = [
        "mov.u32 %r2, %tid.x;",
        "and.b32 %r2, %r2, 16;",
        "setp.eq.s32 %p1, %r2, 0;",
        "@%p1 bra $L1;",
        "ret;",
        "$L1:",
    ];
    let absent = [&half[..], &["shfl.sync.idx.b32 %r1|%p2, %r2, 31, 31, 65535;"]].concat();
    assert_eq!(of(&absent), Problem::AbsentLane { lane: 0 });
    assert!(matches!(of(&[&half[..], &["bar.warp.sync -1;"]].concat()), Problem::Deadlock { .. }));
    // One warp ends, and the other waits for it.
    let leaves =
        ["mov.u32 %r2, %tid.x;", "setp.lt.u32 %p1, %r2, 32;", "@%p1 bra $L1;", "bar.sync 0;", "$L1:"];
    let fault = run(&[&leaves[..], &["ret;"]].concat(), GRID).unwrap_err();
    assert!(matches!(fault.problem, Problem::Deadlock { .. }), "{fault}");
    assert_eq!((fault.warp, fault.line), (1, 13), "{fault}");
    // One warp waits where another one brings together what its lanes say.
    let mixed = [
        "mov.u32 %r2, %tid.x;",
        "setp.lt.u32 %p1, %r2, 32;",
        "@%p1 bra $L1;",
        "bar.sync 0;",
        "ret;",
        "$L1:",
        "bar.red.or.pred %p2, 0, %p1;",
    ];
    assert_eq!(of(&mixed), Problem::MixedBarriers);
}

#[test]
fn what_is_only_to_be_read_is_not_written() {
    let mut global = Global::default();
    let address = global.add(vec![0; 4], 0, false);
    let lines = ["ld.param.u64 %rd1, [k_param_0];", "st.global.u32 [%rd1], 1;", "ret;"];
    let fault = launch(&entry(&lines), GRID, &address.to_le_bytes(), &mut global).unwrap_err();
    assert_eq!(fault.problem, Problem::ReadOnly { address });
    assert_eq!((fault.kernel.as_str(), fault.line, fault.block, fault.warp), ("k", 11, 0, 0));
}

#[test]
fn what_is_not_understood_has_a_line() {
    let of = |line: &str| {
        let error = Program::parse(&program(&[line, "ret;"])).unwrap_err();
        assert_eq!((error.line, error.text.as_str()), (10, line), "{error}");
        error.problem
    };
    assert_eq!(of("mul.hi.u32 %r1, %r2, %r3;"), ParseProblem::Opcode);
    assert_eq!(of("ld.global.f32 %r1, [%rd1];"), ParseProblem::Opcode);
    assert_eq!(of("add.s32 %r1, %r2;"), ParseProblem::Operands);
    assert_eq!(of("add.s32 %r1, %r2, %r9;"), ParseProblem::Undeclared("%r9".to_owned()));
    assert_eq!(of("ld.global.u32 %r1, [%rd1+x];"), ParseProblem::Operands);
    assert_eq!(of("@%p1 st.global.u32 [%rd1], %r2;"), ParseProblem::Predicated);
    assert_eq!(of("bar.sync 1;"), ParseProblem::Operands);
    assert_eq!(of(".local .b8 x[4];"), ParseProblem::Directive);
    let cut = Program::parse(".visible .entry k(\n)\n{\nret;\n").unwrap_err();
    assert_eq!(cut.problem, ParseProblem::Nesting);
    let nowhere = Program::parse(&program(&["bra $L1;"])).unwrap_err();
    assert_eq!(nowhere.problem, ParseProblem::Undeclared("$L1".to_owned()));
}

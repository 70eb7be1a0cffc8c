//! Requests that fail.

use super::*;

#[test]
fn what_fails_does_not_count() {
    let mut bench = Bench::new();
    for _ in 0..3 * FOUND {
        let (request, decision) = bench.begin_write(FASTEST);
        assert_eq!(decision.reason, FASTEST);
        bench.pass(1);
        bench.end(request, false);
    }
    // One of two.
    let both = [bench.begin_write(FASTEST), bench.begin_write(FASTEST)];
    bench.end(both[0].0, true);
    bench.end(both[1].0, false);
    assert_eq!(bench.write(FASTEST), FASTEST, "the first that counts");
    assert_eq!((0..FOUND).filter(|_| bench.write(FASTEST) == Reason::TransferTimed).count(), 4);
}

#[test]
fn bursts_that_never_count_for_what_fails_are_not_raw_for_ever() {
    let mut bench = Bench::new();
    // One of four fails, in each of so many bursts.
    let fail = |bench: &mut Bench, bursts: usize| -> Vec<Reason> {
        let bursts = (0..bursts).flat_map(|_| {
            let writes: Vec<_> = (0..4).map(|_| bench.begin_write(FASTEST)).collect();
            bench.pass(1);
            writes.iter().enumerate().for_each(|(at, (request, _))| bench.end(*request, at > 0));
            writes.into_iter().map(|(_, decision)| decision.reason).collect::<Vec<_>>()
        });
        bursts.collect()
    };
    // As soon as one is raw that is compared.
    while bench.write(FASTEST) == FASTEST {}
    let reasons = fail(&mut bench, 200);
    assert!(reasons[40..].iter().all(|reason| *reason == FASTEST), "{reasons:?}");
    // And what was found to be slower is compared again.
    let mut bench = Bench::new();
    (0..FOUND).for_each(|_| _ = bench.write(FASTEST));
    assert_eq!(bench.write(FASTEST), SLOWER);
    let reasons = fail(&mut bench, 200);
    assert!(reasons[400..].iter().all(|reason| *reason == FASTEST), "{reasons:?}");
}

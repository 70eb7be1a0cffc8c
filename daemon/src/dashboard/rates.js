// What was sent between two answers of the daemon.

/** What was sent while the daemon looked: who comes late brings along all that it had sent before. */
function seen({ raw_bytes, coded_bytes, algorithms, brought }) {
  const mix = Object.entries(algorithms).map(([name, raw]) => [name, raw - (brought.algorithms[name] ?? 0)]);
  return { raw: raw_bytes - brought.raw_bytes, coded: coded_bytes - brought.coded_bytes, mix: Object.fromEntries(mix) };
}

/** Bytes a second between `then` and `now`. A job of which a process has ended counts from the next answer on. */
export function since(now, then) {
  const point = { up_ns: now.up_ns, raw: 0, coded: 0, mix: {} };
  const seconds = (now.up_ns - then.up_ns) / 1e9;
  // Jobs that are not told count too, unless the sums fell since a process has ended.
  const all = now.other_jobs > 0 && seen(now.total).raw >= seen(then.total).raw;
  const parts = (of) => (all ? [{ job: "", ...of.total }] : of.jobs);
  const earlier = new Map(parts(then).map((job) => [job.job, seen(job)]));
  for (const job of parts(now)) {
    const [old, sums] = [earlier.get(job.job), seen(job)];
    if (!old || old.raw > sums.raw) continue;
    point.raw += (sums.raw - old.raw) / seconds;
    point.coded += Math.max(0, sums.coded - old.coded) / seconds;
    for (const [name, raw] of Object.entries(sums.mix)) {
      const more = Math.max(0, raw - (old.mix[name] ?? 0)) / seconds;
      if (more > 0) point.mix[name] = (point.mix[name] ?? 0) + more;
    }
  }
  return point;
}

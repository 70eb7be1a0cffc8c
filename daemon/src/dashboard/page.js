// Asks the daemon once a second and shows what it says. Keeps the history itself: a daemon nobody looks at does nothing.

import * as draw from "./draw.js";
import { since } from "./rates.js";

const EVERY_MS = 1000;
const KEPT = 300;
const at = (id) => document.getElementById(id);
const history = [];
let token = "";
let before = null;
let wanted = "";

async function ask() {
  const headers = token ? { authorization: `Bearer ${token}` } : {};
  const query = wanted ? `?job=${encodeURIComponent(wanted)}` : "";
  const answer = await fetch(`/dashboard/data.json${query}`, { headers, cache: "no-store", signal: AbortSignal.timeout(10_000) });
  at("asked").hidden = answer.status !== 401;
  if (!answer.ok) throw new Error((await answer.text()).trim());
  return answer.json();
}

/** A text as a shell takes it, whatever is in it: programs choose the names of jobs, and people copy the command. */
const quoted = (text) => /^[\w.,:@%+\/][\w.,:@%+\/=-]*$/.test(text) ? text : `'${text.replaceAll("'", `'\\''`)}'`;

function showTotals(now) {
  const { raw_bytes: raw, coded_bytes: coded, saved_ns } = now.total;
  at("where").textContent = `on ${now.host} · ${now.processes} ${now.processes === 1 ? "process" : "processes"} · version ${now.version}`;
  at("verdict").dataset.state = now.verdict.state;
  // Said again by readers of the page only where it has changed.
  if (at("words").textContent !== now.verdict.words) at("words").textContent = now.verdict.words;
  at("ratio").textContent = draw.ratio(raw, coded);
  at("saved").textContent = raw > 0 ? draw.percent(1 - coded / raw) : "–";
  at("saved-note").textContent = `${draw.bytes(coded)} instead of ${draw.bytes(raw)}`;
  at("time").textContent = now.total.link_gbps === null ? "unknown" : draw.time(saved_ns);
  const first = now.jobs[0];
  if (first) at("off-job").textContent = `mgcomp off --job=${quoted(first.job)}`;
}

function showHistory(now) {
  const points = history.map((point) => ({ ...point, age: (now.up_ns - point.up_ns) / 1e9 }));
  draw.rates(at("rates"), points);
  draw.mix(at("mix"), points, now.algorithms);
  const carried = (name) => points.some((point) => point.mix[name] > 0);
  const legend = now.algorithms.flatMap((name, index) =>
    carried(name) ? [draw.element("span", "", draw.element("i", `k${index}`), name)] : []);
  at("mix-legend").replaceChildren(...legend);
  const last = points.at(-1);
  if (!last) return;
  at("now").textContent = draw.rate(last.raw);
  at("now-note").textContent = last.raw > 0 ? `raw data; ${draw.rate(last.coded)} on the links` : "nothing is sent";
}

function jobRow(job, names) {
  const cells = [job.job, job.processes, job.streams, draw.bytes(job.raw_bytes), draw.bytes(job.coded_bytes),
    draw.ratio(job.raw_bytes, job.coded_bytes), job.link_gbps === null ? "–" : draw.time(job.saved_ns),
    job.lambda_gbps === null ? "the program's" : `${+job.lambda_gbps.toPrecision(4)} Gb/s`, job.policy ?? "the program's"];
  const row = draw.element("tr", "", ...cells.map((cell) => draw.element("td", "", `${cell}`)));
  if (job.compress === false) row.firstChild.append(" ", draw.element("span", "badge", "off"));
  row.append(draw.element("td", "wide", ...draw.shares(job.algorithms, names)));
  return row;
}

function showJobs(now) {
  at("jobs").replaceChildren(...now.jobs.map((job) => jobRow(job, now.algorithms)));
  const more = now.other_jobs;
  at("jobs-note").textContent = more > 0 ? `and ${more} jobs that send less, which the sums above contain` : "";
}

function showLinks(now) {
  const map = now.links;
  const select = at("job");
  const names = now.jobs.map((job) => job.job);
  if (names.join(" ") !== [...select.options].map((option) => option.value).join(" "))
    select.replaceChildren(...names.map((name) => new Option(name)));
  if (map.job) select.value = map.job;
  draw.links(at("links"), map);
  const row = (from, to, { raw, coded, link_gbps }) => [from, to, draw.bytes(raw), draw.bytes(coded),
    draw.ratio(raw, coded), link_gbps === null ? "–" : `${link_gbps.toFixed(1)} Gb/s`];
  const between = (copies) => row(`device ${copies.from_device}${copies.rank === null ? "" : ` of ${copies.rank}`}`,
    `device ${copies.to_device}`, copies);
  const rows = [...map.cells.map((cell) => row(map.ranks[cell.from], map.peers[cell.to], cell)), ...map.copies.map(between)];
  at("link-rows").replaceChildren(...rows.map((texts) =>
    draw.element("tr", "", ...texts.map((text) => draw.element("td", "", text)))));
}

function alive(kind, words) {
  at("alive").className = `alive ${kind}`;
  if (at("alive").textContent !== words) at("alive").textContent = words;
}

async function turn() {
  try {
    const now = await ask();
    // Another daemon counts from its own start.
    if (history.length > 0 && now.up_ns < history.at(-1).up_ns) history.length = 0;
    if (before && now.up_ns > before.up_ns) history.push(since(now, before));
    history.splice(0, history.length - KEPT);
    before = now;
    for (const show of [showTotals, showHistory, showJobs, showLinks]) show(now);
    alive("live", "live");
  } catch (error) {
    alive("lost", at("asked").hidden ? `no answer: ${error.message}` : "a token is needed");
    before = null;
  }
  setTimeout(next, EVERY_MS);
}

/** Nobody looks at a page in the background. */
function next() {
  if (!document.hidden) turn();
  else document.addEventListener("visibilitychange", next, { once: true });
}

at("job").addEventListener("change", (event) => { wanted = event.target.value; });
at("asked").addEventListener("submit", (event) => {
  event.preventDefault();
  token = at("token").value.trim();
});
turn();

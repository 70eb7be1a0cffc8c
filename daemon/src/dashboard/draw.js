// Pictures and words made of numbers. What comes from the daemon becomes text or a length, never markup.

const SVG = "http://www.w3.org/2000/svg";

/** An element of HTML with a class and children. */
export function element(name, kind = "", ...children) {
  const made = document.createElement(name);
  if (kind) made.className = kind;
  made.append(...children);
  return made;
}

/** An element of SVG with attributes and perhaps a text. */
function shape(name, attributes, text) {
  const made = document.createElementNS(SVG, name);
  for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value);
  if (text !== undefined) made.textContent = text;
  return made;
}

/** A number with a unit that suits its size. */
function scaled(value, units, step) {
  let at = 0;
  while (Math.abs(value) >= step && at + 1 < units.length) { value /= step; at += 1; }
  const digits = Math.abs(value) >= 100 || (at === 0 && Number.isInteger(value)) ? 0 : Math.abs(value) >= 10 ? 1 : 2;
  return `${value.toFixed(digits)} ${units[at]}`;
}

export const bytes = (count) => scaled(count, ["B", "kB", "MB", "GB", "TB", "PB"], 1000);
export const rate = (perSecond) => scaled(perSecond * 8, ["b/s", "kb/s", "Mb/s", "Gb/s", "Tb/s"], 1000);
export const ratio = (raw, coded) => (coded > 0 ? (raw / coded).toFixed(2) : "–");
export const percent = (part) => `${Math.round(part * 100)} %`;

/** A time in nanoseconds, as people say it. */
export function time(ns) {
  const seconds = ns / 1e9;
  if (Math.abs(seconds) < 120) return scaled(ns, ["ns", "µs", "ms", "s"], 1000);
  return Math.abs(seconds) < 7200 ? `${(seconds / 60).toFixed(1)} min` : `${(seconds / 3600).toFixed(1)} h`;
}

// As tall as the style says.
const HEIGHT = 208, LEFT = 64, RIGHT = 8, TOP = 8, BOTTOM = 22;

/** An empty chart over the last `span` seconds whose values go up to `most`. */
function chart(svg, span, most, label) {
  const right = (svg.clientWidth || 560) - RIGHT;
  const x = (age) => right - (age / span) * (right - LEFT);
  const y = (value) => HEIGHT - BOTTOM - (value / most) * (HEIGHT - TOP - BOTTOM);
  const parts = [];
  for (const part of [0, 0.5, 1]) {
    const at = y(part * most);
    parts.push(shape("line", { class: "axis", x1: LEFT, x2: right, y1: at, y2: at }));
    parts.push(shape("text", { x: LEFT - 6, y: at + 4, "text-anchor": "end" }, label(part * most)));
  }
  parts.push(shape("text", { x: LEFT, y: HEIGHT - 5 }, `${Math.round(span)} s ago`));
  parts.push(shape("text", { x: right, y: HEIGHT - 5, "text-anchor": "end" }, "now"));
  return { x, y, parts };
}

/** How far back a chart goes: as far as points do, but never less than a while. */
const span = (points) => Math.max(10, points.length ? points[0].age : 0);

/** Raw data and what went over the links. */
export function rates(svg, points) {
  const most = Math.max(1e-9, ...points.map((point) => point.raw)) * 1.08;
  const { x, y, parts } = chart(svg, span(points), most, (value) => rate(value));
  const line = (key) => points.map((point) => `${x(point.age).toFixed(1)},${y(point[key]).toFixed(1)}`);
  if (points.length > 1) {
    const floor = [`${x(points.at(-1).age).toFixed(1)},${y(0)}`, `${x(points[0].age).toFixed(1)},${y(0)}`];
    parts.push(shape("polygon", { class: "codedarea", points: [...line("coded"), ...floor].join(" ") }));
    parts.push(shape("polyline", { class: "rawline", points: line("raw").join(" ") }));
    parts.push(shape("polyline", { class: "codedline", points: line("coded").join(" ") }));
  }
  svg.replaceChildren(...parts);
  const last = points.at(-1);
  if (last) svg.setAttribute("aria-label", `Now ${rate(last.raw)} of raw data, ${rate(last.coded)} on the links`);
}

/** Shares of algorithms, on top of each other. */
export function mix(svg, points, names) {
  const { x, y, parts } = chart(svg, span(points), 1, percent);
  const full = points.filter((point) => point.raw > 0);
  let floor = full.map(() => 0);
  names.forEach((name, index) => {
    const top = full.map((point, at) => floor[at] + (point.mix[name] ?? 0) / point.raw);
    if (top.some((value, at) => value > floor[at])) {
      const spot = (values) => (point, at) => `${x(point.age).toFixed(1)},${y(Math.min(1, values[at])).toFixed(1)}`;
      const there = full.map(spot(top)), back = full.map(spot(floor)).reverse();
      parts.push(shape("polygon", { class: `k${index}`, points: [...there, ...back].join(" ") }));
    }
    floor = top;
  });
  svg.replaceChildren(...parts);
}

/** A bar of shares, with the largest in words beneath. */
export function shares(algorithms, names) {
  const total = Object.values(algorithms).reduce((sum, more) => sum + more, 0);
  const bar = element("div", "bar");
  for (const [index, name] of names.entries()) {
    if (!algorithms[name]) continue;
    const piece = element("i", `k${index}`);
    piece.style.width = `${(100 * algorithms[name]) / total}%`;
    bar.append(piece);
  }
  const largest = Object.entries(algorithms).sort((a, b) => b[1] - a[1]).slice(0, 3);
  const words = largest.map(([name, raw]) => `${name} ${percent(raw / total)}`).join(" · ");
  return [bar, element("span", "share", words || "nothing yet")];
}

/** Who sends to whom. */
export function links(svg, map) {
  const cell = Math.max(10, Math.min(30, Math.floor(900 / Math.max(1, map.peers.length))));
  const left = 64, top = 30;
  svg.setAttribute("width", left + map.peers.length * cell + 10);
  svg.setAttribute("height", top + map.ranks.length * cell + 6);
  const parts = [shape("text", { x: left, y: 12 }, "to rank"), shape("text", { x: 8, y: 26 }, "from")];
  const every = (names) => Math.ceil(names.length / Math.floor((names.length * cell) / 42 + 1));
  map.ranks.forEach((name, at) => {
    if (at % every(map.ranks) === 0 || cell >= 16)
      parts.push(shape("text", { x: left - 8, y: top + (at + 0.5) * cell + 4, "text-anchor": "end" }, name));
  });
  map.peers.forEach((name, at) => {
    if (at % every(map.peers) === 0)
      parts.push(shape("text", { x: left + (at + 0.5) * cell, y: top - 4, "text-anchor": "middle" }, name));
  });
  for (const { from, to, raw, coded, link_gbps } of map.cells) {
    const kept = raw > 0 ? Math.max(0, 1 - coded / raw) : 0;
    const place = { x: left + to * cell + 1, y: top + from * cell + 1, width: cell - 2, height: cell - 2, rx: 3 };
    const look = kept < 0.005 ? { class: "plain" } : { class: "cell", "fill-opacity": (0.15 + 0.85 * kept).toFixed(2) };
    const made = shape("rect", { ...place, ...look });
    const known = link_gbps === null ? "" : `, link ${link_gbps.toFixed(1)} Gb/s`;
    const words = `${map.ranks[from]} → ${map.peers[to]}: ${bytes(raw)} raw, ratio ${ratio(raw, coded)}${known}`;
    made.append(shape("title", {}, words));
    parts.push(made);
  }
  svg.replaceChildren(...parts);
  svg.setAttribute("aria-label", `${map.cells.length} links; the table below tells the same`);
}

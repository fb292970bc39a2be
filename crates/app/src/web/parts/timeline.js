// A coin's timeline as a line that steps through its states, and as a list that tells each step.
//
// Down is forward: unconfirmed, confirmed, leased, spent, forgotten. What is given back goes up.

import { h, s } from "../dom.js";
import { capital, dateTime, hash, timeOfDay, words } from "../format.js";
import { to } from "../routes.js";
import { tenantLink } from "./event.js";

const ROW = 38;
const TOP = 18;
const LEFT = 116;
const NODE = 6;
const LEAST_STEP = 64;
const MOST_STEP = 148;

const LEVELS = ["pending", "unconfirmed", "confirmed", "leased", "spending", "spent", "dead",
  "forgotten"];

const LEVEL_NAMES = { spending: "Being spent" };

// What each kind of step means, in few words.
const TELL = {
  created: "Created",
  seen: "Seen, unconfirmed",
  sent: "Sent to the network",
  confirmed: "Confirmed",
  leased: "Leased",
  lease_ended: "Lease ended",
  spending: "Being spent, unconfirmed",
  spent: "Spent",
  replaced: "Replaced",
  double_spent: "Double-spent",
  failed: "Failed",
  revived: "Revived",
  rolled_back: "Rolled back",
  evicted: "Dropped from the mempool",
  pruned: "Forgotten, past the window",
};

// The same of a transaction that spends the coin.
const TELL_OF_SPEND = {
  sent: "Its spend was sent",
  replaced: "Its spend was replaced",
  double_spent: "Its spend lost to another",
  failed: "Its spend failed",
  revived: "Its spend came back",
  rolled_back: "Its spend was rolled back",
  evicted: "Its spend left the mempool",
};

function tell({ kind, isOwn }) {
  return (isOwn ? null : TELL_OF_SPEND[kind]) ?? TELL[kind] ?? capital(words(kind));
}

// What a coin's timeline is made of; another thing brings its own levels and words.
const COIN = {
  levels: LEVELS,
  nameOf: (level) => LEVEL_NAMES[level] ?? capital(level),
  tell,
  ends: ["forgotten", "dead"],
};

function nodes(steps, levels, step) {
  return steps.map((one, at) => ({
    x: LEFT + 24 + at * step,
    y: TOP + levels.indexOf(one.state) * ROW,
    step: one,
  }));
}

// From one node to the next: along, then down round a corner; what is given back goes up, dashed.
function stair(from, target) {
  const start = `M${from.x} ${from.y}`;
  const drop = target.y - from.y;
  const corner = `H${target.x - 9}Q${target.x} ${from.y} ${target.x} ${from.y + 9}V${target.y}`;
  const paths = [s("path", { class: "timeline-line",
    d: start + (drop > 0 ? corner : `H${target.x}`) })];
  if (drop < 0) {
    const d = `M${target.x} ${from.y}V${target.y}`;
    paths.push(s("path", { class: "timeline-line is-back", d }));
  }
  return paths;
}

// The drawing. Steps: [{ kind, state, at, height, … }] in the order they happened.
export function timelineDrawing(steps, of = COIN) {
  const present = of.levels.filter((level) => steps.some((step) => step.state === level));
  const height = TOP * 2 + (present.length - 1) * ROW;
  const svg = s("svg", { class: "timeline", height, role: "img",
    "aria-label": steps.map(of.tell).join(", then ") });
  const observer = new ResizeObserver(([entry]) => {
    const width = Math.round(entry.contentRect.width);
    const room = (width - LEFT - 60) / Math.max(1, steps.length - 1);
    const step = Math.max(LEAST_STEP / 2, Math.min(MOST_STEP, room));
    svg.setAttribute("viewBox", `0 0 ${width} ${height}`);
    svg.replaceChildren(...draw(of, steps, present, step, width));
  });
  observer.observe(svg);
  return { element: svg, end: () => observer.disconnect() };
}

function draw(of, steps, levels, step, width) {
  const points = nodes(steps, levels, step);
  const last = points.at(-1);
  const rows = levels.map((level, at) => s("g", { class: "timeline-row" },
    s("text", { class: "timeline-name", x: 0, y: TOP + at * ROW + 4 },
      of.nameOf(level)),
    s("line", { x1: LEFT, x2: width, y1: TOP + at * ROW, y2: TOP + at * ROW })));
  const tail = Math.min(width - 4, last.x + MOST_STEP);
  const ended = of.ends.includes(last.step.state);
  return [
    ...rows,
    ...points.slice(1).flatMap((target, at) => stair(points[at], target)),
    ended ? null : s("path", { class: "timeline-tail", d: `M${last.x} ${last.y}H${tail}` }),
    ...points.map(({ x, y, step: one }) => s("g", { class: "timeline-node", "data-kind": one.kind,
      "data-state": one.state },
      s("title", {}, `${of.tell(one)}${one.height === null ? "" : `, block ${one.height}`}`),
      s("circle", { cx: x, cy: y, r: NODE }))),
  ].filter(Boolean);
}

// `own`: the transaction that made the coin, which needs no naming at every step.
function detail(step, own) {
  const parts = [];
  if (step.height !== null) {
    parts.push(["block ", h("a", { href: to("block", step.block ?? step.height) }, step.height)]);
  }
  if (step.other) parts.push(["by ", hash(step.other, { href: to("tx", step.other) })]);
  else if (step.txid && step.txid !== own) {
    parts.push(["by ", hash(step.txid, { href: to("tx", step.txid) })]);
  }
  if (step.tenant) parts.push(["in ", tenantLink(step.room, step.tenant)]);
  if (step.until) parts.push([`until ${timeOfDay(step.until)}`]);
  return parts.map((part) => h("span", { class: "nowrap" }, part));
}

export function timelineList(steps, own) {
  return h("ol", { class: "steps" }, steps.map((step) =>
    h("li", { class: "step", "data-kind": step.kind, "data-state": step.state },
      h("span", { class: "step-dot", "aria-hidden": "true" }),
      h("p", { class: "step-name" }, tell(step)),
      h("p", { class: "step-more" }, detail(step, own)),
      h("time", { class: "step-time" }, step.at === null ? "" : dateTime(step.at)))));
}

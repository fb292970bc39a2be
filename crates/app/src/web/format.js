// Numbers, hashes and times as people read them.

import { h } from "./dom.js";

const whole = new Intl.NumberFormat("en", { maximumFractionDigits: 0 });
const clock = new Intl.DateTimeFormat("en-GB", {
  hour: "2-digit", minute: "2-digit", second: "2-digit",
});
const date = new Intl.DateTimeFormat("en-GB", {
  year: "numeric", month: "short", day: "numeric",
  hour: "2-digit", minute: "2-digit", second: "2-digit",
});

const UNITS = {
  bitcoin: { name: "BTC", decimals: 8 },
  cardano: { name: "ADA", decimals: 6 },
};
let unit = UNITS.bitcoin;

// The unit amounts are shown in follows the network.
export function useFamily(family) {
  unit = UNITS[family] ?? UNITS.bitcoin;
}

export function count(value) {
  return value === null || value === undefined ? "–" : whole.format(value);
}

export function plural(value, one, many = `${one}s`) {
  return `${count(value)} ${Number(value) === 1 ? one : many}`;
}

export function bytes(value) {
  if (value === null || value === undefined) return "–";
  const names = ["B", "KiB", "MiB", "GiB", "TiB"];
  let size = Number(value);
  let at = 0;
  while (size >= 1024 && at < names.length - 1) {
    size /= 1024;
    at += 1;
  }
  const shown = size < 10 && at > 0 ? size.toFixed(1).replace(".0", "") : Math.round(size);
  return `${shown} ${names[at]}`;
}

export function rate(value) {
  if (!value) return "0";
  return value < 10 ? value.toFixed(1) : count(value);
}

// Base units, a decimal string or a number, as [whole part, decimals]: no floating point.
function split(base) {
  const digits = BigInt(base ?? 0);
  const negative = digits < 0n;
  const text = (negative ? -digits : digits).toString().padStart(unit.decimals + 1, "0");
  const cut = text.length - unit.decimals;
  const head = whole.format(BigInt(text.slice(0, cut)));
  return [(negative ? "−" : "") + head, text.slice(cut)];
}

export function amountText(base) {
  const [head, tail] = split(base);
  const kept = tail.replace(/0+$/, "");
  return `${head}${kept ? `.${kept}` : ""} ${unit.name}`;
}

// An amount whose trailing zeros step back. `signed` adds a plus to what came in.
export function amount(base, { signed = false, named = true } = {}) {
  const [head, tail] = split(base);
  const kept = tail.replace(/0+$/, "");
  const plus = signed && BigInt(base ?? 0) > 0n ? "+" : "";
  return h("span", { class: "amount" },
    plus + head + (kept ? `.${kept}` : ""),
    h("span", { class: "zeros", "aria-hidden": "true" },
      (kept ? "" : ".") + tail.slice(kept.length)),
    named && h("span", { class: "unit" }, ` ${unit.name}`));
}

export function unitName() {
  return unit.name;
}

function wrongAmount(text) {
  return Object.assign(new Error(text), { status: 0 });
}

// What people type as base units, in decimal digits; no floating point. A comma parts decimals for
// some and thousands for others, so that nobody can tell which amount it means.
export function baseUnits(text) {
  const typed = text.trim();
  if (typed.includes(",")) {
    throw wrongAmount(`“${typed}” has a comma: write decimals after a point, as in 0.0005, and `
      + "thousands without anything between them");
  }
  const found = typed.match(/^(\d{1,12})(?:\.(\d+))?$/);
  const tail = found?.[2] ?? "";
  if (!found || tail.length > unit.decimals) {
    throw wrongAmount(
      `An amount in ${unit.name} is a number with at most ${unit.decimals} decimals`);
  }
  return BigInt(found[1] + tail.padEnd(unit.decimals, "0")).toString();
}

export function shortHash(hash, keep = 8) {
  if (!hash) return "–";
  return hash.length <= 2 * keep + 1 ? hash : `${hash.slice(0, keep)}…${hash.slice(-keep)}`;
}

// A hash in few letters; the whole one is in the tooltip.
export function hash(value, { href = null, keep = 8 } = {}) {
  const text = shortHash(value, keep);
  const props = { class: "mono nowrap", title: value };
  return href ? h("a", { ...props, href }, text) : h("span", props, text);
}

export function timeOfDay(ms) {
  return ms === null ? "–" : clock.format(ms);
}

export function dateTime(ms) {
  return ms === null || ms === undefined ? "–" : date.format(ms);
}

// How far the server's clock is ahead of ours. Its header counts whole seconds, so that less than
// two is no difference.
const LEAST_SKEW_MS = 2000;
let skew = 0;

export function tellTime(serverMs) {
  const ahead = serverMs - Date.now();
  skew = Math.abs(ahead) < LEAST_SKEW_MS || Number.isNaN(ahead) ? 0 : ahead;
}

// What the server's clock says.
export function serverNow() {
  return Date.now() + skew;
}

let isFrozen = false;

// While nobody tells us what is new, times are told as they are and not by how long ago they were.
export function freeze(frozen) {
  isFrozen = frozen;
}

// How long ago, in one unit; a time while the server is gone.
export function ago(ms, now = serverNow()) {
  if (ms === null || ms === undefined) return "never";
  return isFrozen ? dateTime(ms) : `${span(Math.max(0, now - ms))} ago`;
}

export function span(ms) {
  const seconds = Math.round(ms / 1000);
  if (seconds < 90) return `${seconds} s`;
  if (seconds < 90 * 60) return `${Math.round(seconds / 60)} min`;
  if (seconds < 36 * 3600) return `${Math.round(seconds / 3600)} h`;
  return `${Math.round(seconds / 86400)} days`;
}

// Words of the API (snake_case) as words of a sentence.
export function words(name) {
  return String(name ?? "").replaceAll("_", " ").replaceAll("-", " ");
}

export function capital(text) {
  return text.charAt(0).toUpperCase() + text.slice(1);
}

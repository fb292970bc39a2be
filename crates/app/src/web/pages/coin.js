// A coin: what it is now, and what happened to it. Rooms add what they know of it.

import * as api from "../api.js";
import { h, show } from "../dom.js";
import { amount, capital, hash, shortHash, words } from "../format.js";
import { facts, head, panel } from "../parts/facts.js";
import { empty, waiting } from "../parts/notes.js";
import { state } from "../parts/state.js";
import { timelineDrawing, timelineList } from "../parts/timeline.js";
import { brought } from "../registry.js";
import { to } from "../routes.js";
import { statesOf } from "../timeline.js";

export async function showCoin(place, { outpoint }, context) {
  show(place, waiting(5));
  const timeline = await api.coinTimeline(outpoint);
  const after = () => showCoin(place, { outpoint }, context).catch(() => {});
  // Each: { owners, facts, buttons, panels }, any of them left out.
  const parts = await Promise.all(
    brought("coinParts").map((part) => part.read(timeline, after)));
  if (!context.isCurrent()) return;
  context.title(`Coin ${shortHash(timeline.txid, 6)}:${timeline.vout}`);
  const title = timeline.value === null ? "A coin" : amount(timeline.value);
  const buttons = parts.flatMap((part) => part.buttons ?? []);
  show(place,
    head("Coin", title, timeline.outpoint, facts(factsOf(timeline, parts))),
    buttons.length > 0 && h("p", { class: "acts" }, buttons),
    parts.flatMap((part) => part.panels ?? []),
    timelinePanel(timeline, context));
}

function factsOf(timeline, parts) {
  return [
    ["State", state(timeline.state, capital(words(timeline.state)))],
    ["Owner", timeline.address && h("a", { class: "mono breaks",
      href: to("address", timeline.address) }, timeline.address)],
    ...parts.flatMap((part) => part.owners ?? []),
    ["Transaction", hash(timeline.txid, { href: to("tx", timeline.txid) })],
    ...parts.flatMap((part) => part.facts ?? []),
  ];
}

function timelinePanel(timeline, context) {
  const steps = statesOf(timeline);
  if (steps.length === 0) return panel("Timeline", empty("Nothing about it is kept"));
  const drawing = timelineDrawing(steps);
  context.atEnd(drawing.end);
  return panel("Timeline", drawing.element, timelineList(steps, timeline.txid));
}

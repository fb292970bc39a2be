// The best block, and where blocks come from.

import { h, setText, show } from "../../dom.js";
import { ago, count, dateTime, hash, serverNow } from "../../format.js";
import { to } from "../../routes.js";
import { live } from "../../live.js";
import { state } from "../../parts/state.js";
import { recent } from "./blocks.js";

const LONG_AGO_MS = 2 * 86400000;

// When we got it; else when its miner says it was made, which on a test network may be years ago.
function age(block) {
  const applied = live.events.find((event) => event.kind === "block_applied"
    && event.subject === block.hash);
  if (applied) return `Applied ${ago(applied.at)}`;
  if (!block.time) return "\u00a0";
  const isOld = serverNow() - block.time > LONG_AGO_MS;
  return `Mined ${isOld ? dateTime(block.time) : ago(block.time)}`;
}

export const tip = {
  id: "tip",
  title: "Best block",
  size: "third",
  order: 10,
  // The status knows a tip even while this room is off.
  room: null,
  make(body, context) {
    const height = h("p", { class: "figure", id: "tip-height" }, "–");
    const name = h("p", { class: "tip-hash" }, "\u00a0");
    const since = h("p", { class: "soft tip-age" }, "\u00a0");
    const source = h("p", { class: "tip-source" }, "\u00a0");
    show(body, height, name, since, source);
    let shownHash = null;
    const draw = () => {
      const { status } = live;
      if (!status) return;
      const best = status.rooms.find((room) => room.tip)?.tip ?? status.source.tip;
      const newest = recent.blocks[0] ?? best;
      if (!newest) return;
      setText(height, count(newest.height));
      if (newest.hash !== shownHash) {
        show(name, hash(newest.hash, { href: to("block", newest.hash), keep: 12 }));
        shownHash = newest.hash;
      }
      setText(since, age(newest));
      const { connected, error } = status.source;
      show(source, connected ? state("live", status.source.name)
        : state("away", `${status.source.name}: ${error ?? "away"}`));
    };
    context.on("status", draw);
    context.on("blocks", draw);
    context.on("events", draw);
    draw();
  },
};

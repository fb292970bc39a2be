// The chain room: the last blocks, reorganisations as they happen, and the size of the coin set.

import { h, setText, show } from "../../dom.js";
import { count, plural, timeOfDay } from "../../format.js";
import { live } from "../../live.js";
import { plot } from "../../parts/plot.js";
import { recent } from "./blocks.js";
import { strip } from "./strip.js";
import { tip } from "./tip.js";

const recentBlocks = {
  id: "blocks",
  title: "Recent blocks",
  size: "full",
  order: 30,
  room: "chain",
  make(body, context) {
    const drawing = strip();
    const note = h("p", { class: "panel-note" });
    show(body, note, drawing.element);
    const draw = () => {
      drawing.update(recent.blocks, recent.stale);
      setText(note, recent.stale.length === 0 ? "No side branch in sight"
        : `${plural(recent.stale.length, "block")} left the chain`);
    };
    context.on("blocks", draw);
    context.atEnd(drawing.end);
    draw();
  },
};

function grown() {
  const [first] = live.samples;
  const last = live.samples.at(-1);
  if (!first || first === last) return "\u00a0";
  const more = last.coins - first.coins;
  return `${more < 0 ? "−" : "+"}${count(Math.abs(more))} since ${timeOfDay(first.at)}`;
}

const coinSet = {
  id: "coin-set",
  title: "Unspent coins",
  size: "half",
  order: 40,
  room: "chain",
  make(body, context) {
    plot(body, context, {
      label: "Number of unspent coins over time",
      series: [{ name: "coins", value: (sample) => sample.coins }],
      format: (value) => count(Math.round(value)),
      fromZero: false,
      total: (sample) => sample.coins,
      extra: grown,
    });
  },
};

export const panels = [tip, recentBlocks, coinSet];

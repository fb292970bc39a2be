// The chain room: the last blocks, reorganisations as they happen, and the size of the coin set.

import { h, setText, show } from "../dom.js";
import { count, plural, timeOfDay } from "../format.js";
import { live } from "../live.js";
import { plot } from "../parts/plot.js";
import { strip } from "../parts/strip.js";

const recentBlocks = {
  id: "blocks",
  title: "Recent blocks",
  size: "full",
  room: "chain",
  make(body, context) {
    const drawing = strip();
    const note = h("p", { class: "panel-note" });
    show(body, note, drawing.element);
    const draw = () => {
      drawing.update(live.blocks, live.stale);
      setText(note, live.stale.length === 0 ? "No side branch in sight"
        : `${plural(live.stale.length, "block")} left the chain`);
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

export const chain = [recentBlocks, coinSet];

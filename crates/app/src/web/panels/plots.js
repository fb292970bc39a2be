// Coin set and storage over time, sampled while the page is open.

import { h, setText, show } from "../dom.js";
import { bytes, capital, count, timeOfDay } from "../format.js";
import { live } from "../live.js";
import { chart } from "../parts/chart.js";

// A plot with its present value above, or the value under the pointer.
function plot(body, context, { total, extra, format, ...look }) {
  const figure = h("p", { class: "figure small" }, "–");
  const when = h("p", { class: "panel-note" }, "\u00a0");
  let pointed = null;
  const value = () => {
    const sample = pointed ?? live.samples.at(-1);
    if (!sample) return;
    setText(figure, format(total(sample)));
    setText(when, pointed ? timeOfDay(pointed.at) : extra());
  };
  const drawing = chart({
    ...look, format,
    onPoint: (sample) => {
      pointed = sample;
      value();
    },
  });
  show(body, when, figure, drawing.element);
  const draw = () => {
    drawing.update(live.samples);
    value();
  };
  context.on("samples", draw);
  context.atEnd(drawing.end);
  draw();
}

function grown() {
  const [first] = live.samples;
  const last = live.samples.at(-1);
  if (!first || first === last) return "\u00a0";
  const more = last.coins - first.coins;
  return `${more < 0 ? "−" : "+"}${count(Math.abs(more))} since ${timeOfDay(first.at)}`;
}

export const chainSize = {
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

export const storage = {
  id: "storage",
  title: "Storage",
  size: "half",
  room: null,
  make(body, context) {
    const names = (live.status?.storage ?? []).map((part) => part.name);
    const sum = (sample) => Object.values(sample.storage).reduce((all, one) => all + one, 0);
    const parts = () => {
      const last = live.samples.at(-1);
      return names.map((name) => `${capital(name)} ${bytes(last.storage[name])}`).join(" · ");
    };
    plot(body, context, {
      label: "Bytes on disk over time, by room",
      series: names.map((name) => ({ name, value: (sample) => sample.storage[name] })),
      format: bytes,
      fromZero: true,
      base: 1024,
      total: sum,
      extra: parts,
    });
  },
};

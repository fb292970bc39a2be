// A plot of what is sampled while the page is open, with its present value above, or the value
// under the pointer.

import { h, setText, show } from "../dom.js";
import { timeOfDay } from "../format.js";
import { live } from "../live.js";
import { chart } from "./chart.js";

export function plot(body, context, { total, extra, format, ...look }) {
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

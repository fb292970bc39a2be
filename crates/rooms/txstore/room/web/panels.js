// The txstore room: its size over time, and what waits to be deleted, by reason.

import { h, setText, show } from "../../dom.js";
import { bytes, capital, count, plural, words } from "../../format.js";
import { live } from "../../live.js";
import { plot } from "../../parts/plot.js";

const WAITS_FOR = {
  due: "The next pass of the cleaner",
  later: "A later height",
  child_unmined: "A child to be mined",
  child_unknown: "A child that was never seen",
};

const size = {
  id: "txstore-size",
  title: "Transaction store",
  size: "half",
  order: 60,
  room: "txstore",
  make(body, context) {
    plot(body, context, {
      label: "Bytes of the transaction store over time",
      series: [{ name: "txstore", value: (sample) => sample.storage.txstore ?? 0 }],
      format: bytes,
      fromZero: true,
      base: 1024,
      total: (sample) => sample.storage.txstore ?? 0,
      extra: () => plural(live.samples.at(-1)?.records ?? 0, "transaction"),
    });
  },
};

function line([name, many]) {
  return h("div", { "data-reason": name },
    h("dt", {}, WAITS_FOR[name] ?? capital(words(name))), h("dd", {}, count(many)));
}

const backlog = {
  id: "txstore-backlog",
  title: "Waiting to be deleted",
  size: "half",
  order: 70,
  room: "txstore",
  make(body, context) {
    const figure = h("p", { class: "figure small" }, "–");
    const note = h("p", { class: "panel-note" }, "\u00a0");
    const waiting = h("dl", { class: "facts" });
    const kept = h("dl", { class: "facts" });
    show(body, note, figure, waiting, kept);
    const draw = () => {
      const now = live.status?.figures.txstore;
      if (!now) return;
      setText(figure, count(now.waiting.reduce((all, [, many]) => all + many, 0)));
      setText(note, `${count(now.deleted)} deleted · ${count(now.unmined)} unmined`);
      show(waiting, now.waiting.map(line));
      show(kept, now.kept.map(([name, many]) => line([`kept: ${name}`, many])));
    };
    context.on("status", draw);
    draw();
  },
};

export const panels = [size, backlog];

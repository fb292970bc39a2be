// The example room on the dashboard: what it has counted, as a panel and as a page of its own. A
// line in `rooms.js` plugs it in; a test does that.

import { h, setText, show } from "../../dom.js";
import { count, plural } from "../../format.js";
import { live } from "../../live.js";

// Draws into a place for as long as its page is shown.
function draw(place, context) {
  const figure = h("p", { class: "figure small" }, "–");
  const note = h("p", { class: "panel-note" }, "\u00a0");
  show(place, note, figure);
  const update = () => {
    const counted = live.status?.figures.counting;
    if (!counted) return;
    setText(figure, count(counted.blocks));
    setText(note, `${plural(counted.payments, "payment")} in these blocks`);
  };
  context.on("status", update);
  update();
}

function showCounts(place, _args, context) {
  const body = h("section", { class: "panel" });
  show(place, h("header", { class: "head" }, h("h1", {}, "Counted blocks")), body);
  draw(body, context);
}

export const counting = {
  name: "counting",
  panels: [{ id: "counting", title: "Counted blocks", size: "third", room: "counting",
    make: draw }],
  pages: [{ path: "/counting", tab: "counting", title: "Counting", inTabs: true, order: 60,
    room: "counting", show: showCounts }],
  events: {
    block_counted: ({ body }) => [`Block ${count(body.height)} counted`],
    block_uncounted: ({ body }) => [`Block ${count(body.height)} is no longer counted`],
  },
  figures: (value) => ({ blocks: value.blocks ?? 0, payments: value.payments ?? 0 }),
};

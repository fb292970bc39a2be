// The last blocks, and reorganisations as they happen.

import { h, setText, show } from "../dom.js";
import { plural } from "../format.js";
import { live } from "../live.js";
import { strip } from "../parts/strip.js";

export const recentBlocks = {
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

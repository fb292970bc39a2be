// The overview: every panel whose room is on.

import { h, show } from "../dom.js";
import { isOn, live } from "../live.js";
import { empty } from "../parts/notes.js";
import { brought } from "../registry.js";

export function showOverview(place, _args, context) {
  if (!live.status) {
    show(place, empty("The server isn’t responding", "This page keeps retrying."));
    let isShown = false;
    context.on("status", () => {
      if (isShown || !live.status) return;
      isShown = true;
      showOverview(place, _args, context);
    });
    return;
  }
  const shown = brought("panels").filter((panel) => panel.room === null || isOn(panel.room));
  const panels = shown.map((panel) => {
    const body = h("div", { class: "panel-body" });
    const title = `panel-${panel.id}`;
    const frame = h("section", { class: `panel size-${panel.size}`, "aria-labelledby": title },
      h("h2", { id: title }, panel.title), body);
    panel.make(body, context);
    return frame;
  });
  show(place, h("h1", { class: "hidden" }, "Overview"), h("div", { class: "grid" }, panels));
}

// The overview: every panel whose room is on.

import { h, show } from "../dom.js";
import { live } from "../live.js";
import { PANELS } from "../panels.js";
import { empty } from "../parts/notes.js";

function isOn(panel) {
  if (panel.room === null) return true;
  const room = live.status.rooms.find((one) => one.name === panel.room);
  return room !== undefined && room.state !== "off";
}

export function showOverview(place, _args, context) {
  if (!live.status) {
    show(place, empty("The server doesn’t answer", "This page looks again by itself."));
    context.on("status", () => showOverview(place, _args, context));
    return;
  }
  const panels = PANELS.filter(isOn).map((panel) => {
    const body = h("div", { class: "panel-body" });
    const title = `panel-${panel.id}`;
    const frame = h("section", { class: `panel size-${panel.size}`, "aria-labelledby": title },
      h("h2", { id: title }, panel.title), body);
    panel.make(body, context);
    return frame;
  });
  show(place, h("h1", { class: "hidden" }, "Overview"), h("div", { class: "grid" }, panels));
}

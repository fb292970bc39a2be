// What happens, newest first.

import { h, show } from "../dom.js";
import { dateTime, timeOfDay } from "../format.js";
import { live } from "../live.js";
import { eventText, isLoud } from "../parts/event.js";

const SHOWN = 40;

function line(event) {
  return h("li", { class: "event", "data-kind": event.kind, "data-loud": isLoud(event) },
    h("time", { title: dateTime(event.at) }, timeOfDay(event.at)),
    h("span", { class: "event-room" }, event.room),
    h("span", { class: "event-text" }, eventText(event)));
}

export const events = {
  id: "events",
  title: "Events",
  size: "twothirds",
  order: 80,
  room: null,
  make(body, context) {
    const list = h("ol", {});
    show(body, h("div", { class: "events", role: "log", "aria-live": "off", tabindex: "0",
      "aria-label": "Events, newest first" }, list));
    let newest = 0;
    const draw = () => {
      const fresh = live.events.filter((event) => event.id > newest);
      if (fresh.length === 0) return;
      newest = fresh[0].id;
      list.prepend(...fresh.slice(0, SHOWN).map(line));
      while (list.childElementCount > SHOWN) list.lastElementChild.remove();
    };
    context.on("events", draw);
    draw();
  },
};

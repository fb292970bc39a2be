// Each room: where it stands, how far behind it is, and what to do when it has stopped.

import { h, setStyle, show } from "../dom.js";
import { capital, count, plural, rate } from "../format.js";
import { live } from "../live.js";
import { state } from "../parts/state.js";

// How far a room is on its way, from 0 to 1.
function progress(room) {
  if (room.state === "working") return 1;
  if (room.tip === null || room.lag === null) return 0;
  return room.tip.height / Math.max(1, room.tip.height + room.lag);
}

function place(room) {
  if (room.state === "off") return "Off";
  if (room.state === "working") return "Follows no chain";
  if (room.lag === null) return room.tip ? `At ${count(room.tip.height)}` : "No block yet";
  return room.lag === 0 ? "In step" : `${plural(room.lag, "block")} behind`;
}

function pace(room) {
  const parts = [];
  if (room.rate > 0) parts.push(`${rate(room.rate)} blocks/s`);
  if (room.reorgs > 0) parts.push(plural(room.reorgs, "reorganisation"));
  return parts.join(" · ");
}

function roomTrouble(room) {
  if (room.state === "waiting" && room.reason) {
    return h("p", { class: "trouble", "data-tone": "warm" }, capital(room.reason));
  }
  if (room.state !== "stopped") return null;
  return h("div", { class: "trouble", "data-tone": "alarm" },
    h("p", {}, h("strong", {}, "Stopped. "), capital(room.reason ?? "no reason was given")),
    room.remedy && h("p", {}, h("strong", {}, "What to do. "), capital(room.remedy)));
}

export function roomLine(room) {
  const fill = h("span", { class: "meter-fill" });
  setStyle(fill, { width: `${(progress(room) * 100).toFixed(2)}%` });
  return h("li", { class: "room", "data-room": room.name, "data-state": room.state },
    h("div", { class: "room-head" },
      h("span", { class: "room-name" }, capital(room.name)),
      state(room.state),
      h("span", { class: "room-tip" }, room.tip ? count(room.tip.height) : "–")),
    h("div", { class: "meter", "aria-hidden": "true" }, fill),
    h("div", { class: "room-foot" }, h("span", {}, place(room)), h("span", {}, pace(room))),
    roomTrouble(room));
}

export const roomStates = {
  id: "rooms",
  title: "Rooms",
  size: "twothirds",
  order: 20,
  room: null,
  make(body, context) {
    const list = h("ul", { class: "rooms" });
    show(body, list);
    const draw = () => live.status && show(list, live.status.rooms.map(roomLine));
    context.on("status", draw);
    draw();
  },
};

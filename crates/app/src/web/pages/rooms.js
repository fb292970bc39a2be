// Rooms and jobs in full: states, reasons, remedies, last runs.

import * as acts from "../acts.js";
import { h, show } from "../dom.js";
import { ago, bytes, capital, count, dateTime, hash, plural, span, words } from "../format.js";
import { to } from "../routes.js";
import { live } from "../live.js";
import { actButton, redraw } from "../parts/dialog.js";
import { facts, panel } from "../parts/facts.js";
import { table } from "../parts/list.js";
import { empty } from "../parts/notes.js";
import { state } from "../parts/state.js";
import { roomLine } from "../panels/rooms.js";
import { mayRun } from "../session.js";

const JOBS = [
  { title: "Job", cell: (job) => capital(words(job.name)) },
  { title: "Every", cell: (job) => (job.every ? span(job.every) : "by hand") },
  { title: "Last run", cell: (job) => (job.running ? state("live", "Running")
    : h("span", { title: job.lastRun ? dateTime(job.lastRun) : "" }, ago(job.lastRun))) },
  { title: "Outcome", cell: (job) => job.outcome ?? h("span", { class: "faint" }, "–") },
  { title: "Runs", class: "right", cell: (job) => count(job.runs) },
];

const RUN = { title: "Actions", class: "right acts-cell", cell: (job) => !job.running
  && actButton("Run now", () => acts.runJob(job), () => {}, job.name) };

function pointLink(point) {
  return point && h("span", {}, h("a", { href: to("block", point.hash) }, count(point.height)), " ",
    hash(point.hash, { keep: 6 }));
}

function roomPanel(room, storage) {
  const size = storage.find((part) => part.name === room.name);
  const last = room.lastReorg;
  return h("section", { class: "panel room-panel", "aria-label": `${room.name} room` },
    h("ul", { class: "rooms" }, roomLine(room)),
    room.state === "stopped" && mayRun() && h("p", { class: "acts" },
      actButton("Resume", () => acts.resumeRoom(room), () => {}, room.name)),
    facts([
      ["Tip", pointLink(room.tip)],
      ["Storage", size && bytes(size.bytes)],
      ["Last reorganisation", last && `${plural(last.depth, "block")} deep, ${ago(last.at)}`],
    ]));
}

function sourcePanel({ source, startedAt }) {
  return panel("Source", facts([
    ["Name", source.name],
    ["State", source.connected ? state("live", "Connected") : state("away")],
    ["Tip", pointLink(source.tip)],
    ["Last error", source.error],
    ["Started", startedAt && h("span", { title: dateTime(startedAt) }, ago(startedAt))],
  ]));
}

export function showRooms(place, _args, context) {
  const body = h("div", { class: "stack" });
  show(place, h("header", { class: "head" }, h("h1", {}, "Rooms and jobs")), body);
  const draw = () => {
    if (!live.status) {
      show(body, empty("The server isn’t responding", "This page keeps retrying."));
      return;
    }
    const { rooms, jobs, storage } = live.status;
    redraw(body,
      h("div", { class: "flow" }, rooms.map((room) => roomPanel(room, storage))),
      sourcePanel(live.status),
      panel("Jobs", jobs.length === 0 ? empty("No jobs")
        : table(mayRun() ? [...JOBS, RUN] : JOBS, jobs, "Jobs").element));
  };
  context.on("status", draw);
  draw();
}

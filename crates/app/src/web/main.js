// Starts the dashboard: routes, search, keys, and the lines around the page.

import { daemon } from "./daemon.js";
import { h, setText, show } from "./dom.js";
import { dateTime, useFamily, words } from "./format.js";
import * as http from "./http.js";
import { isOn, live, startLive, subscribe } from "./live.js";
import { routeOfQuery } from "./pages/lookup.js";
import { openAct } from "./parts/dialog.js";
import { problem, signIn } from "./parts/notes.js";
import { brought, named, plugIn } from "./registry.js";
import * as rooms from "./rooms.js";
import { pageFor } from "./routes.js";
import { logIn, logOut, readSession, session } from "./session.js";

const main = document.getElementById("main");
const field = document.getElementById("find-field");

let leave = () => {};
let shown = 0;

// ---- routes

async function route() {
  const [path] = location.hash.slice(1).split("?");
  const { page, args } = pageFor(path || "/");
  leave();
  shown += 1;
  const mine = shown;
  const frame = h("div", { class: "page" });
  const endings = [];
  leave = () => endings.forEach((end) => end());
  show(main, frame);
  markTab(page);
  document.title = page.title === "Overview" ? "Unspent" : `${page.title} · Unspent`;
  const context = {
    // Ends with the page.
    on: (topic, callback) => endings.push(subscribe(topic, callback)),
    every: (ms, callback) => {
      const timer = setInterval(callback, ms);
      endings.push(() => clearInterval(timer));
    },
    atEnd: (callback) => endings.push(callback),
    isCurrent: () => mine === shown,
    title: (text) => { document.title = `${text} · Unspent`; },
  };
  try {
    await page.show(frame, args, context);
  } catch (error) {
    if (context.isCurrent()) show(frame, problem(error));
  }
}

function markTab(page) {
  for (const link of document.querySelectorAll("#tabs a")) {
    if (link.dataset.tab === page.tab) link.setAttribute("aria-current", "page");
    else link.removeAttribute("aria-current");
  }
}

function buildTabs() {
  const links = brought("pages").filter((page) => page.inTabs).map((page) =>
    h("a", { href: `#${page.path}`, "data-tab": page.tab, "data-needs": page.room,
      hidden: Boolean(page.room) }, page.title));
  show(document.getElementById("tabs"), links);
}

function onRoute() {
  if (location.hash === "#main") return;
  window.scrollTo(0, 0);
  // Whoever has gone on to search while the page was loading is not called back.
  route().then(() => {
    if (document.activeElement !== field) main.focus({ preventScroll: true });
  });
}

// ---- search and keys

document.getElementById("find").addEventListener("submit", (event) => {
  event.preventDefault();
  const query = field.value.trim();
  if (!query) return;
  location.hash = routeOfQuery(query);
  field.value = "";
  field.blur();
});

document.addEventListener("keydown", (event) => {
  const typing = event.target.closest?.("input, textarea, select");
  if (event.key === "/" && !typing && !event.ctrlKey && !event.metaKey && !event.altKey) {
    event.preventDefault();
    field.focus();
    field.select();
  }
  if (event.key === "Escape" && event.target === field) field.blur();
});

document.querySelector(".skip").addEventListener("click", (event) => {
  event.preventDefault();
  main.focus();
});

// ---- the lines around the page

const LINK_STATES = {
  connecting: "Connecting…",
  live: "Live",
  interrupted: "Live events are interrupted; checking every 2 s",
  away: "The server isn’t responding; retrying",
};

// A server that is gone turns everything grey: what is shown was true, and may be so no more.
subscribe("link", () => {
  const state = document.getElementById("link-state");
  state.dataset.state = live.link;
  setText(state, LINK_STATES[live.link]);
  document.documentElement.dataset.link = live.link;
  const isAway = live.link === "away";
  const banner = document.getElementById("away");
  banner.hidden = !isAway;
  if (!isAway) return;
  const since = live.heardAt ? ` since ${dateTime(live.heardAt)}` : "";
  setText(banner, `The server hasn’t responded${since}. What you see may be out of date; this page `
    + "keeps retrying.");
});

// The page of a room that is off unless switched on is offered when it is on.
subscribe("status", () => {
  for (const link of document.querySelectorAll("#tabs a[data-needs]")) {
    link.hidden = !isOn(link.dataset.needs);
  }
});

subscribe("status", () => {
  if (!live.status) return;
  useFamily(live.status.family);
  const chip = document.getElementById("network");
  chip.hidden = false;
  setText(chip, words(live.status.network));
  const stopped = live.status.rooms.filter((room) => room.state === "stopped");
  const banner = document.getElementById("banner");
  banner.hidden = stopped.length === 0;
  if (stopped.length === 0) return;
  const [first, ...others] = stopped;
  const more = others.length ? ` (and ${others.length} more)` : "";
  const text = `The ${first.name} room${more} has stopped: ${first.reason ?? "no reason given"}.`;
  if (banner.dataset.text === text) return;
  banner.dataset.text = text;
  show(banner, h("strong", {}, text), " ", h("a", { href: "#/rooms" }, "What to do"));
});

// Only what a listener must know is read out: a feed of every block would drown them.
let announced = 0;
subscribe("events", () => {
  const event = live.events.find((one) => one.id > announced && named("announced", one.kind));
  announced = live.lastEvent;
  if (event) setText(document.getElementById("announcer"), named("announced", event.kind));
});

// ---- who is there

const who = document.getElementById("who");

function showWho() {
  who.hidden = false;
  setText(who, session.isGuest ? "Log in" : session.name);
  who.title = session.isGuest ? "" : `Logged in with the scope “${session.scope}”`;
}

// What may be done is offered on every page, so that the page is made anew.
function onSession() {
  showWho();
  onRoute();
}

function logInAct() {
  return {
    title: "Log in",
    says: ["With a token that has the scope “wallet” you can get addresses, build payments, and "
      + "freeze, label and release coins here. On the server’s own machine, the contents of the "
      + "cookie file in the data folder work too."],
    fields: [{ name: "token", label: "Token", type: "password", maxlength: "400" }],
    button: "Log in",
    run: async ({ token }) => {
      await logIn(token.trim());
      return null;
    },
  };
}

function logOutAct() {
  return {
    title: `Log out ${session.name}`,
    says: [`This browser is logged in with the scope “${session.scope}”. Logged out, it can still `
      + "read if the server lets guests in."],
    button: "Log out",
    run: async () => {
      await logOut();
      return null;
    },
  };
}

who.addEventListener("click", () => openAct(session.isGuest ? logInAct() : logOutAct(), onSession));

// ---- start

let isLocked = false;

async function locked() {
  if (isLocked) return;
  isLocked = true;
  if (await http.renewSession().catch(() => false)) {
    location.reload();
    return;
  }
  leave();
  show(main, signIn(async (token) => {
    await http.signIn(token);
    location.reload();
  }));
}

plugIn([daemon, ...Object.values(rooms)]);
buildTabs();
http.start(locked);
await http.signInFromAddress();
addEventListener("hashchange", () => isLocked || onRoute());
await startLive();
if (!isLocked) await readSession().then(showWho, () => {});
announced = live.status?.lastEvent ?? 0;
if (!isLocked) await route();

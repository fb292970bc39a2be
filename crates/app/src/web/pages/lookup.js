// Finds whatever was typed, and goes there.

import * as api from "../api.js";
import { h, show } from "../dom.js";
import { words } from "../format.js";
import { empty, waiting } from "../parts/notes.js";
import { brought } from "../registry.js";
import { to } from "../routes.js";

const OUTPOINT = /^([0-9a-f]{64})[:#](\d{1,10})$/i;

// The page of a coin, where a query is the name of one.
export function routeOfCoin(query) {
  const coin = query.match(OUTPOINT);
  return coin && to("coin", `${coin[1].toLowerCase()}:${coin[2]}`);
}

// Where a query leads: at once when its form says what it is, else by asking.
export function routeOfQuery(query) {
  for (const { routeOf } of brought("search")) {
    const route = routeOf?.(query);
    if (route) return route;
  }
  return to("lookup", query);
}

// Where a match is shown, and its name in full; null where no room shows such things.
function placeOf(found) {
  const place = brought("search").find(({ places }) => Object.hasOwn(places, found.kind));
  return place ? place.places[found.kind](found) : null;
}

export async function showLookup(place, { query }, context) {
  if (!query) {
    show(place, form(), brought("search").map(({ hints }) => hints?.()));
    return;
  }
  show(place, form(query), waiting(3));
  const found = (await api.search(query)).filter((one) => placeOf(one) !== null);
  if (!context.isCurrent()) return;
  if (found.length === 1) {
    location.replace(placeOf(found[0]).href);
    return;
  }
  show(place, form(query), found.length === 0 ? nothing(query) : choices(found));
}

function nothing(query) {
  return empty("Nothing found", `No address, coin, transaction or block matches “${query}”. `,
    "Spent coins are forgotten once they are past the window.");
}

function choices(found) {
  const line = (one) => h("li", {},
    h("a", { class: "choice", href: placeOf(one).href },
      h("span", { class: "choice-kind" }, words(one.kind)),
      h("span", { class: "mono choice-name" }, placeOf(one).name)));
  return h("section", { class: "panel" }, h("ul", { class: "choices" }, found.map(line)));
}

function form(query = "") {
  const input = h("input", { class: "field large mono", id: "lookup-field", type: "search",
    name: "q", value: query, spellcheck: "false", autocapitalize: "off", autocomplete: "off",
    maxlength: "200" });
  const submit = (event) => {
    event.preventDefault();
    const wanted = input.value.trim();
    if (wanted) location.hash = routeOfQuery(wanted);
  };
  return h("form", { class: "lookup", onsubmit: submit },
    h("h1", {}, "Lookup"),
    h("label", { class: "soft", for: "lookup-field" },
      "An address, a coin (txid:vout), a transaction, or a block by height or hash"),
    h("div", { class: "lookup-row" }, input,
      h("button", { class: "button primary", type: "submit" }, "Find")));
}

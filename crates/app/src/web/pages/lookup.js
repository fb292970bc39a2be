// Finds whatever was typed, and goes there.

import * as api from "../api.js";
import { h, show } from "../dom.js";
import { count, hash, words } from "../format.js";
import { to } from "../links.js";
import { live } from "../live.js";
import { empty, waiting } from "../parts/notes.js";

const OUTPOINT = /^([0-9a-f]{64})[:#](\d{1,10})$/i;
const HEIGHT = /^\d[\d,' ]{0,12}$/;

// Where a query leads: at once when its form says what it is, else by asking.
export function routeOfQuery(query) {
  const coin = query.match(OUTPOINT);
  if (coin) return to.coin(`${coin[1].toLowerCase()}:${coin[2]}`);
  if (HEIGHT.test(query)) return to.block(query.replace(/\D/g, ""));
  return to.lookup(query);
}

// Where a match is shown, and its name in full.
function placeOf(found) {
  switch (found.kind) {
    case "address": return { href: to.address(found.address), name: found.address };
    case "block": return { href: to.block(found.hash), name: found.hash };
    case "transaction": return { href: to.tx(found.txid), name: found.txid };
    case "wallet": return { href: to.wallet(found.wallet), name: found.wallet };
    case "coin": return { href: to.coin(found.outpoint), name: found.outpoint };
    default: return null;
  }
}

export async function showLookup(place, { query }, context) {
  if (!query) {
    show(place, form(), hints());
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
  return empty("Nothing found", `No address, coin, transaction or block goes by “${query}”. `,
    "Coins that were spent long ago are forgotten once they are past the window.");
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

function hints() {
  const line = (block) => h("li", {},
    h("a", { class: "choice", href: to.block(block.hash) },
      h("span", { class: "choice-kind" }, count(block.height)), hash(block.hash, { keep: 14 })));
  const newest = live.blocks.slice(0, 6);
  if (newest.length === 0) return null;
  return h("section", { class: "panel" },
    h("h2", {}, "Newest blocks"), h("ul", { class: "choices" }, newest.map(line)));
}

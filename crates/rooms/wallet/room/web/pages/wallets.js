// Every wallet with its balance by class.

import * as api from "../api.js";
import { h, show } from "../../../dom.js";
import { amount, count } from "../../../format.js";
import { to } from "../../../routes.js";
import { isOn } from "../../../live.js";
import { bar, legend } from "../balance.js";
import { empty, waiting } from "../../../parts/notes.js";

const REFRESH_MS = 5000;

function card(wallet) {
  return h("article", { class: "panel wallet-card" },
    h("header", { class: "wallet-head" },
      h("h2", {}, h("a", { class: "plain", href: to("wallet", wallet.id) }, wallet.name)),
      h("p", { class: "figure small" }, amount(wallet.balance.total)),
      h("p", { class: "soft" }, wallet.tip ? `Scanned to ${count(wallet.tip.height)}`
        : "Not scanned yet")),
    bar(wallet.balance),
    legend(wallet.balance));
}

// The first pages of wallets, as many as somebody has asked for.
async function firstPages(pages) {
  let found = { items: [], next: null };
  for (let at = 0; at < pages && (at === 0 || found.next); at += 1) {
    const page = await api.wallets(found.next);
    found = { items: found.items.concat(page.items), next: page.next };
  }
  return found;
}

export async function showWallets(place, _args, context) {
  const list = h("div", { class: "stack" }, waiting(8));
  const more = h("button", { class: "button more", type: "button", hidden: true }, "Show more");
  show(place, h("header", { class: "head" }, h("h1", {}, "Wallets")), list, more);
  if (!isOn("wallet")) {
    show(list, empty("The wallet room is off", "Turn it on in its section of the configuration."));
    return;
  }
  let pages = 1;
  const draw = async () => {
    const { items, next } = await firstPages(pages);
    if (!context.isCurrent()) return;
    more.hidden = !next;
    show(list, items.length === 0
      ? empty("No wallets yet", "Create one with a POST to ", h("code", {}, "/api/v1/wallets"), ".")
      : items.map(card));
  };
  more.addEventListener("click", () => {
    pages += 1;
    draw().catch(() => {});
  });
  await draw();
  context.every(REFRESH_MS, () => draw().catch(() => {}));
}

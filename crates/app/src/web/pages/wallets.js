// Every wallet with its balance by class.

import * as api from "../api.js";
import { h, show } from "../dom.js";
import { amount, count } from "../format.js";
import { to } from "../links.js";
import { bar, legend } from "../parts/balance.js";
import { empty, waiting } from "../parts/notes.js";

const REFRESH_MS = 5000;

function card(wallet) {
  return h("article", { class: "panel wallet-card" },
    h("header", { class: "wallet-head" },
      h("h2", {}, h("a", { class: "plain", href: to.wallet(wallet.id) }, wallet.name)),
      h("p", { class: "figure small" }, amount(wallet.balance.total)),
      h("p", { class: "soft" }, wallet.tip ? `Scanned to ${count(wallet.tip.height)}`
        : "Not scanned yet")),
    bar(wallet.balance),
    legend(wallet.balance));
}

export async function showWallets(place, _args, context) {
  const list = h("div", { class: "stack" }, waiting(8));
  show(place, h("header", { class: "head" }, h("h1", {}, "Wallets")), list);
  const draw = async () => {
    const { items } = await api.wallets();
    if (!context.isCurrent()) return;
    show(list, items.length === 0
      ? empty("No wallet yet", "Make one with ", h("code", {}, "unspent wallet create"), ".")
      : items.map(card));
  };
  await draw();
  context.every(REFRESH_MS, () => draw().catch(() => {}));
}

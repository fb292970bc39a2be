// All wallets in short: what each holds, by class.

import { h, show } from "../dom.js";
import { amount } from "../format.js";
import { to } from "../links.js";
import * as api from "../api.js";
import { bar } from "../parts/balance.js";

const REFRESH_MS = 5000;
const SHOWN = 6;

function line(wallet) {
  return h("li", {},
    h("a", { class: "wallet-line", href: to.wallet(wallet.id) },
      h("span", { class: "wallet-name" }, wallet.name),
      amount(wallet.balance.total),
      bar(wallet.balance)));
}

export const walletTotals = {
  id: "wallets",
  title: "Wallets",
  size: "third",
  room: "wallet",
  make(body, context) {
    const draw = async () => {
      try {
        const { items } = await api.wallets();
        if (!context.isCurrent()) return;
        show(body, items.length === 0
          ? h("p", { class: "soft" }, "No wallet yet.")
          : h("ul", { class: "wallet-lines" }, items.slice(0, SHOWN).map(line)),
        items.length > SHOWN && h("p", {}, h("a", { href: "#/wallets" }, "All wallets")));
      } catch {
        // Asked again soon; what is shown stays.
      }
    };
    context.every(REFRESH_MS, draw);
    draw();
  },
};

// The wallet room: all wallets in short, what each holds by class.

import { h, show } from "../../dom.js";
import { amount } from "../../format.js";
import { to } from "../../routes.js";
import * as api from "./api.js";
import { bar } from "./balance.js";

const REFRESH_MS = 5000;
const SHOWN = 6;

function line(one) {
  return h("li", {},
    h("a", { class: "wallet-line", href: to("wallet", one.id) },
      h("span", { class: "wallet-name" }, one.name),
      amount(one.balance.total),
      bar(one.balance)));
}

const totals = {
  id: "wallets",
  title: "Wallets",
  size: "third",
  order: 90,
  room: "wallet",
  make(body, context) {
    const draw = async () => {
      try {
        const { items } = await api.wallets();
        if (!context.isCurrent()) return;
        show(body, items.length === 0
          ? h("p", { class: "soft" }, "No wallets yet.")
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

export const panels = [totals];

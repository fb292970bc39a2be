// The ecash room: what each account holds, and its payments by state.

import { h, setText, show } from "../../dom.js";
import { capital, count, plural, words } from "../../format.js";
import { live } from "../../live.js";
import { state } from "../../parts/state.js";

function account(one) {
  return h("li", { class: "wallet-line", "data-account": one.account },
    h("span", { class: "wallet-name" }, one.name),
    h("span", { class: "amount" }, `${count(BigInt(one.free))} ${one.unit}`),
    one.held !== "0" && h("span", { class: "soft" }, `${count(BigInt(one.held))} held`));
}

const balances = {
  id: "ecash",
  title: "Ecash",
  size: "third",
  order: 100,
  room: "ecash",
  make(body, context) {
    const note = h("p", { class: "panel-note" }, "\u00a0");
    const list = h("ul", { class: "wallet-lines" });
    const more = h("p", {}, h("a", { href: "#/ecash" }, "All payments"));
    show(body, note, list, more);
    const draw = () => {
      const now = live.status?.figures.ecash;
      if (!now) return;
      const unclear = now.unclear > 0 ? `, ${count(now.unclear)} unclear` : "";
      setText(note, `${plural(now.open, "payment")} under way${unclear}`);
      show(list, now.balances.length === 0
        ? h("li", { class: "soft" }, "No accounts yet.") : now.balances.map(account));
    };
    context.on("status", draw);
    draw();
  },
};

const states = {
  id: "ecash-states",
  title: "Payments by state",
  size: "third",
  order: 110,
  room: "ecash",
  make(body, context) {
    const list = h("dl", { class: "facts" });
    show(body, list);
    const line = ({ kind, state: name, count: many }) =>
      h("div", { "data-payments": `${kind} ${name}` },
        h("dt", {}, capital(words(kind.toLowerCase()))),
        h("dd", {}, state(name.toLowerCase()), ` ${count(many)}`));
    const draw = () => {
      const now = live.status?.figures.ecash;
      if (!now) return;
      show(list, now.payments.length === 0 ? h("div", {}, "No payments yet.")
        : now.payments.map(line));
    };
    context.on("status", draw);
    draw();
  },
};

export const panels = [balances, states];

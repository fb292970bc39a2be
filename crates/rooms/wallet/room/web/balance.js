// A balance by class: one bar whose pieces sum up, and a legend that names them.

import { h } from "../../dom.js";
import { amount, amountText, plural } from "../../format.js";

const CLASSES = {
  confirmed: "Confirmed",
  unconfirmed_own: "Own change, unconfirmed",
  unconfirmed_foreign: "Incoming, unconfirmed",
  immature: "Immature",
  leased: "Leased",
  frozen: "Frozen",
  pending: "Pending",
  dropped: "Dropped by the node",
};

// Shares of a thousand, so that floating point never meets an amount.
function share(part, total) {
  return total === 0n ? 0 : Number((part * 1000n) / total);
}

export function bar(balance) {
  const total = balance.classes.reduce((sum, part) => sum + BigInt(part.value), 0n);
  const pieces = balance.classes.filter((part) => BigInt(part.value) > 0n);
  const label = pieces.map((part) => `${CLASSES[part.name]} ${amountText(part.value)}`);
  return h("div", { class: "bar", role: "img", "aria-label": label.join(", ") || "empty" },
    pieces.map((part) => h("span", {
      class: "bar-piece",
      "data-class": part.name,
      title: `${CLASSES[part.name]}: ${amountText(part.value)}`,
      style: { "flex-grow": String(Math.max(share(BigInt(part.value), total), 6)) },
    })));
}

export function legend(balance) {
  return h("ul", { class: "legend" }, balance.classes.map((part) =>
    h("li", { "data-empty": part.value === "0" },
      h("span", { class: "swatch", "data-class": part.name, "aria-hidden": "true" }),
      h("span", { class: "legend-name" }, CLASSES[part.name]),
      h("span", { class: "legend-value" }, amount(part.value)),
      h("span", { class: "legend-coins" }, plural(part.coins, "coin")))));
}

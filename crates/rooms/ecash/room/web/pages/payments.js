// Ecash: accounts with what they hold, and all payments, newest first.

import * as api from "../api.js";
import { h, show } from "../../../dom.js";
import { capital, count, dateTime, hash, words } from "../../../format.js";
import { to } from "../../../routes.js";
import { isOn, live } from "../../../live.js";
import { panel } from "../../../parts/facts.js";
import { pagedTable, table } from "../../../parts/list.js";
import { empty } from "../../../parts/notes.js";
import { state } from "../../../parts/state.js";

const ACCOUNTS = [
  { title: "Account", cell: (one) => one.name },
  { title: "At", cell: (one) => h("span", { class: "breaks" }, one.mint ?? "Spark") },
  { title: "Free", class: "right", cell: (one) => units(one.free, one.unit) },
  { title: "Held", class: "right", cell: (one) => units(one.held, one.unit) },
];

export function units(amount, unit) {
  return amount === null ? "–" : `${count(BigInt(amount))} ${unit}`;
}

// Accounts with their money; what isn't known yet is left open.
function withMoney(accounts) {
  const money = new Map((live.status?.figures.ecash?.balances ?? [])
    .map((one) => [one.account, one]));
  return accounts.map((one) => ({
    ...one,
    free: money.get(one.id)?.free ?? null,
    held: money.get(one.id)?.held ?? null,
  }));
}

function columns(accounts) {
  const of = new Map(accounts.map((one) => [one.id, one]));
  return [
    { title: "When", cell: (one) => h("span", { class: "soft" }, dateTime(one.created)) },
    { title: "Payment", cell: (one) => hash(one.id, { href: to("payment", one.id), keep: 6 }) },
    { title: "What", cell: (one) => capital(words(one.kind)) },
    { title: "State", cell: (one) => [state(one.state), one.alarm && " (needs attention)"] },
    { title: "Account", cell: (one) => of.get(one.account)?.name ?? one.account },
    { title: "Amount", class: "right",
      cell: (one) => units(one.amount, of.get(one.account)?.unit ?? "") },
  ];
}

export async function showPayments(place, _args, context) {
  const top = h("div", {});
  const body = h("div", {});
  show(place, h("header", { class: "head" }, h("h1", {}, "Ecash")), top,
    h("section", { class: "panel" }, h("h2", {}, "Payments"), body));
  if (!isOn("ecash")) {
    show(place, empty("The ecash room is off", "Turn it on in its section of the configuration."));
    return;
  }
  const accounts = await api.accounts();
  if (!context.isCurrent()) return;
  const draw = () => show(top, panel("Accounts", accounts.length === 0
    ? empty("No accounts yet", "Open one with a POST to ",
      h("code", {}, "/api/v1/ecash/accounts"), ".")
    : table(ACCOUNTS, withMoney(accounts), "Accounts").element));
  context.on("status", draw);
  draw();
  await pagedTable(body, {
    columns: columns(accounts),
    load: (after) => api.payments(after),
    caption: "Payments, newest first",
    nothing: "No payments yet",
  });
}

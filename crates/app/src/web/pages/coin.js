// A coin: what it is now, and what happened to it.

import * as acts from "../acts.js";
import * as api from "../api.js";
import { h, show } from "../dom.js";
import { amount, capital, count, dateTime, hash, shortHash, words } from "../format.js";
import { to } from "../links.js";
import { actButton } from "../parts/dialog.js";
import { facts, head, panel } from "../parts/facts.js";
import { empty, waiting } from "../parts/notes.js";
import { state } from "../parts/state.js";
import { timelineDrawing, timelineList } from "../parts/timeline.js";
import { mayAct } from "../session.js";
import { statesOf } from "../timeline.js";

export async function showCoin(place, { outpoint }, context) {
  show(place, waiting(5));
  const timeline = await api.coinTimeline(outpoint);
  const isKept = timeline.steps.some((step) => step.block !== null);
  const coin = isKept ? await api.coinAt(outpoint).catch(() => null) : null;
  const hasRoots = coin !== null && await api.hasRoots();
  const [wallet] = timeline.wallets;
  const label = wallet === undefined ? null : await api.coinLabel(wallet, outpoint);
  if (!context.isCurrent()) return;
  context.title(`Coin ${shortHash(timeline.txid, 6)}:${timeline.vout}`);
  const title = timeline.value === null ? "A coin" : amount(timeline.value);
  show(place,
    head("Coin", title, timeline.outpoint, facts([...factsOf(timeline, coin, hasRoots),
      ["Label", label]])),
    buttons(timeline, label, () => showCoin(place, { outpoint }, context).catch(() => {})),
    coin && assets(coin),
    timelinePanel(timeline, context));
}

function factsOf(timeline, coin, hasRoots) {
  const walletLinks = timeline.wallets.map((name, at) =>
    [at > 0 && ", ", h("a", { href: to.wallet(name, "coins") }, name)]);
  return [
    ["State", state(timeline.state, capital(words(timeline.state)))],
    ["Owner", timeline.address && h("a", { class: "mono breaks",
      href: to.address(timeline.address) }, timeline.address)],
    ["Wallet", walletLinks.length ? h("span", {}, walletLinks) : null],
    ["Transaction", hash(timeline.txid, { href: to.tx(timeline.txid) })],
    ["Created in block", coin && coin.height !== null ? h("span", {},
      h("a", { href: to.block(coin.block ?? coin.height) }, count(coin.height)),
      coin.time && h("span", { class: "soft" }, ` · ${dateTime(coin.time)}`)) : null],
    ["Spent by", coin?.spentBy && hash(coin.spentBy, { href: to.tx(coin.spentBy) })],
    ["Coinbase", coin?.coinbase ? "yes" : null],
    ["Proof", hasRoots && h("a", { href: to.proof(timeline.outpoint) }, "The way to the root")],
  ];
}

const FREE = ["confirmed", "unconfirmed", "immature"];

function buttons(coin, label, after) {
  if (!mayAct() || coin.wallets.length === 0) return null;
  const [wallet] = coin.wallets;
  return h("p", { class: "acts" },
    coin.state === "frozen" && actButton("Unfreeze", () => acts.unfreezeCoin(wallet, coin), after),
    FREE.includes(coin.state) && actButton("Freeze", () => acts.freezeCoin(wallet, coin), after),
    actButton("Label", () => acts.setLabel(wallet, coin.outpoint, label), after));
}

function assets(coin) {
  if (!coin.assets?.length) return null;
  const line = (asset) => h("li", { class: "asset" },
    h("span", { class: "mono breaks" }, asset.unit), h("span", {}, count(BigInt(asset.quantity))));
  return panel("Assets", h("ul", {}, coin.assets.map(line)));
}

function timelinePanel(timeline, context) {
  const steps = statesOf(timeline);
  if (steps.length === 0) return panel("Timeline", empty("Nothing of it is kept"));
  const drawing = timelineDrawing(steps);
  context.atEnd(drawing.end);
  return panel("Timeline", drawing.element, timelineList(steps, timeline.txid));
}

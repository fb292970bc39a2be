// Events in plain words: what happened, and the thing it happened to.

import { h } from "../dom.js";
import { capital, count, hash, plural, words } from "../format.js";
import { to } from "../links.js";

const nameOf = (event) => event.body.txid ?? event.subject;
const txLink = (event) => hash(nameOf(event), { href: to.tx(nameOf(event)), keep: 6 });
const blockLink = (event) => hash(event.subject, { href: to.block(event.subject), keep: 6 });
const paymentLink = (event) => hash(event.subject,
  { href: to.payment(event.subject), keep: 6 });
const walletLink = (event) => event.wallet
  && [" in ", h("a", { href: to.wallet(event.wallet) }, event.wallet)];

function aboutTx(text) {
  return (event) => [text, " ", txLink(event), walletLink(event)];
}

// One teller for each kind of event. Kinds that aren't listed are told from their own words.
const TELLERS = {
  block_applied: (event) => [`Block ${count(event.body.height)} applied `, blockLink(event)],
  reorganisation: (event) => [
    h("strong", {}, `Reorganisation: ${plural(event.body.depth, "block")} left the chain`),
    event.body.to && [", back to ",
      h("a", { href: to.block(event.body.to.block_hash) }, count(event.body.to.height))]],
  catching_up: (event) => [`${plural(event.body.blocks, "block")} applied at once, up to `,
    h("a", { href: to.block(event.subject) }, count(event.body.height))],
  caught_up: (event) => [`The ${event.body.room} room has caught up`,
    event.body.height !== null && ` at ${count(event.body.height)}`],
  room_stopped: (event) => [h("strong", {}, `The ${event.body.room} room stopped`),
    event.body.reason && `: ${event.body.reason}`],
  room_resumed: (event) => [`The ${event.body.room} room goes on`],
  source_lost: (event) => ["The source went away", event.body.reason && `: ${event.body.reason}`],
  source_found: () => ["The source is back"],
  broadcast_accepted: aboutTx("The node took"),
  broadcast_rejected: (event) => ["The node refused ", txLink(event),
    event.body.reason && `: ${event.body.reason}`],
  job_done: (event) => [`${capital(words(event.body.job))} `,
    event.body.failed ? `failed: ${event.body.failed}` : `ran: ${event.body.outcome}`],
  created: aboutTx("Made"),
  relayed: aboutTx("Heard of"),
  mempool: aboutTx("In the mempool:"),
  broadcast: aboutTx("Sent"),
  confirmed: aboutTx("Confirmed"),
  disconnected: aboutTx("Lost its block:"),
  replaced: aboutTx("Replaced"),
  double_spent: aboutTx("Double-spent:"),
  parent_invalid: aboutTx("Fell with its parent:"),
  revived: aboutTx("Back to life:"),
  child_confirmed: aboutTx("Proved by its child:"),
  withdrawn: aboutTx("Taken back:"),
  evicted: aboutTx("Dropped from the mempool:"),
  forced_spend: aboutTx("Spent although leased, by"),
  pruned: aboutTx("Pruned"),
  transactions_applied: (event) => [
    `${plural(event.body.created, "transaction")} stored, ${plural(event.body.spent, "output")} `,
    "spent, up to ", h("a", { href: to.block(event.subject) }, count(event.body.height))],
  transactions_undone: (event) => [
    `${plural(event.body.unmined, "transaction")} of block ${count(event.body.height)} unmined`],
  transactions_deleted: (event) => [
    `${plural(event.body.count, "transaction")} deleted that nobody can need`],
  ecash_created: (event) => [`${capital(words(event.body.kind.toLowerCase()))} begun `,
    paymentLink(event)],
  ecash_moved: (event) => [
    `${capital(words(event.body.kind.toLowerCase()))} is ${event.body.to.toLowerCase()} `,
    paymentLink(event), event.body.note && `: ${event.body.note}`],
  losers_deleted: (event) => [`${plural(event.body.count, "transaction")} that lost deleted`],
  transactions_kept: (event) => ["Due, but kept: ",
    Object.entries(event.body.kept).map(([why, many]) => `${words(why)} ${many}`).join(", ")],
};

const LOUD = new Set(["reorganisation", "room_stopped", "source_lost", "broadcast_rejected",
  "double_spent", "forced_spend"]);

export function eventText(event) {
  const teller = TELLERS[event.kind];
  if (teller) return teller(event);
  return [capital(words(event.kind)), event.subject && [" ", hash(event.subject, { keep: 6 })],
    walletLink(event)];
}

export function isLoud(event) {
  return LOUD.has(event.kind);
}

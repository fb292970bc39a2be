// The wallet room's events in plain words, one for each cause of a change in a wallet.

import { h } from "../../dom.js";
import { hash } from "../../format.js";
import { to } from "../../routes.js";

const nameOf = (event) => event.body.txid ?? event.subject;
const txLink = (event) => hash(nameOf(event), { href: to("tx", nameOf(event)), keep: 6 });
const walletLink = ({ tenant }) => tenant
  && [" in ", h("a", { href: to("wallet", tenant) }, tenant)];

function aboutTx(text) {
  return (event) => [text, " ", txLink(event), walletLink(event)];
}

export const events = {
  broadcast_accepted: aboutTx("The node accepted"),
  broadcast_rejected: (event) => ["The node rejected ", txLink(event),
    event.body.reason && `: ${event.body.reason}`],
  created: aboutTx("Created"),
  relayed: aboutTx("Seen:"),
  mempool: aboutTx("In the mempool:"),
  broadcast: aboutTx("Sent"),
  confirmed: aboutTx("Confirmed"),
  disconnected: aboutTx("Lost its block:"),
  replaced: aboutTx("Replaced"),
  double_spent: aboutTx("Double-spent:"),
  parent_invalid: aboutTx("Failed with its parent:"),
  revived: aboutTx("Revived:"),
  child_confirmed: aboutTx("Proven by its child:"),
  withdrawn: aboutTx("Withdrawn:"),
  evicted: aboutTx("Dropped from the mempool:"),
  forced_spend: aboutTx("Spent although leased, by"),
  pruned: aboutTx("Pruned"),
};

export const loud = ["broadcast_rejected", "double_spent", "forced_spend"];

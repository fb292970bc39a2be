// What somebody who logged in may do with a wallet: each act in the words of the dialog that
// confirms it, and the request that does it.

import { transaction } from "../../api.js";
import { h } from "../../dom.js";
import { piece } from "../../fields.js";
import { amount, amountText, baseUnits, dateTime, plural, shortHash, unitName }
  from "../../format.js";
import { keyed, send } from "../../http.js";
import { facts, fullName } from "../../parts/facts.js";
import { qrCode } from "../../parts/qr.js";
import * as api from "./api.js";

const of = (wallet) => `/wallets/${piece(wallet)}`;

// ---- coins

export function freezeCoin(wallet, coin) {
  return {
    title: "Freeze this coin",
    says: [`No payment from ${wallet} uses ${shortHash(coin.txid)}:${coin.vout} `
      + `(${amountText(coin.value)}) until it is unfrozen. Anyone who has the keys can still spend `
      + "it elsewhere."],
    button: "Freeze",
    run: async () => {
      await send("POST", `${of(wallet)}/freeze`, { outpoints: [coin.outpoint] });
      return null;
    },
  };
}

export function unfreezeCoin(wallet, coin) {
  return {
    title: "Unfreeze this coin",
    says: [`Payments from ${wallet} may use ${shortHash(coin.txid)}:${coin.vout} `
      + `(${amountText(coin.value)}) again.`],
    button: "Unfreeze",
    run: async () => {
      await send("POST", `${of(wallet)}/unfreeze`, { outpoints: [coin.outpoint] });
      return null;
    },
  };
}

export function releaseLease(wallet, lease) {
  const post = keyed();
  return {
    title: "Release this lease",
    says: [`${shortHash(lease.txid)}:${lease.vout} (${amountText(lease.value)}) is held until `
      + `${dateTime(lease.until)}. After this, any payment from ${wallet} may use it.`,
    "A payment that was built with it but not yet sent can then no longer be completed."],
    button: "Release",
    run: async () => {
      const body = { outpoints: [lease.outpoint], lock: lease.lock };
      await post(`${of(wallet)}/leases/release`, body);
      return null;
    },
  };
}

// `what`: a transaction, a coin or an address, by its name.
export function setLabel(wallet, what, label) {
  return {
    title: "Label",
    says: [`The name that ${wallet} has for ${shortHash(what, 12)}. Leave it empty to remove it. `
      + "Only this wallet knows it."],
    fields: [{ name: "label", label: "Label", value: label ?? "", required: false,
      maxlength: "500" }],
    button: "Save",
    run: async ({ label: text }) => {
      await send("PUT", `${of(wallet)}/labels`, { ref: what, label: text.trim() });
      return null;
    },
  };
}

export function newAddress(wallet) {
  return {
    title: "New address",
    says: [`${wallet} hands out its next receiving address, and never hands it out again. Give `
      + "each payer a different one."],
    button: "Get an address",
    run: async () => {
      const { address } = await send("POST", `${of(wallet)}/addresses`, {});
      const qr = await api.qrOf(wallet, address);
      return { result: [h("h2", {}, "New address"),
        qr && qrCode(qr, "The address as a QR code"), fullName(address)] };
    },
  };
}

// ---- payments

const RATE = {
  name: "rate", label: "Fee rate in sat/vB", inputmode: "decimal", value: "2",
  pattern: "[0-9]{1,6}(\\.[0-9]{1,2})?", title: "A number with up to two decimals after a point",
};

// What was built: coins are held, nothing is signed, nothing is sent.
function built(wallet, unsigned) {
  return { result: [
    h("h2", {}, "Built, not signed"),
    h("p", {}, `Sign this PSBT where the keys are, then submit it with “finalize” and the lock. `
      + `Its coins are held until ${dateTime(Date.parse(unsigned.expires_at))}.`),
    facts([
      ["Fee", amount(unsigned.fee)],
      ["Change", unsigned.change === null ? "none" : amount(unsigned.change)],
      ["Coins", plural(unsigned.coins.length, "coin")],
      ["Wallet", wallet],
    ]),
    h("p", { class: "soft" }, "PSBT"), fullName(unsigned.psbt),
    h("p", { class: "soft" }, "Lock"), fullName(unsigned.lock),
  ] };
}

export function pay(wallet) {
  return {
    title: `Pay from ${wallet}`,
    says: ["First you see what it would cost. Nothing is held, signed or sent yet."],
    fields: [
      { name: "address", label: "To address", maxlength: "200" },
      { name: "value", label: `Amount in ${unitName()}`, inputmode: "decimal",
        hint: "Or “all”: everything the wallet can spend, less the fee." },
      RATE,
    ],
    button: "Preview",
    run: async ({ address, value, rate }) => {
      const all = value.trim().toLowerCase() === "all";
      const base = all ? "all" : baseUnits(value);
      const body = {
        outputs: [{ address: address.trim(), value: base }],
        policy: { fee_rate: Number(rate) },
      };
      const look = await keyed()(`${of(wallet)}/pay`, { ...body, dry_run: true });
      return { next: confirmPayment(wallet, body, look) };
    },
  };
}

function confirmPayment(wallet, body, look) {
  const post = keyed();
  const [{ address, value }] = body.outputs;
  const what = value === "all" ? "all that is left" : amountText(value);
  const change = look.change === null ? "no change" : `${amountText(look.change)} of change`;
  return {
    title: "Build this payment",
    says: [
      `${what} to ${address}, for a fee of ${amountText(look.fee)}, out of `
        + `${plural(look.coins.length, "coin")} of ${wallet}, with ${change}.`,
      "The coins are held for it, and you get a PSBT to sign elsewhere. Nothing is sent.",
    ],
    button: "Build it",
    run: async () => built(wallet, await post(`${of(wallet)}/pay`, body)),
  };
}

// Who holds the coins that a transaction spends, where they are held: a replacement takes over.
async function holderOf(wallet, txid) {
  const [{ inputs }, { items }] = await Promise.all(
    [transaction(txid), api.walletList(wallet, "leases")]);
  const spent = new Set((inputs ?? []).map((input) => input.outpoint));
  return items.find((lease) => spent.has(lease.outpoint))?.lock ?? null;
}

export function bump(wallet, tx) {
  const now = tx.rate === null ? "" : ` It pays ${tx.rate} sat/vB now.`;
  return {
    title: "Pay more for this transaction",
    says: [`A replacement spends the same coins at a higher rate.${now}`,
      "First you see what it would cost. Nothing is held, signed or sent yet."],
    fields: [{ ...RATE, label: "New fee rate in sat/vB",
      value: tx.rate === null ? "10" : String(Math.ceil(Number(tx.rate)) + 1) }],
    button: "Preview",
    run: async ({ rate }) => {
      const lock = await holderOf(wallet, tx.txid);
      const lease = lock === null ? {} : { lease: { lock } };
      const body = { txid: tx.txid, policy: { fee_rate: Number(rate) }, ...lease };
      const look = await keyed()(`${of(wallet)}/bump`, { ...body, dry_run: true });
      return { next: confirmBump(wallet, tx, body, look) };
    },
  };
}

function confirmBump(wallet, tx, body, look) {
  const post = keyed();
  const more = tx.fee === null ? ""
    : `, ${amountText(String(BigInt(look.fee) - BigInt(tx.fee)))} more than now`;
  const change = look.change === null ? "no change" : `${amountText(look.change)} of change`;
  return {
    title: "Build this replacement",
    says: [
      `It pays a fee of ${amountText(look.fee)}${more}, out of `
        + `${plural(look.coins.length, "coin")} of ${wallet}, with ${change}.`,
      "The coins are held for it, and you get a PSBT to sign elsewhere. Until that is sent, the "
        + "first transaction stands.",
    ],
    button: "Build it",
    run: async () => built(wallet, await post(`${of(wallet)}/bump`, body)),
  };
}

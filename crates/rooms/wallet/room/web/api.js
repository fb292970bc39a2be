// The wallet room's calls of the API: wallets with their balances and lists.

import { millis, outpoint, PAGE, piece, text } from "../../fields.js";
import { get } from "../../http.js";

const WALLETS_PAGE = 20;

function balance(value) {
  const part = (name) => ({
    name, value: text(value?.[name]?.value ?? 0), coins: value?.[name]?.coins ?? 0,
  });
  const names = [
    "confirmed", "unconfirmed_own", "unconfirmed_foreign", "immature", "leased", "frozen",
    "pending", "dropped",
  ];
  return {
    classes: names.map(part),
    leaving: part("leaving"),
    total: text(value?.value ?? 0),
  };
}

function wallet(value, balanceValue) {
  return {
    id: value.name,
    name: value.name,
    birthday: value.birthday ?? null,
    tip: value.scanned_height === null ? null
      : { height: value.scanned_height, hash: value.scanned_block_hash },
    balance: balance(balanceValue),
  };
}

// A page of wallets, each with its balance.
export async function wallets(after = null) {
  const value = await get("/wallets", { limit: WALLETS_PAGE, after });
  const balances = await Promise.all(value.wallets.map((one) =>
    get(`/wallets/${piece(one.name)}/balance`)));
  return {
    items: value.wallets.map((one, at) => wallet(one, balances[at])),
    next: value.next ?? null,
  };
}

export async function walletBy(name) {
  const value = await get(`/wallets/${piece(name)}`);
  return wallet(value, value.balance);
}

function walletTx(value) {
  return {
    txid: value.txid,
    status: value.status,
    height: value.height ?? null,
    blockTime: millis(value.block_time),
    received: millis(value.received_at),
    own: Boolean(value.own),
    fee: text(value.fee),
    net: text(value.net),
    label: value.label ?? null,
    evictedAt: millis(value.evicted_at),
  };
}

function walletCoin(value) {
  return {
    ...outpoint(value),
    value: text(value.value),
    address: value.address ?? null,
    height: value.height ?? null,
    state: value.state,
    frozen: Boolean(value.frozen),
    label: value.label ?? null,
    lock: value.lock ?? null,
  };
}

function lease(value) {
  return {
    ...outpoint(value),
    value: text(value.value),
    lock: value.lock,
    until: millis(value.expires_at),
    spent: Boolean(value.spent),
  };
}

function walletAddress(value) {
  return {
    address: value.address,
    purpose: value.purpose,
    index: value.index,
    used: Boolean(value.used),
    account: value.account ?? null,
    label: value.label ?? null,
  };
}

function journalLine(value) {
  return {
    number: value.number,
    at: millis(value.at),
    cause: value.cause,
    txid: value.txid,
    from: value.from ?? null,
    to: value.to ?? null,
    height: value.height ?? null,
  };
}

// Each list of a wallet: its last path piece, the field of its items, and how one is read.
const WALLET_LISTS = {
  transactions: ["txs", "txs", walletTx],
  coins: ["coins", "coins", walletCoin],
  leases: ["leases", "leases", lease],
  addresses: ["addresses", "addresses", walletAddress],
  journal: ["journal", "lines", journalLine],
};

export async function walletList(name, list, after = null) {
  const [path, field, read] = WALLET_LISTS[list];
  // What happened last is what people look for.
  const order = list === "journal" ? { newest_first: true } : {};
  const value = await get(`/wallets/${piece(name)}/${path}`, { after, limit: PAGE, ...order });
  return { items: value[field].map(read), next: value.next ?? null };
}

// What a wallet calls a coin: the coin's own label, or else that of its address.
export async function coinLabel(name, coin) {
  const value = await get(`/wallets/${piece(name)}/coins/${piece(coin)}`);
  return value.label ?? null;
}

// The QR code of an address; null of one that the wallet doesn’t own.
export async function qrOf(name, address) {
  const value = await get(`/wallets/${piece(name)}/addresses/${piece(address)}`);
  return value.qr ?? null;
}

// The unconfirmed transactions of a wallet, with what they pay to miners.
export async function mempool(name) {
  const value = await get(`/wallets/${piece(name)}/mempool`, { limit: PAGE });
  return value.txs.map((tx) => ({
    ...walletTx(tx), wallet: name, vsize: tx.vsize, rate: tx.fee_rate ?? null,
  }));
}

// The only module that knows the fields of the API. Pages see the plain values made here:
// times in milliseconds, amounts as decimal strings of base units, absent things as null.

import { get } from "./http.js";

export const PAGE = 50;
const WALLETS_PAGE = 20;
const MAX_OUTPUTS = 50;

const piece = encodeURIComponent;
const millis = (micros) => (micros === null || micros === undefined ? null : micros / 1000);
const seconds = (value) => (value === null || value === undefined ? null : value * 1000);
const text = (value) => (value === null || value === undefined ? null : String(value));

function point(value) {
  return value ? { height: value.height, hash: value.hash } : null;
}

function room(value) {
  return {
    name: value.room,
    state: value.state,
    reason: value.reason ?? null,
    remedy: value.remedy ?? null,
    tip: point(value.tip),
    lag: value.lag ?? null,
    rate: value.blocks_per_second ?? 0,
    reorgs: value.reorgs ?? 0,
    lastReorg: value.last_reorg && {
      depth: value.last_reorg.depth,
      from: point(value.last_reorg.from),
      to: point(value.last_reorg.to),
      at: millis(value.last_reorg.at),
    },
  };
}

function job(value) {
  return {
    name: value.job,
    every: seconds(value.every_seconds),
    lastRun: millis(value.last_run),
    outcome: value.last_outcome ?? null,
    runs: value.runs ?? 0,
    running: Boolean(value.running),
  };
}

export async function status() {
  const value = await get("/status");
  const source = value.source ?? {};
  return {
    network: value.network,
    family: String(value.network).startsWith("cardano") ? "cardano" : "bitcoin",
    version: value.version ?? null,
    startedAt: millis(value.started_at),
    source: {
      name: source.name ?? "",
      connected: Boolean(source.connected),
      tip: point(source.tip),
      error: source.error ?? null,
    },
    rooms: (value.rooms ?? []).map(room),
    jobs: (value.jobs ?? []).map(job),
    coins: value.chain?.utxos ?? null,
    value: text(value.chain?.lovelace_amount),
    storage: storage(value),
    lastEvent: value.events?.last ?? 0,
  };
}

// Bytes by room; a room that is off takes none. A new room adds a line here and in `sample`.
function storage(value) {
  const sum = (parts) => (parts ?? []).reduce((all, part) => all + part.bytes, 0);
  const rooms = [
    { name: "chain", bytes: value.chain && sum(value.chain.sizes) },
    { name: "wallet", bytes: value.wallet && sum(value.wallet.tables) },
  ];
  return rooms.filter((part) => part.bytes !== null && part.bytes !== undefined);
}

function sample(value) {
  const storage = { chain: value.chain_bytes ?? 0, wallet: value.wallet_bytes ?? 0 };
  return { at: millis(value.at), coins: value.utxos ?? null, storage };
}

// Samples that the server took before this page was opened, oldest first.
export async function samples() {
  const value = await get("/history");
  return value.samples.map(sample);
}

function block(value) {
  return {
    height: value.height,
    hash: value.hash,
    time: seconds(value.time),
    confirmations: value.confirmations ?? null,
    created: value.created ?? null,
    spent: value.spent ?? null,
  };
}

export async function blocks(limit) {
  const value = await get("/blocks", { limit });
  return value.blocks.map(block);
}

export async function blockBy(name) {
  return block(await get(`/blocks/${piece(name)}`));
}

// What the block at a height did to the coin set.
export async function blockDelta(height) {
  const value = await get(`/deltas/${piece(height)}`);
  const coin = (item) => ({
    txid: item.tx_hash,
    index: item.output_index,
    amount: text(item.utxo?.lovelace_amount),
    by: item.spent_tx_hash ?? null,
  });
  return {
    created: value.deltas.flatMap((delta) => delta.created.map(coin)),
    spent: value.deltas.flatMap((delta) => delta.spent.map(coin)),
  };
}

function event(value) {
  return {
    id: value.id,
    at: millis(value.at),
    room: value.room,
    kind: value.kind,
    wallet: value.wallet ?? null,
    subject: value.subject ?? null,
    body: value.body ?? {},
  };
}

export { event as readEvent };

export async function events(after, limit) {
  const value = await get("/events", { after, limit });
  return { items: value.events.map(event), firstKept: value.first_kept, last: value.last };
}

function coin(value) {
  return {
    txid: value.tx_hash,
    index: value.output_index,
    amount: text(value.lovelace_amount),
    address: value.owner_addr ?? null,
    height: value.block ?? null,
    block: value.block_hash ?? null,
    time: seconds(value.block_time),
    coinbase: Boolean(value.is_coinbase),
    state: value.state ?? "unspent",
    spentBy: value.spent_tx_hash ?? null,
    spentHeight: value.spent_at_block ?? null,
    spentTime: seconds(value.spent_block_time),
    assets: (value.amounts ?? []).slice(1).map((item) => ({
      unit: item.unit, quantity: item.quantity,
    })),
  };
}

export async function addressBalance(address) {
  const value = await get(`/addresses/${piece(address)}/balance`);
  return { amount: text(value.lovelace_amount), coins: value.utxos, at: point(value.at) };
}

export async function addressCoins(address, after = null) {
  const path = `/addresses/${piece(address)}/utxos`;
  const value = await get(path, { after, limit: PAGE, order: "desc" });
  return { items: value.utxos.map(coin), next: value.next ?? null };
}

export async function coinAt(txid, index) {
  return coin(await get(`/utxos/${piece(txid)}/${piece(index)}`));
}

export async function coinLife(txid, index) {
  const value = await get(`/coins/${piece(txid)}/${piece(index)}/life`);
  const step = (one) => ({
    kind: one.kind,
    room: one.room,
    at: millis(one.at),
    height: one.height ?? null,
    block: one.block_hash ?? null,
    txid: one.txid ?? null,
    other: one.other ?? null,
    wallet: one.wallet ?? null,
    until: millis(one.until),
    to: one.to ?? null,
  });
  return {
    txid,
    index: Number(index),
    address: value.address ?? null,
    amount: text(value.amount),
    state: value.state,
    wallets: value.wallets ?? [],
    steps: value.events.map(step),
  };
}

// What a query may mean: { kind, and the names of what was found }.
export async function search(query) {
  const value = await get("/search", { q: query });
  return value.matches.map((found) => ({
    kind: found.kind,
    height: found.height ?? null,
    hash: found.hash ?? null,
    txid: found.txid ?? found.tx_hash ?? null,
    index: found.output_index ?? null,
    address: found.address ?? null,
    wallet: found.name ?? null,
    wallets: found.wallets ?? [],
    coins: found.coins ?? [],
  }));
}

function balance(value) {
  const part = (name) => ({
    name, amount: text(value?.[name]?.sats ?? 0), coins: value?.[name]?.coins ?? 0,
  });
  const names = [
    "confirmed", "unconfirmed_own", "unconfirmed_foreign", "immature", "leased", "pending",
  ];
  return {
    classes: names.map(part),
    leaving: part("leaving"),
    total: text(value?.total_sats ?? 0),
  };
}

function wallet(value, balanceValue) {
  return {
    id: value.name,
    name: value.name,
    birthday: value.birthday ?? null,
    tip: value.scanned_height === null ? null
      : { height: value.scanned_height, hash: value.scanned_hash },
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

function outpoint(name) {
  const [txid, index] = String(name).split(":");
  return { txid, index: Number(index) };
}

function walletTx(value) {
  return {
    txid: value.txid,
    status: value.status,
    height: value.height ?? null,
    received: millis(value.received),
    coinbase: Boolean(value.coinbase),
    own: Boolean(value.own),
    fee: text(value.fee),
    credit: text(value.credit),
    debit: text(value.debit),
    net: text(value.net),
    label: value.label ?? null,
    evictedAt: millis(value.evicted_at),
  };
}

function walletCoin(value) {
  return {
    ...outpoint(value.coin),
    amount: text(value.sats),
    address: value.address ?? null,
    height: value.height ?? null,
    state: value.state,
    own: Boolean(value.own),
    spentBy: value.spent_by ?? null,
    lock: value.lock ?? null,
  };
}

function lease(value) {
  return {
    ...outpoint(value.coin),
    amount: text(value.sats),
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
  };
}

function journalLine(value) {
  return {
    number: value.number,
    at: millis(value.at),
    cause: value.cause,
    txid: value.txid,
    coin: value.coin ? outpoint(value.coin) : null,
    from: value.from ?? null,
    to: value.to ?? null,
    other: value.other ?? null,
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
  const value = await get(`/wallets/${piece(name)}/${path}`, { after, limit: PAGE });
  return { items: value[field].map(read), next: value.next ?? null };
}

export async function walletTransaction(name, txid) {
  const value = await get(`/wallets/${piece(name)}/txs/${piece(txid)}`);
  const edge = (item) => ({ txid: item.txid, cause: item.cause });
  return {
    ...walletTx(value),
    wallet: name,
    inputs: value.inputs.map((item) => ({ ...outpoint(item.coin), amount: text(item.sats) })),
    outputs: value.outputs.map((item) => ({
      index: item.index, amount: text(item.sats), address: item.address, ours: item.ours,
    })),
    replacedBy: value.replaced_by.map(edge),
    replaces: value.replaces.map(edge),
  };
}

// A transaction as a wallet sees it, or else the outputs that the chain room still has.
export async function transaction(txid) {
  const match = (await search(txid)).find((found) => found.kind === "transaction");
  if (match?.wallets.length) return walletTransaction(match.wallets[0], txid);
  const indexes = (match?.coins ?? []).slice(0, MAX_OUTPUTS);
  const coins = await Promise.all(indexes.map((index) => coinAt(txid, index)));
  return {
    txid,
    status: null,
    height: coins[0]?.height ?? null,
    received: null,
    coinbase: coins[0]?.coinbase ?? false,
    fee: null,
    net: null,
    label: null,
    evictedAt: null,
    wallet: null,
    inputs: [],
    outputs: coins.map((coin) => ({ ...coin, ours: false })),
    replacedBy: [],
    replaces: [],
  };
}

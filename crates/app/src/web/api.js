// The only module that knows the fields of the API. Pages see the plain values made here:
// times in milliseconds, values as decimal strings of base units, absent things as null.

import { get } from "./http.js";

export const PAGE = 50;
const WALLETS_PAGE = 20;

const piece = encodeURIComponent;
const millis = (time) => (time === null || time === undefined ? null : Date.parse(time));
const text = (value) => (value === null || value === undefined ? null : String(value));

// The name of a coin, in one piece and in two.
function outpoint(value) {
  return { outpoint: value.outpoint, txid: value.txid, vout: value.vout };
}

function point(value) {
  return value ? { height: value.height, hash: value.block_hash } : null;
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
    every: (value.every_seconds ?? 0) * 1000,
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
    value: text(value.chain?.value),
    storage: storage(value),
    transactions: transactions(value.txstore),
    ecash: ecash(value.ecash),
    lastEvent: value.events?.last ?? 0,
  };
}

// Bytes by room, from whatever each room lists with `bytes`; a room that is off takes none.
function storage(value) {
  const lists = (figures) => Object.values(figures).filter(Array.isArray).flat();
  const sum = (figures) => lists(figures).reduce((all, part) => all + (part.bytes ?? 0), 0);
  const rooms = (value.rooms ?? []).map((one) => one.room).filter((name) => value[name]);
  return rooms.map((name) => ({ name, bytes: sum(value[name]) }));
}

// The transaction store: what is there, and what waits to be deleted, by what it waits for.
function transactions(value) {
  if (!value) return null;
  const waiting = value.backlog ?? {};
  return {
    records: value.records ?? 0,
    unmined: value.unmined ?? 0,
    deleted: (value.deleted ?? 0) + (value.losers_deleted ?? 0),
    waiting: [
      ["due", waiting.due ?? 0],
      ["later", waiting.later ?? 0],
      ["child_unmined", waiting.child_unmined ?? 0],
      ["child_unknown", waiting.child_unknown ?? 0],
    ],
    kept: Object.entries(value.kept ?? {}),
  };
}

// The ecash room: money by account, payments by state.
function ecash(value) {
  if (!value) return null;
  const balance = (one) => ({
    account: one.account, name: one.name, unit: one.unit,
    free: text(one.unspent), held: text(one.reserved),
  });
  return {
    balances: (value.balances ?? []).map(balance),
    payments: value.payments ?? [],
    open: value.open_payments ?? 0,
    unclear: value.unclear_payments ?? 0,
  };
}

function sample(value) {
  const sizes = Object.entries(value).filter(([name]) => name.endsWith("_bytes"));
  const storage = Object.fromEntries(sizes.map(([name, bytes]) =>
    [name.slice(0, -"_bytes".length), bytes ?? 0]));
  return {
    at: millis(value.at),
    coins: value.utxos ?? null,
    records: value.transactions ?? null,
    storage,
  };
}

// Samples that the server took before this page was opened, oldest first.
export async function samples() {
  const value = await get("/history");
  return value.samples.map(sample);
}

function block(value) {
  return {
    height: value.height,
    hash: value.block_hash,
    time: millis(value.time),
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

// A block with what it created and spent; what is no longer kept is null.
export async function blockDetail(name) {
  const value = await get(`/blocks/${piece(name)}/detail`);
  const coin = (item) => ({
    ...outpoint(item),
    value: text(item.value),
    address: item.address ?? null,
    by: item.spent_by ?? null,
  });
  const side = (found) => found && {
    coins: found.coins, value: text(found.value), first: found.first.map(coin),
  };
  return {
    ...block(value),
    createdCoins: side(value.created_coins),
    spentCoins: side(value.spent_coins),
    size: value.size ?? null,
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
    ...outpoint(value),
    value: text(value.value),
    address: value.address ?? null,
    height: value.height ?? null,
    block: value.block_hash ?? null,
    time: millis(value.block_time),
    coinbase: Boolean(value.coinbase),
    state: value.state ?? "unspent",
    spentBy: value.spent_by ?? null,
    spentHeight: value.spent_height ?? null,
    spentTime: millis(value.spent_block_time),
    assets: (value.amounts ?? []).slice(1).map((item) => ({
      unit: item.unit, quantity: item.quantity,
    })),
  };
}

export async function addressBalance(address) {
  const value = await get(`/addresses/${piece(address)}/balance`);
  return { value: text(value.value), coins: value.utxos, at: point(value.at) };
}

export async function addressCoins(address, after = null) {
  const path = `/addresses/${piece(address)}/utxos`;
  const value = await get(path, { after, limit: PAGE, order: "desc" });
  return { items: value.utxos.map(coin), next: value.next ?? null };
}

export async function coinAt(name) {
  return coin(await get(`/utxos/${piece(name)}`));
}

// Whether the chain room keeps a root for every block.
export async function hasRoots() {
  const { chain } = await get("/status");
  return Boolean(chain?.root);
}

export async function proofOf(name) {
  const [txid, vout] = name.split(/[:#]/);
  const value = await get(`/proofs/${piece(txid)}/${piece(vout)}`);
  const [coin] = value.proof.coins;
  return {
    outpoint: value.coins[0].outpoint,
    txid: coin.txid,
    vout: coin.vout,
    state: value.coins[0].state,
    root: value.root,
    block: point(value.block),
    leaf: coin.leaf,
    leaves: value.leaves,
    live: value.live,
    bytes: value.bytes,
    nodes: value.proof.output_nodes.length + value.proof.live_nodes.length,
  };
}

export async function coinTimeline(name) {
  const value = await get(`/coins/${piece(name)}/timeline`);
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
    ...outpoint(value),
    address: value.address ?? null,
    value: text(value.value),
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
    hash: found.block_hash ?? null,
    txid: found.txid ?? null,
    outpoint: found.outpoint ?? null,
    address: found.address ?? null,
    wallet: found.wallet ?? null,
    wallets: found.wallets ?? [],
    outpoints: found.outpoints ?? [],
  }));
}

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
    ...outpoint(value),
    value: text(value.value),
    address: value.address ?? null,
    height: value.height ?? null,
    state: value.state,
    own: Boolean(value.own),
    frozen: Boolean(value.frozen),
    label: value.label ?? null,
    spentBy: value.spent_by ?? null,
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
    outpoint: value.outpoint ?? null,
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

// Whether an address is a wallet's, its label and its QR code.
export async function addressOf(name, address) {
  const value = await get(`/wallets/${piece(name)}/addresses/${piece(address)}`);
  return { mine: value.mine, label: value.label ?? null, qr: value.qr ?? null };
}

// The unconfirmed transactions of a wallet, with what they pay to miners.
export async function mempool(name) {
  const value = await get(`/wallets/${piece(name)}/mempool`, { limit: PAGE });
  return value.txs.map((tx) => ({
    ...walletTx(tx), wallet: name, vsize: tx.vsize, rate: tx.fee_rate ?? null,
  }));
}

// A transaction as all rooms know it; what isn't known is null.
export async function transaction(txid) {
  const value = await get(`/txs/${piece(txid)}`);
  const end = (item) => ({
    ...outpoint(item),
    value: text(item.value),
    address: item.address ?? null,
    wallets: item.wallets,
    state: item.state ?? null,
    spentBy: item.spent_by ?? null,
  });
  const rival = (item) => ({ txid: item.txid, cause: item.cause, at: millis(item.at) });
  return {
    txid: value.txid,
    state: value.state ?? null,
    height: value.height ?? null,
    block: value.block_hash ?? null,
    blockTime: millis(value.block_time),
    coinbase: Boolean(value.coinbase),
    fee: text(value.fee),
    rate: value.fee_rate ?? null,
    size: value.size ?? null,
    inputs: value.inputs?.map(end) ?? null,
    outputs: value.outputs.map(end),
    wallets: value.wallets.map((one) => ({
      wallet: one.wallet,
      net: text(one.net),
      status: one.status,
      received: millis(one.received_at),
      own: one.own,
      label: one.label ?? null,
      evictedAt: millis(one.evicted_at),
    })),
    replaces: value.replaces.map(rival),
    replacedBy: value.replaced_by.map(rival),
    raw: value.raw ?? null,
  };
}

// ---- ecash

function payment(value) {
  return {
    id: value.id,
    kind: value.kind.toLowerCase(),
    state: value.state.toLowerCase(),
    transaction: value.transaction_state.toLowerCase(),
    account: value.account,
    amount: text(value.amount),
    invoice: value.invoice ?? null,
    preimage: value.preimage ?? null,
    alarm: Boolean(value.alarm),
    created: millis(value.created_at),
    expires: millis(value.expires_at),
  };
}

export async function ecashAccounts() {
  const value = await get("/ecash/accounts");
  return value.accounts.map(({ id, name, mint, unit }) => ({ id, name, mint: mint ?? null, unit }));
}

export async function payments(after = null) {
  const value = await get("/ecash/payments", { after, limit: PAGE });
  return { items: value.payments.map(payment), next: value.next ?? null };
}

// A payment with the steps that it took.
export async function paymentBy(id) {
  const value = await get(`/ecash/payments/${piece(id)}`);
  const step = (line) => ({
    kind: line.event.toLowerCase(),
    state: line.to.toLowerCase(),
    at: millis(line.at),
    note: line.note ?? null,
    height: null,
  });
  return { ...payment(value), steps: value.journal.map(step) };
}

// The token of a send, and its picture. It is money: the server asks for the scope `wallet`.
export async function tokenOf(id) {
  return get(`/ecash/payments/${piece(id)}/token`);
}

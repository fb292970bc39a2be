// The chain room's calls of the API: blocks, coins, addresses, proofs.

import { millis, outpoint, PAGE, piece, point, text } from "../../fields.js";
import { get } from "../../http.js";

export function figures(value) {
  return { coins: value.utxos ?? null };
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

function coin(value) {
  return {
    ...outpoint(value),
    value: text(value.value),
    height: value.height ?? null,
    block: value.block_hash ?? null,
    time: millis(value.block_time),
    coinbase: Boolean(value.coinbase),
    spentBy: value.spent_by ?? null,
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

// Whether the room keeps a root for every block.
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

// How fields of the API are read, the same for all rooms: times in milliseconds, values as decimal
// strings of base units, absent things as null.

// Items of a page of a list.
export const PAGE = 50;

export const piece = encodeURIComponent;

export function millis(time) {
  return time === null || time === undefined ? null : Date.parse(time);
}

export function text(value) {
  return value === null || value === undefined ? null : String(value);
}

// The name of a coin, in one piece and in two.
export function outpoint(value) {
  return { outpoint: value.outpoint, txid: value.txid, vout: value.vout };
}

export function point(value) {
  return value ? { height: value.height, hash: value.block_hash } : null;
}

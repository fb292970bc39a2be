// Where each kind of thing is shown.

const piece = encodeURIComponent;

export const to = {
  address: (address) => `#/address/${piece(address)}`,
  coin: (outpoint) => `#/coin/${piece(outpoint)}`,
  proof: (outpoint) => `#/proof/${piece(outpoint)}`,
  tx: (txid) => `#/tx/${piece(txid)}`,
  block: (name) => `#/block/${piece(name)}`,
  wallet: (name, list = null) => `#/wallets/${piece(name)}${list ? `/${piece(list)}` : ""}`,
  payment: (id) => `#/ecash/${piece(id)}`,
  lookup: (query) => `#/lookup/${piece(query)}`,
};

// The chain room on the dashboard: blocks, addresses, proofs, and the size of the coin set.

import { figures } from "./api.js";
import { feed } from "./blocks.js";
import { coinPart } from "./coin.js";
import { announced, events, loud } from "./events.js";
import { showAddress } from "./pages/address.js";
import { showBlock } from "./pages/block.js";
import { showProof } from "./pages/proof.js";
import { panels } from "./panels.js";
import { search } from "./search.js";

export const chain = {
  name: "chain",
  panels,
  pages: [
    { path: "/address/:address", tab: "lookup", title: "Address", link: "address",
      show: showAddress },
    { path: "/proof/:outpoint", tab: "lookup", title: "Proof", link: "proof", show: showProof },
    { path: "/block/:name", tab: "lookup", title: "Block", link: "block", show: showBlock },
  ],
  events,
  loud,
  announced,
  figures,
  samples: {
    now: (said) => ({ coins: said?.coins ?? null }),
    earlier: (value) => ({ coins: value.utxos ?? null }),
  },
  feed,
  search,
  coinParts: [coinPart],
};

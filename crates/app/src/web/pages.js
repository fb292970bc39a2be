// Every page in one table: the first whose pattern fits is shown. `:name` stands for one piece.

import { showAddress } from "./pages/address.js";
import { showBlock } from "./pages/block.js";
import { showCoin } from "./pages/coin.js";
import { showEcash } from "./pages/ecash.js";
import { showLookup } from "./pages/lookup.js";
import { showMempool } from "./pages/mempool.js";
import { showOverview } from "./pages/overview.js";
import { showPayment } from "./pages/payment.js";
import { showProof } from "./pages/proof.js";
import { showRooms } from "./pages/rooms.js";
import { showTransaction } from "./pages/transaction.js";
import { showWallet } from "./pages/wallet.js";
import { showWallets } from "./pages/wallets.js";

export const PAGES = [
  { path: "/", tab: "overview", title: "Overview", inTabs: true, show: showOverview },
  { path: "/lookup", tab: "lookup", title: "Lookup", inTabs: true, show: showLookup },
  { path: "/wallets", tab: "wallets", title: "Wallets", inTabs: true, show: showWallets },
  { path: "/mempool", tab: "mempool", title: "Mempool", inTabs: true, room: "wallet",
    show: showMempool },
  { path: "/ecash", tab: "ecash", title: "Ecash", inTabs: true, room: "ecash", show: showEcash },
  { path: "/rooms", tab: "rooms", title: "Rooms", inTabs: true, show: showRooms },
  { path: "/lookup/:query", tab: "lookup", title: "Lookup", show: showLookup },
  { path: "/address/:address", tab: "lookup", title: "Address", show: showAddress },
  { path: "/coin/:outpoint", tab: "lookup", title: "Coin", show: showCoin },
  { path: "/proof/:outpoint", tab: "lookup", title: "Proof", show: showProof },
  { path: "/tx/:txid", tab: "lookup", title: "Transaction", show: showTransaction },
  { path: "/block/:name", tab: "lookup", title: "Block", show: showBlock },
  { path: "/ecash/:id", tab: "ecash", title: "Payment", show: showPayment },
  { path: "/wallets/:wallet", tab: "wallets", title: "Wallet", show: showWallet },
  { path: "/wallets/:wallet/:list", tab: "wallets", title: "Wallet", show: showWallet },
];

function match(pattern, path) {
  const wanted = pattern.split("/");
  const given = path.split("/");
  if (wanted.length !== given.length) return null;
  const args = {};
  for (const [at, piece] of wanted.entries()) {
    if (piece.startsWith(":")) args[piece.slice(1)] = decode(given[at]);
    else if (piece !== given[at]) return null;
  }
  return args;
}

function decode(piece) {
  try {
    return decodeURIComponent(piece);
  } catch {
    return piece;
  }
}

export function pageFor(path) {
  for (const page of PAGES) {
    const args = match(page.path, path);
    if (args) return { page, args };
  }
  return { page: PAGES[0], args: {} };
}

// The wallet room on the dashboard: wallets with their balances and lists, what waits for a block,
// and what may be done with coins and payments.

import { to } from "../../routes.js";
import { coinPart } from "./coin.js";
import { events, loud } from "./events.js";
import { showMempool } from "./pages/mempool.js";
import { showWallet } from "./pages/wallet.js";
import { showWallets } from "./pages/wallets.js";
import { panels } from "./panels.js";
import { transactionPart } from "./transaction.js";

export const wallet = {
  name: "wallet",
  panels,
  pages: [
    { path: "/wallets", tab: "wallets", title: "Wallets", inTabs: true, order: 30,
      show: showWallets },
    { path: "/mempool", tab: "mempool", title: "Mempool", inTabs: true, order: 40, room: "wallet",
      show: showMempool },
    { path: "/wallets/:wallet", tab: "wallets", title: "Wallet", link: "wallet", show: showWallet },
    { path: "/wallets/:wallet/:list", tab: "wallets", title: "Wallet", link: "wallet",
      show: showWallet },
  ],
  events,
  loud,
  tenantLink: "wallet",
  search: {
    places: { wallet: (found) => ({ href: to("wallet", found.wallet), name: found.wallet }) },
  },
  coinParts: [coinPart],
  transactionParts: [transactionPart],
};

// The rooms of this dashboard, a line each. No other shared file names one.

export { chain } from "./rooms/chain/index.js";
export { wallet } from "./rooms/wallet/index.js";
export { txstore } from "./rooms/txstore/index.js";
export { ecash } from "./rooms/ecash/index.js";

// The panels of the overview, in the order they stand. A new room adds a module under panels/ and
// a line here; a panel is left out while its room is off.
//
// A panel: { id, title, size: "third" | "half" | "twothirds" | "full", room: its room or null,
// make(body, context) }. A room's module exports a list of them.

import { chain } from "./panels/chain.js";
import { ecash } from "./panels/ecash.js";
import { events } from "./panels/events.js";
import { roomStates } from "./panels/rooms.js";
import { storage } from "./panels/storage.js";
import { tip } from "./panels/tip.js";
import { transactions } from "./panels/transactions.js";
import { wallet } from "./panels/wallet.js";

export const PANELS = [tip, roomStates, ...chain, storage, ...transactions, events, ...wallet,
  ...ecash];

// The panels of the overview, in the order they stand. A new room adds a module under panels/ and
// a line here; a panel is left out while its room is off.
//
// A panel: { id, title, size: "third" | "half" | "twothirds" | "full", room: its room or null,
// make(body, context) }.

import { events } from "./panels/events.js";
import { chainSize, storage } from "./panels/plots.js";
import { recentBlocks } from "./panels/blocks.js";
import { roomStates } from "./panels/rooms.js";
import { tip } from "./panels/tip.js";
import { walletTotals } from "./panels/wallets.js";

export const PANELS = [tip, roomStates, recentBlocks, chainSize, storage, events, walletTotals];

// What the dashboard shows of the daemon itself, plugged in as a room is: the overview and its
// shared panels, what is found by a search, coins and transactions as all rooms know them, and the
// events of the engine.

import { h } from "./dom.js";
import { capital, count, words } from "./format.js";
import { showCoin } from "./pages/coin.js";
import { routeOfCoin, showLookup } from "./pages/lookup.js";
import { showOverview } from "./pages/overview.js";
import { showRooms } from "./pages/rooms.js";
import { showTransaction } from "./pages/transaction.js";
import { events } from "./panels/events.js";
import { roomStates } from "./panels/rooms.js";
import { storage } from "./panels/storage.js";
import { to } from "./routes.js";

export const daemon = {
  name: "engine",
  panels: [roomStates, storage, events],
  pages: [
    { path: "/", tab: "overview", title: "Overview", inTabs: true, order: 10, show: showOverview },
    { path: "/lookup", tab: "lookup", title: "Lookup", inTabs: true, order: 20, show: showLookup },
    { path: "/rooms", tab: "rooms", title: "Rooms", inTabs: true, order: 90, show: showRooms },
    { path: "/lookup/:query", tab: "lookup", title: "Lookup", link: "lookup", show: showLookup },
    { path: "/coin/:outpoint", tab: "lookup", title: "Coin", link: "coin", show: showCoin },
    { path: "/tx/:txid", tab: "lookup", title: "Transaction", link: "tx", show: showTransaction },
  ],
  search: {
    routeOf: routeOfCoin,
    places: {
      coin: ({ outpoint }) => ({ href: to("coin", outpoint), name: outpoint }),
      transaction: ({ txid }) => ({ href: to("tx", txid), name: txid }),
    },
  },
  events: {
    caught_up: ({ body }) => [`The ${body.room} room has caught up`,
      body.height !== null && ` at ${count(body.height)}`],
    room_stopped: ({ body }) => [h("strong", {}, `The ${body.room} room stopped`),
      body.reason && `: ${body.reason}`],
    room_resumed: ({ body }) => [`The ${body.room} room has resumed`],
    source_lost: ({ body }) => ["The source is gone", body.reason && `: ${body.reason}`],
    source_found: () => ["The source is back"],
    job_done: ({ body }) => [`${capital(words(body.job))} `,
      body.failed ? `failed: ${body.failed}` : `ran: ${body.outcome}`],
  },
  loud: ["room_stopped", "source_lost"],
  announced: { room_stopped: "A room stopped" },
};

// The txstore room on the dashboard: how much it keeps, and what waits to be deleted.

import { figures } from "./api.js";
import { events } from "./events.js";
import { panels } from "./panels.js";

export const txstore = {
  name: "txstore",
  panels,
  events,
  figures,
  samples: {
    now: (said) => ({ records: said?.records ?? null }),
    earlier: (value) => ({ records: value.transactions ?? null }),
  },
};

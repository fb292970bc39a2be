// The ecash room on the dashboard: accounts with their money, and payments.

import { figures } from "./api.js";
import { events } from "./events.js";
import { showPayment } from "./pages/payment.js";
import { showPayments } from "./pages/payments.js";
import { panels } from "./panels.js";

export const ecash = {
  name: "ecash",
  panels,
  pages: [
    { path: "/ecash", tab: "ecash", title: "Ecash", inTabs: true, order: 50, room: "ecash",
      show: showPayments },
    { path: "/ecash/:id", tab: "ecash", title: "Payment", link: "payment", show: showPayment },
  ],
  events,
  tones: {
    completed: "good", paid: "good", draft: "calm", unpaid: "calm", expired: "gone",
    reversed: "gone",
  },
  figures,
};

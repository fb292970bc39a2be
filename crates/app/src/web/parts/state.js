// States as a dot and a word. Colour never stands alone.

import { h } from "../dom.js";
import { capital, words } from "../format.js";

// Which tone a word of the API has. What isn't listed is neutral.
const TONES = {
  following: "good", working: "good", confirmed: "good", unspent: "good", live: "good",
  published: "good", completed: "good", paid: "good", draft: "calm", unpaid: "calm",
  starting: "calm", catching_up: "calm", unconfirmed: "calm", immature: "calm", pending: "calm",
  waiting: "warm", leased: "warm", evicted: "warm", away: "warm", orphaned: "warm",
  "dead-recoverable": "warm",
  stopped: "alarm", failed: "alarm", dead: "alarm",
  replaced: "gone", spent: "gone", unknown: "gone", off: "gone", forgotten: "gone",
  expired: "gone", reversed: "gone",
};

export function tone(name) {
  return TONES[name] ?? "calm";
}

export function state(name, text = capital(words(name))) {
  return h("span", { class: "state", "data-tone": tone(name) },
    h("span", { class: "dot", "aria-hidden": "true" }), text);
}

// States as a dot and a word. Colour never stands alone.

import { h } from "../dom.js";
import { capital, words } from "../format.js";
import { named } from "../registry.js";

// Which tone a word of the API has that is about the daemon, coins or transactions; rooms bring
// their own. What isn't listed is neutral.
const TONES = {
  following: "good", working: "good", confirmed: "good", unspent: "good", live: "good",
  published: "good",
  starting: "calm", catching_up: "calm", unconfirmed: "calm", immature: "calm", pending: "calm",
  waiting: "warm", leased: "warm", evicted: "warm", away: "warm", orphaned: "warm",
  "dead-recoverable": "warm",
  stopped: "alarm", failed: "alarm", dead: "alarm",
  replaced: "gone", spent: "gone", unknown: "gone", off: "gone", forgotten: "gone",
};

function tone(name) {
  return TONES[name] ?? named("tones", name) ?? "calm";
}

export function state(name, text = capital(words(name))) {
  return h("span", { class: "state", "data-tone": tone(name) },
    h("span", { class: "dot", "aria-hidden": "true" }), text);
}

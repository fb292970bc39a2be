// What a coin's state was after each step of its timeline. Pure: steps in, steps with states out.

const BASE = ["pending", "unconfirmed", "confirmed"];

// Words of the API for the present state, as the states of steps.
const PRESENT = { unspent: "confirmed", immature: "confirmed" };

// A step is about the coin's own transaction, or about one that spends it.
function isOwn(step, coin) {
  return step.txid === null || step.txid === coin.txid;
}

// `held`: what the coin goes back to when a spend or a lease ends.
function after(step, coin, { state, held }) {
  const own = isOwn(step, coin);
  switch (step.kind) {
    case "seen":
      return step.to === "pending" ? "pending" : "unconfirmed";
    case "sent":
      return own ? "unconfirmed" : "spending";
    case "created":
    case "confirmed":
      return step.height === null ? "unconfirmed" : "confirmed";
    case "leased":
    case "spending":
    case "spent":
      return step.kind;
    case "replaced":
    case "double_spent":
    case "failed":
      return own ? "dead" : held;
    case "revived":
      return own ? held : "spending";
    case "rolled_back":
      return own ? "unconfirmed" : "spending";
    case "pruned":
      return "forgotten";
    default:
      return state;
  }
}

// Two rooms tell of the same block: one step is enough, with the name that one of them knows.
function isSame(a, b) {
  const meaning = (step) => (step.kind === "created" ? "confirmed" : step.kind);
  return a.height !== null && a.height === b.height && meaning(a) === meaning(b)
    && a.room !== b.room;
}

function merged(steps) {
  const kept = [];
  for (const step of steps) {
    const last = kept.at(-1);
    if (last && isSame(last, step)) {
      kept[kept.length - 1] = last.block === null
        ? { ...last, block: step.block } : { ...step, block: last.block };
    } else {
      kept.push(step);
    }
  }
  return kept;
}

// The steps of a coin's timeline, each with the state it left the coin in, and whether it is about
// the transaction that made the coin or about one that spends it.
export function statesOf(coin) {
  let before = { state: "unconfirmed", held: "unconfirmed" };
  const steps = merged(coin.steps).map((step) => {
    const state = after(step, coin, before);
    before = { state, held: BASE.includes(state) ? state : before.held };
    return { ...step, state, isOwn: isOwn(step, coin) };
  });
  const present = PRESENT[coin.state] ?? coin.state;
  const last = steps.at(-1);
  if (last?.state === "leased" && present !== "leased") {
    steps.push({ ...last, kind: "lease_ended", at: last.until, until: null, state: before.held });
  }
  return steps;
}

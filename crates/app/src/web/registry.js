// What the rooms bring to the dashboard, and the daemon's own pages beside them (`daemon.js`).
// Nothing here knows a room: `main.js` plugs them in, and shared files ask for what was brought.
//
// A room is one value. Its name is that of the API; all else may be left out:
//
//   name,
//   panels        [{ id, title, size, order, room, make }]: of the overview; a size is "third",
//                 "half", "twothirds" or "full", `room` is null or the room without which the
//                 panel is left out, and make(body, context) draws it
//   pages         [{ path, tab, title, link, show, inTabs, order, room }]: `:name` in a path stands
//                 for one piece, `link` is what others call the thing that is shown
//   events        { kind: (event) => what happened, in nodes and texts }
//   loud          [kind]: events that stand out
//   announced     { kind: what is read out to those who listen }
//   tenantLink    the `link` of the page about one of its tenants
//   tones         { word: tone }: colours of its states
//   figures       (value) => its part of the status
//   samples       { now(figures), earlier(value) }: what is plotted of it, as fields of a sample
//   feed          { start(), soon(), settle() }: what it keeps fresh beside the status: read for
//                 the first time, soon again since something happened, once past events are known
//   search        { routeOf(query), places: { kind: (found) => { href, name } }, hints() }: which
//                 queries it knows by their form, where its matches are shown, what to look for
//   coinParts     [{ order, read(timeline, after) }]: what it adds to the page of a coin
//   transactionParts  [{ order, of(transaction, after) }]: the same for a transaction
//
// What has an `order` stands in it, whoever brought it; what has none comes last.

let plugged = [];

export function plugIn(rooms) {
  plugged = plugged.concat(rooms);
}

export function rooms() {
  return plugged;
}

const orderOf = (thing) => thing.order ?? Number.MAX_SAFE_INTEGER;

// Everything of one sort that was brought.
export function brought(sort) {
  return plugged.flatMap((room) => room[sort] ?? []).sort((a, b) => orderOf(a) - orderOf(b));
}

// What was brought of one sort under a name; null where nobody knows it.
export function named(sort, name) {
  const room = plugged.find((one) => Object.hasOwn(one[sort] ?? {}, name));
  return room ? room[sort][name] : null;
}

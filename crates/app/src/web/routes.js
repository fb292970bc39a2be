// Which page an address leads to, and which address a thing has. Both follow from the pages that
// were plugged in: in a path, `:name` stands for one piece.

import { brought, rooms } from "./registry.js";

function match(pattern, path) {
  const wanted = pattern.split("/");
  const given = path.split("/");
  if (wanted.length !== given.length) return null;
  const args = {};
  for (const [at, piece] of wanted.entries()) {
    if (piece.startsWith(":")) args[piece.slice(1)] = decode(given[at]);
    else if (piece !== given[at]) return null;
  }
  return args;
}

function decode(piece) {
  try {
    return decodeURIComponent(piece);
  } catch {
    return piece;
  }
}

// The page of a path; the first of all pages where nothing fits.
export function pageFor(path) {
  const pages = brought("pages");
  for (const page of pages) {
    const args = match(page.path, path);
    if (args) return { page, args };
  }
  return { page: pages[0], args: {} };
}

const gaps = (path) => path.split("/").filter((piece) => piece.startsWith(":"));

// Where a thing is shown, such as to("block", hash), or to("wallet", name, list) where a page has
// two gaps; null where no page shows it.
export function to(thing, ...names) {
  const given = names.filter((name) => name !== null);
  const page = brought("pages").find((one) =>
    one.link === thing && gaps(one.path).length === given.length);
  if (!page) return null;
  const fill = () => encodeURIComponent(given.shift());
  return `#${page.path.replaceAll(/:\w+/g, fill)}`;
}

// Where a tenant of a room is shown; null where the room has no page about one.
export function toTenant(room, tenant) {
  const link = rooms().find((one) => one.name === room)?.tenantLink;
  return link ? to(link, tenant) : null;
}

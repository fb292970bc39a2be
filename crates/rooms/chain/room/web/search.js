// What a search may mean to the index: a height, a block, an address.

import { h } from "../../dom.js";
import { count, hash } from "../../format.js";
import { to } from "../../routes.js";
import { recent } from "./blocks.js";

const HEIGHT = /^\d[\d,' ]{0,12}$/;
const HINTS = 6;

function hints() {
  const line = (block) => h("li", {},
    h("a", { class: "choice", href: to("block", block.hash) },
      h("span", { class: "choice-kind" }, count(block.height)), hash(block.hash, { keep: 14 })));
  const newest = recent.blocks.slice(0, HINTS);
  if (newest.length === 0) return null;
  return h("section", { class: "panel" },
    h("h2", {}, "Newest blocks"), h("ul", { class: "choices" }, newest.map(line)));
}

export const search = {
  routeOf: (query) => (HEIGHT.test(query) ? to("block", query.replace(/\D/g, "")) : null),
  places: {
    address: ({ address }) => ({ href: to("address", address), name: address }),
    block: ({ block_hash: name }) => ({ href: to("block", name), name }),
  },
  hints,
};

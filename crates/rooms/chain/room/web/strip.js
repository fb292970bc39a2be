// The last blocks as a strip. Heights run from left to right; a block that leaves the chain sinks
// into a lane below, where it stays beside the blocks that took its place.

import { s, setStyle } from "../../dom.js";
import { ago, count, shortHash } from "../../format.js";
import { to } from "../../routes.js";

const TILE = { width: 84, height: 60, step: 104 };
const MAIN_Y = 6;
const SIDE_Y = 88;
const HEIGHT = 154;
const ENTER_FROM = 60;

function tile(block) {
  const title = s("title", {});
  const group = s("a", { class: "tile", href: to("block", block.hash) },
    title,
    s("rect", { class: "tile-box", width: TILE.width, height: TILE.height, rx: 8 }),
    s("text", { class: "tile-height", x: 12, y: 25 }, count(block.height)),
    s("text", { class: "tile-note", x: 12, y: 45 }));
  return group;
}

function note(block, stale) {
  if (stale) return shortHash(block.hash, 4);
  if (block.created === null) return shortHash(block.hash, 4);
  return `+${count(block.created)} −${count(block.spent)}`;
}

function describe(block, stale) {
  const coins = block.created === null ? ""
    : `, ${block.created} coins created, ${block.spent} spent`;
  const fate = stale ? `, left the chain ${ago(block.left)}` : "";
  return `Block ${count(block.height)}${coins}${fate}\n${block.hash}`;
}

// One stale block per height: the one that left last.
function sideLane(stale) {
  const byHeight = new Map();
  for (const block of [...stale].sort((a, b) => a.left - b.left)) byHeight.set(block.height, block);
  return [...byHeight.values()];
}

function bend(from, target) {
  const middle = from.x + (target.x - from.x) / 2;
  return `M${from.x} ${from.y}C${middle} ${from.y} ${middle} ${target.y} ${target.x} ${target.y}`;
}

const edge = {
  right: ({ x, y }) => ({ x: x + TILE.width, y: y + TILE.height / 2 }),
  left: ({ x, y }) => ({ x, y: y + TILE.height / 2 }),
};

export function strip() {
  const links = s("g", { class: "strip-links", "aria-hidden": "true" });
  const tiles = s("g", {});
  const svg = s("svg", { class: "strip", height: HEIGHT, role: "group",
    "aria-label": "The last blocks, oldest first; blocks that left the chain stand below" },
    links, tiles);
  const shown = new Map();
  let width = 0;
  let blocks = [];
  let stale = [];
  let isDrawn = false;

  function place(block, y, isStale, x) {
    let group = shown.get(block.hash);
    if (!group) {
      group = tile(block);
      // What comes later slides in; what is there at first simply is.
      const away = { transform: `translate(${x + ENTER_FROM}px, ${y}px)`, opacity: "0" };
      if (isDrawn) setStyle(group, away);
      tiles.append(group);
      shown.set(block.hash, group);
      if (isDrawn) group.getBoundingClientRect();
    }
    group.classList.toggle("is-stale", isStale);
    setStyle(group, { transform: `translate(${x}px, ${y}px)`, opacity: "1" });
    group.querySelector(".tile-note").textContent = note(block, isStale);
    group.querySelector("title").textContent = describe(block, isStale);
    return { x, y };
  }

  function draw() {
    if (width === 0 || blocks.length === 0) return;
    const top = Math.max(...[...blocks, ...stale].map((block) => block.height));
    const at = (height) => width - TILE.width - 1 - (top - height) * TILE.step;
    const fits = (block) => at(block.height) > -TILE.width;
    const seen = new Set();
    const main = new Map();
    for (const block of blocks.filter(fits).reverse()) {
      main.set(block.height, place(block, MAIN_Y, false, at(block.height)));
      seen.add(block.hash);
    }
    const side = new Map();
    for (const block of sideLane(stale.filter(fits))) {
      side.set(block.height, place(block, SIDE_Y, true, at(block.height)));
      seen.add(block.hash);
    }
    tiles.querySelector(".is-tip")?.classList.remove("is-tip");
    shown.get(blocks[0].hash)?.classList.add("is-tip");
    forget(seen);
    connect(main, side);
    isDrawn = true;
  }

  function forget(seen) {
    for (const [hash, group] of shown) {
      if (seen.has(hash)) continue;
      group.remove();
      shown.delete(hash);
    }
  }

  function connect(main, side) {
    const paths = [];
    for (const [height, spot] of main) {
      const before = main.get(height - 1);
      if (before) paths.push(["link", bend(edge.right(before), edge.left(spot))]);
    }
    for (const [height, spot] of side) {
      const before = side.get(height - 1) ?? main.get(height - 1);
      if (before) paths.push(["link is-side", bend(edge.right(before), edge.left(spot))]);
    }
    links.replaceChildren(...paths.map(([name, d]) => s("path", { class: name, d })));
  }

  const observer = new ResizeObserver(([entry]) => {
    width = Math.round(entry.contentRect.width);
    svg.setAttribute("viewBox", `0 0 ${width} ${HEIGHT}`);
    draw();
  });
  observer.observe(svg);
  return {
    element: svg,
    update(nextBlocks, nextStale) {
      blocks = nextBlocks;
      stale = nextStale;
      draw();
    },
    end: () => observer.disconnect(),
  };
}

// A proof as a drawing: from a leaf up to the root, what is known, and what the proof adds.
//
// A tree is a row of perfect ones, the largest first; a leaf lies below one of their peaks.

import { s } from "../../dom.js";
import { count } from "../../format.js";

const ROW = 26;
const SIDE = 64;
const NODE = 6;
const WIDTH = 380;
const TOP = 84;
const BOTTOM = 40;

// The way from a leaf to its peak: on which side the other child lies, from the bottom up.
function sidesOf(leaves, leaf) {
  let first = 0;
  for (let size = 2 ** 52; size >= 1; size /= 2) {
    if (Math.floor(leaves / size) % 2 === 0) continue;
    if (leaf < first + size) {
      const sides = [];
      for (let width = 1; width < size; width *= 2) {
        sides.push(Math.floor(leaf / width) % 2 === 1 ? "left" : "right");
      }
      return sides;
    }
    first += size;
  }
  return [];
}

// How many perfect trees so many leaves make.
function peaksOf(leaves) {
  let peaks = 0;
  for (let rest = leaves; rest > 0; rest = Math.floor(rest / 2)) peaks += rest % 2;
  return peaks;
}

function node(x, y, kind, title) {
  return s("g", { class: `path-node is-${kind}` },
    s("title", {}, title), s("circle", { cx: x, cy: y, r: NODE }));
}

function line(x1, y1, x2, y2, kind) {
  return s("line", { class: `path-line is-${kind}`, x1, y1, x2, y2 });
}

function column(left, rows, tree) {
  const middle = left + WIDTH / 2;
  const sides = sidesOf(tree.leaves, tree.leaf);
  const bottom = TOP + rows * ROW;
  const drawn = [];
  let y = bottom;
  for (const [height, side] of sides.entries()) {
    const beside = middle + (side === "left" ? -SIDE : SIDE);
    drawn.push(line(middle, y, middle, y - ROW, "own"), line(beside, y, middle, y - ROW, "given"));
    drawn.push(node(beside, y, "given", `given by the proof, height ${height}`));
    drawn.push(node(middle, y, "own", height === 0 ? tree.name : `computed, height ${height}`));
    y -= ROW;
  }
  const others = peaksOf(tree.leaves) - 1;
  drawn.push(line(middle, y, middle, TOP - ROW, "own"));
  drawn.push(node(middle, y, "own", sides.length === 0 ? tree.name : "a peak, computed"));
  drawn.push(s("text", { class: "path-name", x: middle, y: bottom + 26 }, tree.name));
  if (others > 0) {
    drawn.push(s("text", { class: "path-note", x: middle + 14, y: TOP - ROW + 18 },
      `with ${count(others)} other ${others === 1 ? "peak" : "peaks"}`));
  }
  return { drawn, middle };
}

// Two trees side by side under one root.
export function pathDrawing(label, outputs, live) {
  const rows = Math.max(...[outputs, live].map((tree) => sidesOf(tree.leaves, tree.leaf).length));
  const height = TOP + rows * ROW + BOTTOM;
  const [one, two] = [column(0, rows, outputs), column(WIDTH, rows, live)];
  const ends = [one, two].flatMap(({ middle }) => [
    line(middle, TOP - ROW, WIDTH, 22, "own"), node(middle, TOP - ROW, "own", "a tree’s root")]);
  return s("svg", { class: "path", viewBox: `0 0 ${2 * WIDTH} ${height}`, role: "img",
    "aria-label": label },
  ends, one.drawn, two.drawn,
  node(WIDTH, 22, "root", "the root of the block"),
  s("text", { class: "path-name", x: WIDTH + 16, y: 27, "data-side": "right" }, "root"));
}

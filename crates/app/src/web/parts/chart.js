// Plots over time, drawn by hand: stacked areas or one line, a few quiet grid lines, and the
// value under the pointer.

import { s, show } from "../dom.js";
import { timeOfDay } from "../format.js";

const HEIGHT = 168;
const EDGE = { top: 12, right: 0, bottom: 24, left: 0 };
const GRID_LINES = 4;
const LEAST_SPAN_MS = 60000;

// A step of 1, 2 or 5 times a power of ten that cuts a range into a few pieces. Bytes are counted
// in powers of 1024 (`base`), so that their marks are round as well.
function niceStep(range, pieces, base) {
  const rough = range / pieces;
  const unit = base ** Math.max(0, Math.floor(Math.log(rough) / Math.log(base)));
  const power = 10 ** Math.floor(Math.log10(rough / unit));
  const factor = [1, 2, 5, 10].find((one) => one * power * unit >= rough);
  return Math.max(1, factor * power * unit);
}

function bounds(low, high, { fromZero, base }) {
  const lowest = fromZero ? 0 : low;
  const range = Math.max(high - lowest, 1, high * 0.02);
  const step = niceStep(range, GRID_LINES, base);
  const bottom = Math.max(0, Math.floor(lowest / step) * step);
  const top = Math.max(Math.ceil(high / step) * step, bottom + step);
  return { bottom, top, step };
}

// Layers from the bottom up: for each sample, the sums of the series so far.
function stack(samples, series) {
  const sums = samples.map(() => 0);
  return series.map((one) => samples.map((sample, at) => {
    sums[at] += one.value(sample) ?? 0;
    return sums[at];
  }));
}

function path(points) {
  return points.map(([x, y], at) => `${at ? "L" : "M"}${x.toFixed(1)} ${y.toFixed(1)}`).join("");
}

// A plot. `series`: [{ name, value(sample) }]; `format(number)` writes values on the grid;
// `onPoint(sample or null)` tells what the pointer is over.
export function chart({ label, series, format, fromZero = false, base = 10,
  onPoint = () => {} }) {
  const svg = s("svg", { class: "chart", height: HEIGHT, role: "img", "aria-label": label });
  const cursor = s("g", { class: "chart-cursor", visibility: "hidden" });
  let samples = [];
  let width = 0;
  let scale = null;

  function draw() {
    if (width === 0) return;
    svg.setAttribute("viewBox", `0 0 ${width} ${HEIGHT}`);
    // Where every room is off there are samples, but nothing in them to draw.
    if (samples.length === 0 || series.length === 0) {
      show(svg);
      return;
    }
    const layers = stack(samples, series);
    scale = scales(samples, layers, width, { fromZero, base });
    const lines = layers.map((layer, at) => drawLayer(layer, layers[at - 1], at));
    show(svg, grid(), ...lines.reverse(), marks(), times(), cursor);
  }

  function drawLayer(layer, below, at) {
    const points = layer.map((value, index) => [scale.x(samples[index].at), scale.y(value)]);
    const base = below
      ? below.map((value, index) => [scale.x(samples[index].at), scale.y(value)]).reverse()
      : [[points.at(-1)[0], scale.floor], [points[0][0], scale.floor]];
    const last = points.at(-1);
    return s("g", { class: `chart-layer layer-${at}` },
      s("path", { class: "chart-area", d: `${path(points)}${path(base).replace("M", "L")}Z` }),
      s("path", { class: "chart-line", d: path(points) }),
      s("circle", { class: "chart-end", cx: last[0], cy: last[1], r: 3 }));
  }

  function grid() {
    const line = (y) => s("line", { class: "chart-grid", x1: 0, x2: width, y1: y, y2: y });
    return s("g", { "aria-hidden": "true" }, gridValues().map((value) => line(scale.y(value))));
  }

  function gridValues() {
    const { bottom, top, step } = scale;
    return Array.from({ length: Math.round((top - bottom) / step) + 1 }, (_, at) =>
      bottom + at * step);
  }

  // Above the areas, so that no area hides a number.
  function marks() {
    const mark = (value) => s("text", { class: "chart-mark", x: 0, y: scale.y(value) - 5 },
      format(value));
    return s("g", { "aria-hidden": "true" }, gridValues().slice(1).map(mark));
  }

  function times() {
    const y = HEIGHT - 4;
    return s("g", { "aria-hidden": "true" },
      s("text", { class: "chart-mark", x: 0, y }, timeOfDay(scale.from)),
      s("text", { class: "chart-mark", x: width, y, "text-anchor": "end" }, "now"));
  }

  function point(event) {
    if (!scale || samples.length === 0) return;
    const x = event.clientX - svg.getBoundingClientRect().left;
    const at = scale.from + (x / width) * (scale.to - scale.from);
    const near = samples.reduce((best, one) =>
      (Math.abs(one.at - at) < Math.abs(best.at - at) ? one : best));
    const line = scale.x(near.at);
    show(cursor, s("line", {
      class: "chart-hair", x1: line, x2: line, y1: EDGE.top, y2: scale.floor,
    }));
    cursor.setAttribute("visibility", "visible");
    onPoint(near);
  }

  svg.addEventListener("pointermove", point);
  svg.addEventListener("pointerleave", () => {
    cursor.setAttribute("visibility", "hidden");
    onPoint(null);
  });
  const observer = new ResizeObserver(([entry]) => {
    width = Math.round(entry.contentRect.width);
    draw();
  });
  observer.observe(svg);
  return {
    element: svg,
    update(next) {
      samples = next;
      draw();
    },
    end: () => observer.disconnect(),
  };
}

function scales(samples, layers, width, choice) {
  const to = samples.at(-1).at;
  const from = Math.min(samples[0].at, to - LEAST_SPAN_MS);
  const high = Math.max(...layers.at(-1));
  const low = Math.min(...layers[0]);
  const range = bounds(low, high, choice);
  const floor = HEIGHT - EDGE.bottom;
  const tall = floor - EDGE.top - 10;
  const wide = width - EDGE.left - EDGE.right - 4;
  return {
    ...range,
    from,
    to,
    floor,
    x: (at) => EDGE.left + ((at - from) / (to - from)) * wide,
    y: (value) => floor - ((value - range.bottom) / (range.top - range.bottom)) * tall,
  };
}

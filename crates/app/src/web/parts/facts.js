// The head of a page about one thing: what it is, its name in full, and a few facts.

import { h } from "../dom.js";

const COPIED_MS = 1500;
const LONG = 200;

// A long name that may be copied.
export function fullName(value) {
  const button = h("button", { class: "copy", type: "button" }, "Copy");
  button.addEventListener("click", async () => {
    try {
      await navigator.clipboard.writeText(value);
      button.textContent = "Copied";
    } catch {
      button.textContent = "Not allowed";
    }
    setTimeout(() => { button.textContent = "Copy"; }, COPIED_MS);
  });
  // What is so long that it scrolls must be reached by the keyboard.
  const reach = value.length > LONG ? { tabindex: "0" } : {};
  return h("p", { class: "full-name" }, h("span", { class: "mono", ...reach }, value), button);
}

export function head(kind, title, name, ...rest) {
  return h("header", { class: "head" },
    h("p", { class: "eyebrow" }, kind), h("h1", {}, title), name && fullName(name), rest);
}

// Facts: pairs of [term, value]; pairs without a value are left out.
export function facts(pairs) {
  const isThere = (value) => value !== null && value !== undefined && value !== false;
  const shown = pairs.filter(([, value]) => isThere(value));
  return h("dl", { class: "facts" },
    shown.map(([term, value]) => h("div", {}, h("dt", {}, term), h("dd", {}, value))));
}

export function panel(title, ...children) {
  return h("section", { class: "panel" }, title && h("h2", {}, title), children);
}

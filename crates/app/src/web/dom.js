// Makes elements. Text only ever enters the page as text nodes, never as markup.

const SVG = "http://www.w3.org/2000/svg";

function fill(element, props, children) {
  for (const [name, value] of Object.entries(props ?? {})) {
    if (value === null || value === undefined) continue;
    if (name.startsWith("data-")) {
      element.setAttribute(name, String(value));
      continue;
    }
    if (value === false) continue;
    if (name.startsWith("on")) element.addEventListener(name.slice(2), value);
    else if (name === "style") setStyle(element, value);
    else element.setAttribute(name, value === true ? "" : value);
  }
  put(element, ...children);
  return element;
}

// The policy forbids style attributes; properties set one by one are allowed.
export function setStyle(element, style) {
  for (const [name, value] of Object.entries(style)) element.style.setProperty(name, value);
}

function put(element, ...children) {
  for (const child of children.flat(Infinity)) {
    if (child !== null && child !== undefined && child !== false) element.append(child);
  }
}

// An HTML element: h("p", { class: "soft" }, "text", otherElement).
export function h(tag, props, ...children) {
  return fill(document.createElement(tag), props, children);
}

// An SVG element.
export function s(tag, props, ...children) {
  return fill(document.createElementNS(SVG, tag), props, children);
}

// Replaces what an element holds.
export function show(element, ...children) {
  element.replaceChildren();
  put(element, ...children);
  return element;
}

// Changes text only when it differs, so that selections and readers are left in peace.
export function setText(element, text) {
  const wanted = String(text);
  if (element.textContent !== wanted) element.textContent = wanted;
}

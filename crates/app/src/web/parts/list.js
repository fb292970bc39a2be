// Tables that grow by pages.

import { h, show } from "../dom.js";
import { empty, problem, waiting } from "./notes.js";

// A table. Each column: { title, cell(item), class }. On a phone, a row becomes a small card in
// which each cell carries its column's title.
export function table(columns, items, caption, look = "") {
  const body = h("tbody", {});
  const head = columns.map((column) =>
    h("th", { scope: "col", class: column.class }, column.title));
  const element = h("table", { class: `table ${look}`.trim() },
    h("caption", { class: "hidden" }, caption),
    h("thead", {}, h("tr", {}, head)), body);
  const add = (more) => body.append(...more.map((item) => row(columns, item)));
  add(items);
  return { element, add };
}

function row(columns, item) {
  const cells = columns.map((column) =>
    h("td", { class: column.class, "data-title": column.title }, column.cell(item)));
  return h("tr", {}, cells);
}

// A table fed by `load(cursor) -> { items, next }`, with a button for the next page.
export async function pagedTable(place, { columns, load, caption, nothing, ...look }) {
  show(place, waiting(6));
  let page;
  try {
    page = await load(null);
  } catch (error) {
    show(place, problem(error));
    return;
  }
  if (page.items.length === 0) {
    show(place, empty(nothing));
    return;
  }
  const { element, add } = table(columns, page.items, caption, look.class);
  let next = page.next;
  const more = h("button", { class: "button more", type: "button", hidden: !next }, "Show more");
  const complaint = h("p", { class: "complaint", role: "alert" });
  more.addEventListener("click", async () => {
    more.disabled = true;
    try {
      page = await load(next);
      add(page.items);
      next = page.next;
      more.hidden = !next || page.items.length === 0;
      complaint.textContent = "";
    } catch (error) {
      complaint.textContent = error.message;
    }
    more.disabled = false;
  });
  show(place, element, complaint, more);
}

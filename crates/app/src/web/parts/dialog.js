// Acts: each opens a dialog that says what will happen, and does it when that is confirmed.

import { h, show } from "../dom.js";
import { isFresh, logIn, session } from "../session.js";

// An act: {
//   title,             what is done, in the imperative
//   says: [text],      what will happen
//   fields: [{ name, label, hint, value, … }],  what must be typed
//   button,            the word on the button that does it
//   admin,             whether it runs the daemon: then a fresh login is asked for
//   run(values),       does it; returns null (done), { result: [nodes] } or { next: act }
// }
export function openAct(act, after = () => {}) {
  const dialog = h("dialog", { class: "act", "aria-labelledby": "act-title" });
  dialog.addEventListener("close", () => dialog.remove());
  document.body.append(dialog);
  ask(dialog, act, after);
  dialog.showModal();
}

const TOKEN = {
  name: "token", label: "Administrator’s token", type: "password", autocomplete: "off",
  hint: "You are asked again after five minutes.",
};

function field({ name, label, hint, ...rest }) {
  const id = `act-${name}`;
  const input = h("input", { class: "field", id, name, type: "text", required: true,
    autocomplete: "off", spellcheck: "false", "aria-describedby": hint ? `${id}-hint` : null,
    ...rest });
  return h("div", { class: "act-field" }, h("label", { for: id }, label), input,
    hint && h("p", { class: "soft", id: `${id}-hint` }, hint));
}

function ask(dialog, act, after, trouble = "") {
  const needsLogin = act.admin && !isFresh();
  const fields = [...(act.fields ?? []), ...(needsLogin ? [TOKEN] : [])];
  const complaint = h("p", { class: "complaint", role: "alert" }, trouble);
  const go = h("button", { class: "button primary", type: "submit" }, act.button);
  const cancel = h("button", { class: "button", type: "button",
    onclick: () => dialog.close() }, "Cancel");
  const submit = async (event) => {
    event.preventDefault();
    const values = Object.fromEntries(new FormData(event.target));
    go.disabled = true;
    complaint.textContent = "";
    try {
      if (needsLogin) await logIn(values.token.trim(), true);
      finish(dialog, await act.run(values), after);
    } catch (error) {
      complaint.textContent = wordsOf(error);
      // The login has lapsed meanwhile, or wasn't an administrator's: it is asked for.
      if (error.code === "fresh_login") {
        session.adminUntil = 0;
        ask(dialog, act, after, wordsOf(error));
      }
    }
    go.disabled = false;
  };
  show(dialog, h("form", { onsubmit: submit },
    h("h2", { id: "act-title" }, act.title),
    act.says.map((text) => h("p", {}, text)),
    fields.map(field),
    complaint,
    h("div", { class: "act-buttons" }, go, cancel)));
  dialog.querySelector("input, .primary")?.focus();
}

function wordsOf(error) {
  if (error.status === undefined) {
    return "The server didn’t answer, so it isn’t known whether this was done. "
      + "Trying again is safe.";
  }
  if (error.status === 401) return "This server doesn’t know that token.";
  return [error.message, error.hint].filter(Boolean).join(" — ");
}

function finish(dialog, outcome, after) {
  if (outcome?.next) {
    ask(dialog, outcome.next, after);
    return;
  }
  after();
  if (!outcome?.result) {
    dialog.close();
    return;
  }
  const close = h("button", { class: "button", type: "button",
    onclick: () => dialog.close() }, "Close");
  show(dialog, outcome.result, h("div", { class: "act-buttons" }, close));
  dialog.querySelector("h2").id = "act-title";
  close.focus();
}

// A button that opens an act; `key` finds it again where a list is drawn anew.
export function actButton(text, act, after, key = null) {
  return h("button", { class: "button small", type: "button", "data-key": key,
    onclick: () => openAct(act(), after) }, text);
}

// Draws a place anew that may hold such buttons: not under a finger, and the focus stays.
export function redraw(place, ...children) {
  if (place.querySelector("button:active")) return;
  const focused = place.contains(document.activeElement) && document.activeElement.dataset.key;
  show(place, ...children);
  if (focused) place.querySelector(`[data-key=${CSS.escape(focused)}]`)?.focus();
}

// What is said when there is nothing to show, or something went wrong.

import { h } from "../dom.js";

export function empty(title, ...text) {
  return h("div", { class: "empty" }, h("p", { class: "empty-title" }, title), h("p", {}, text));
}

export function problem(error) {
  const title = error.status === 404 ? "Not found" : "Something went wrong";
  return h("div", { class: "empty", role: "alert" },
    h("h1", {}, title),
    h("p", {}, error.message ?? String(error)),
    error.hint && h("p", { class: "soft" }, error.hint));
}

// Shown while a first answer is awaited; the height keeps what follows in its place.
export function waiting(lines = 3) {
  const rows = Array.from({ length: lines }, () => h("span", { class: "ghost" }));
  return h("div", { class: "ghosts", "aria-busy": "true" }, rows);
}

export function signIn(onToken) {
  const input = h("input", {
    id: "token", type: "password", required: true, autocomplete: "off", maxlength: "400",
    class: "field",
  });
  const complaint = h("p", { class: "complaint", role: "alert" });
  const submit = async (event) => {
    event.preventDefault();
    try {
      await onToken(input.value.trim());
    } catch (error) {
      complaint.textContent = error.message;
    }
  };
  return h("form", { class: "sign-in panel", onsubmit: submit },
    h("h1", {}, "A token is needed"),
    h("p", { class: "soft" },
      "This server lets nobody in without a token; one with the scope “read” is enough. On the ",
      "server’s own machine, the contents of the cookie file in the data folder work too."),
    h("label", { for: "token" }, "Token"),
    input,
    complaint,
    h("button", { class: "button", type: "submit" }, "Open the dashboard"));
}

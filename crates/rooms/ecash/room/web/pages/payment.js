// One payment: where it stands, what happened to it, and its token while nobody has claimed it.

import * as api from "../api.js";
import { h, show } from "../../../dom.js";
import { capital, dateTime, shortHash, words } from "../../../format.js";
import { live } from "../../../live.js";
import { facts, fullName, head, panel } from "../../../parts/facts.js";
import { waiting } from "../../../parts/notes.js";
import { qrCode } from "../../../parts/qr.js";
import { state } from "../../../parts/state.js";
import { timelineDrawing } from "../../../parts/timeline.js";
import { units } from "./payments.js";

const PAYMENT = {
  levels: ["draft", "unpaid", "pending", "paid", "completed", "expired", "failed", "reversed"],
  nameOf: capital,
  tell: (step) => capital(words(step.kind)),
  ends: ["completed", "failed", "reversed"],
};

function steps(payment) {
  return h("ol", { class: "steps" }, payment.steps.map((step) =>
    h("li", { class: "step", "data-kind": step.kind, "data-state": step.state },
      h("span", { class: "step-dot", "aria-hidden": "true" }),
      h("p", { class: "step-name" }, `${PAYMENT.tell(step)}: ${step.state}`),
      h("p", { class: "step-more" }, step.note && h("span", {}, step.note)),
      h("time", { class: "step-time" }, dateTime(step.at)))));
}

// A token is money, so it is fetched and shown when somebody asks for it, not before.
function tokenPanel(payment) {
  if (payment.kind !== "cashu_send_swap" || payment.state !== "pending") return null;
  const place = h("div", { class: "token" });
  const button = h("button", { class: "button", type: "button" }, "Show the token");
  button.addEventListener("click", async () => {
    try {
      const { token, qr } = await api.tokenOf(payment.id);
      const code = qr ? qrCode(qr, "The token as a QR code")
        : h("p", { class: "soft" }, "Too long for a QR code.");
      show(place, code, fullName(token));
    } catch (error) {
      const text = error.status === 403
        ? "Anyone who sees a token has the money: log in with the scope “wallet”." : error.message;
      show(place, h("p", { class: "complaint", role: "alert" }, text));
    }
  });
  const told =
    claimedPart(payment) ? "What others haven't claimed of it." : "Nobody has claimed it yet.";
  return panel("Token", h("p", { class: "soft" }, told), button, place);
}

function claimedPart({ claimed, tokenWorth }) {
  return claimed === "0" ? null : `${claimed} of ${tokenWorth} claimed by others`;
}

function drawn(payment, account, drawing) {
  const kind = capital(words(payment.kind));
  return [
    head(kind, units(payment.amount, account?.unit ?? ""), payment.id, facts([
      ["State", state(payment.state)],
      ["Transaction", state(payment.transaction)],
      ["Token", claimedPart(payment)],
      ["Account", account?.name ?? payment.account],
      ["Started", dateTime(payment.created)],
      ["Expires", payment.expires && dateTime(payment.expires)],
      ["Change owed, at most", payment.owed && units(payment.owed, account?.unit ?? "")],
      ["Kept by the mint", payment.kept && units(payment.kept, account?.unit ?? "")],
      ["Attention", payment.alarm ? "Something happened that needs your attention" : null],
    ])),
    payment.invoice && panel("Invoice", fullName(payment.invoice)),
    tokenPanel(payment),
    panel("Timeline", drawing.element, steps(payment)),
  ];
}

export async function showPayment(place, { id }, context) {
  show(place, waiting(5));
  const accounts = await api.accounts();
  let drawing = { end: () => {} };
  const draw = async () => {
    const payment = await api.paymentBy(id);
    if (!context.isCurrent()) return;
    context.title(`${capital(words(payment.kind))} ${shortHash(payment.id, 6)}`);
    drawing.end();
    drawing = timelineDrawing(payment.steps, PAYMENT);
    show(place, drawn(payment, accounts.find((one) => one.id === payment.account), drawing));
  };
  context.atEnd(() => drawing.end());
  await draw();
  // It goes on while we look.
  let seen = live.lastEvent;
  context.on("events", () => {
    const isOurs = live.events.some((event) => event.id > seen && event.subject === id);
    seen = live.lastEvent;
    if (isOurs) draw().catch(() => {});
  });
}

// The ecash room's calls of the API: accounts and payments.

import { millis, PAGE, piece, text } from "../../fields.js";
import { get } from "../../http.js";

// Money by account, payments by state.
export function figures(value) {
  const balance = (one) => ({
    account: one.account, name: one.name, unit: one.unit,
    free: text(one.unspent), held: text(one.reserved),
  });
  return {
    balances: (value.balances ?? []).map(balance),
    payments: value.payments ?? [],
    open: value.open_payments ?? 0,
    unclear: value.unclear_payments ?? 0,
  };
}

function payment(value) {
  return {
    id: value.id,
    kind: value.kind.toLowerCase(),
    state: value.state.toLowerCase(),
    transaction: value.transaction_state.toLowerCase(),
    account: value.account,
    amount: text(value.amount),
    invoice: value.invoice ?? null,
    alarm: Boolean(value.alarm),
    owed: value.change_owed ? text(value.change_owed) : null,
    kept: value.change_kept ? text(value.change_kept) : null,
    tokenWorth: text(value.token_worth ?? 0),
    claimed: text(value.claimed ?? 0),
    created: millis(value.created_at),
    expires: millis(value.expires_at),
  };
}

export async function accounts() {
  const value = await get("/ecash/accounts");
  return value.accounts.map(({ id, name, mint, unit }) => ({ id, name, mint: mint ?? null, unit }));
}

export async function payments(after = null) {
  const value = await get("/ecash/payments", { after, limit: PAGE });
  return { items: value.payments.map(payment), next: value.next ?? null };
}

// A payment with the steps that it took.
export async function paymentBy(id) {
  const value = await get(`/ecash/payments/${piece(id)}`);
  const step = (line) => ({
    kind: line.event.toLowerCase(),
    state: line.to.toLowerCase(),
    at: millis(line.at),
    note: line.note ?? null,
    height: null,
  });
  return { ...payment(value), steps: value.journal.map(step) };
}

// The token of a send, and its picture. It is money: the server asks for the scope `wallet`.
export async function tokenOf(id) {
  return get(`/ecash/payments/${piece(id)}/token`);
}

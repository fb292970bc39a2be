// Who we are, and what that lets us do. The server decides; this only keeps buttons away that it
// would refuse.

import * as http from "./http.js";

export const session = { name: null, scope: null, isGuest: true, tenant: null, adminUntil: 0 };

function take(value) {
  session.name = value.name;
  session.scope = value.scope;
  session.isGuest = value.guest;
  session.tenant = value.tenant ?? value.wallet ?? null;
  session.adminUntil = value.admin_seconds ? Date.now() + value.admin_seconds * 1000 : 0;
}

export async function readSession() {
  take(await http.get("/session"));
}

export async function logIn(token, admin = false) {
  take(await http.signIn(token, admin));
}

export async function logOut() {
  await http.send("DELETE", "/session");
  await readSession();
}

// Whether somebody logged in who may hold coins and pay.
export function mayAct() {
  return !session.isGuest && (session.scope === "wallet" || session.scope === "admin");
}

// Whether acts that run the daemon are offered: each asks for a fresh login of an administrator.
export function mayRun() {
  return mayAct() && session.tenant === null;
}

// A little earlier than the server thinks, so that nobody is refused at the last moment.
const MARGIN_MS = 5000;

export function isFresh() {
  return Date.now() < session.adminUntil - MARGIN_MS;
}

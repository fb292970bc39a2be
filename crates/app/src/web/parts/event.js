// Events in plain words: what happened, and the thing it happened to. Who writes a kind of event
// brings its words.

import { h } from "../dom.js";
import { capital, hash, words } from "../format.js";
import { brought, named } from "../registry.js";
import { toTenant } from "../routes.js";

// A tenant of a room, with the way to its page where it has one.
export function tenantLink(room, tenant) {
  const href = toTenant(room, tenant);
  return href ? h("a", { href }, tenant) : tenant;
}

export function eventText(event) {
  const tell = named("events", event.kind);
  if (tell) return tell(event);
  // A kind that nobody has words for is told from its own.
  return [capital(words(event.kind)), event.subject && [" ", hash(event.subject, { keep: 6 })],
    event.tenant && [" in ", tenantLink(event.tenantRoom, event.tenant)]];
}

export function isLoud(event) {
  return brought("loud").includes(event.kind);
}

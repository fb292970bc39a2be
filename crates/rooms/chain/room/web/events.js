// The chain room's events in plain words.

import { h } from "../../dom.js";
import { count, hash, plural } from "../../format.js";
import { to } from "../../routes.js";

const blockLink = (event) => hash(event.subject, { href: to("block", event.subject), keep: 6 });

export const events = {
  block_applied: (event) => [`Block ${count(event.body.height)} applied `, blockLink(event)],
  reorganisation: ({ body }) => [
    h("strong", {}, `Reorganisation: ${plural(body.depth, "block")} left the chain`),
    body.to && [", back to ",
      h("a", { href: to("block", body.to.block_hash) }, count(body.to.height))]],
  catching_up: ({ body, subject }) => [`${plural(body.blocks, "block")} applied at once, up to `,
    h("a", { href: to("block", subject) }, count(body.height))],
};

export const loud = ["reorganisation"];

export const announced = { reorganisation: "The chain was reorganised" };

// The ecash room's events in plain words.

import { capital, hash, words } from "../../format.js";
import { to } from "../../routes.js";

const paymentLink = ({ subject }) => hash(subject, { href: to("payment", subject), keep: 6 });
const kindOf = ({ body }) => capital(words(body.kind.toLowerCase()));

export const events = {
  ecash_created: (event) => [`${kindOf(event)} started `, paymentLink(event)],
  ecash_moved: (event) => [`${kindOf(event)} is ${event.body.to.toLowerCase()} `,
    paymentLink(event), event.body.note && `: ${event.body.note}`],
};

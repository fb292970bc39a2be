// The transaction store's events in plain words.

import { h } from "../../dom.js";
import { count, plural, words } from "../../format.js";
import { to } from "../../routes.js";

export const events = {
  transactions_applied: ({ body, subject }) => [
    `${plural(body.created, "transaction")} stored, ${plural(body.spent, "output")} `,
    "spent, up to ", h("a", { href: to("block", subject) }, count(body.height))],
  transactions_undone: ({ body }) => [
    `${plural(body.unmined, "transaction")} of block ${count(body.height)} unmined`],
  transactions_deleted: ({ body }) => [
    `${plural(body.count, "transaction")} deleted that nothing needs any longer`],
  losers_deleted: ({ body }) => [
    `${plural(body.count, "transaction")} deleted that lost to a conflict`],
  transactions_kept: ({ body }) => ["Due, but kept: ",
    Object.entries(body.kept).map(([why, many]) => `${words(why)} ${many}`).join(", ")],
};

// The transaction store's figures: what is there, and what waits to be deleted, by what it waits
// for.

export function figures(value) {
  const waiting = value.backlog ?? {};
  return {
    records: value.records ?? 0,
    unmined: value.unmined ?? 0,
    deleted: (value.deleted ?? 0) + (value.losers_deleted ?? 0),
    waiting: [
      ["due", waiting.due ?? 0],
      ["later", waiting.later ?? 0],
      ["child_unmined", waiting.child_unmined ?? 0],
      ["child_unknown", waiting.child_unknown ?? 0],
    ],
    kept: Object.entries(value.kept ?? {}),
  };
}

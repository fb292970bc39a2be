// A proof that a coin is unspent, or was spent, drawn as the path to the root.

import * as api from "../api.js";
import { h, show } from "../../../dom.js";
import { count, plural, shortHash } from "../../../format.js";
import { to } from "../../../routes.js";
import { facts, fullName, head, panel } from "../../../parts/facts.js";
import { waiting } from "../../../parts/notes.js";
import { pathDrawing } from "../path.js";
import { state } from "../../../parts/state.js";

const CHUNK = 1024;

export async function showProof(place, { outpoint }, context) {
  show(place, waiting(5));
  const proof = await api.proofOf(outpoint);
  if (!context.isCurrent()) return;
  context.title(`Proof ${shortHash(proof.txid, 6)}:${proof.vout}`);
  const said = proof.state === "unspent" ? "Unspent" : "Spent";
  const chunk = Math.floor(proof.leaf / CHUNK);
  show(place,
    head("Proof", said, proof.outpoint, facts([
      ["State", state(proof.state, said)],
      ["After block", h("a", { href: to("block", proof.block.hash) }, count(proof.block.height))],
      ["Output", `${count(proof.leaf + 1)} of ${count(proof.leaves)}`],
      ["Unspent outputs", count(proof.live)],
      ["Size", `${count(proof.bytes)} bytes`],
      ["Coin", h("a", { href: to("coin", proof.outpoint) }, "What happened to it")],
    ])),
    panel("Root", fullName(proof.root), h("p", { class: "soft" },
      "A proof is only as good as the root it leads to. No block commits to this root: compare ",
      "it with another server’s, or get it from somebody you trust.")),
    panel("The path to the root",
      pathDrawing(`Path from output ${proof.leaf} to the root`,
        { leaves: proof.leaves, leaf: proof.leaf, name: `output ${count(proof.leaf)}` },
        { leaves: Math.ceil(proof.leaves / CHUNK), leaf: chunk,
          name: `1,024 bits, one says ${proof.state}` }),
      h("p", { class: "soft" }, "Filled nodes are computed by whoever checks the proof; ",
        `hollow ones (${plural(proof.nodes, "hash", "hashes")}) are part of it.`)));
}

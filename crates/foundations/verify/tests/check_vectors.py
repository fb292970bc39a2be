#!/usr/bin/env python3
"""Checks the vectors of unspent-verify with nothing but Python's own library.

Written from the description of the hashes and of the wire format alone (src/hash.rs, src/wire.rs):
it shares no code with the crate, and finds the path of each output in another way, by walking up
from the leaves level by level instead of down from the peaks.

    python3 check_vectors.py FOLDER
"""

import hashlib
import json
import pathlib
import sys

CHUNK_BITS = 1024


def blake(*parts):
    return hashlib.blake2b(b"".join(parts), digest_size=32).digest()


def number(value, size=8):
    return value.to_bytes(size, "big")


class Refused(Exception):
    pass


# ---- canonical CBOR, as far as a proof needs it


class Reader:
    def __init__(self, data):
        self.data, self.at = data, 0

    def take(self, count):
        if self.at + count > len(self.data):
            raise Refused("cut short")
        piece = self.data[self.at:self.at + count]
        self.at += count
        return piece

    def head(self, kind):
        first = self.take(1)[0]
        if first >> 5 != kind:
            raise Refused("another kind")
        small = first & 31
        if small < 24:
            return small
        sizes = {24: 1, 25: 2, 26: 4, 27: 8}
        if small not in sizes:
            raise Refused("no length")
        value = int.from_bytes(self.take(sizes[small]), "big")
        least = {24: 24, 25: 1 << 8, 26: 1 << 16, 27: 1 << 32}[small]
        if value < least:
            raise Refused("not the shortest form")
        return value

    def uint(self):
        return self.head(0)

    def bytes(self):
        return self.take(self.head(2))

    def text(self):
        try:
            return self.take(self.head(3)).decode("utf-8")
        except UnicodeDecodeError as error:
            raise Refused("no text") from error

    def array(self, wanted=None):
        count = self.head(4)
        if wanted is not None and count != wanted:
            raise Refused("another number of fields")
        return count


def pieces(data, size):
    if len(data) % size:
        raise Refused("a piece is cut short")
    return [data[at:at + size] for at in range(0, len(data), size)]


def fixed(data, size):
    if len(data) != size:
        raise Refused("another length")
    return data


def read(data):
    reader = Reader(data)
    reader.array(10)
    if reader.uint() != 1:
        raise Refused("another version")
    proof = {
        "network": reader.text(),
        "height": reader.uint(),
        "block_hash": fixed(reader.bytes(), 32),
        "leaves": reader.uint(),
        "live": reader.uint(),
        "coins": [],
    }
    for _ in range(reader.array()):
        reader.array(4)
        coin = (reader.uint(), fixed(reader.bytes(), 32), reader.uint(), reader.bytes())
        if coin[2] >= 1 << 32:
            raise Refused("an output index beyond 2^32")
        proof["coins"].append(coin)
    proof["output_nodes"] = pieces(reader.bytes(), 32)
    proof["chunks"] = pieces(reader.bytes(), 128)
    proof["live_nodes"] = pieces(reader.bytes(), 32)
    if reader.at != len(data):
        raise Refused("something follows")
    return proof


# ---- trees


def peaks(count):
    """Heights and first leaves of the perfect trees, the largest first."""
    found, first = [], 0
    for height in range(63, -1, -1):
        if count >> height & 1:
            found.append((height, first))
            first += 1 << height
    return found


def needs(height, first, known):
    """What a perfect tree lacks, left to right: found from the bottom up."""
    have = sorted({leaf for leaf in known if first <= leaf < first + (1 << height)})
    if not have:
        return [(height, first >> height)]
    lacking = []
    level = have
    for at in range(height):
        here = set(level)
        lacking += [(at, index ^ 1) for index in level if index ^ 1 not in here]
        level = sorted({index >> 1 for index in level})
    # The order of a walk from the top: by the first leaf below each.
    return sorted(lacking, key=lambda node: node[1] << node[0])


def climb(tag, count, known, given):
    given = list(given)
    tops = []
    for height, first in peaks(count):
        nodes = {}
        for node in needs(height, first, known):
            if not given:
                raise Refused("too few nodes")
            nodes[node] = given.pop(0)
        for leaf, value in known.items():
            if first <= leaf < first + (1 << height):
                nodes[(0, leaf)] = value
        for at in range(height):
            for level, index in [node for node in nodes if node[0] == at and node[1] % 2 == 0]:
                if (at, index + 1) in nodes:
                    parent = (at + 1, index >> 1)
                    nodes.setdefault(parent, blake(
                        bytes([tag, at + 1]), number(index >> 1),
                        nodes[(at, index)], nodes[(at, index + 1)]))
        tops.append(nodes[(height, first >> height)])
    if given:
        raise Refused("too many nodes")
    if not tops:
        return blake(bytes([tag + 1]), number(count))
    bag = tops[-1]
    for top in reversed(tops[:-1]):
        bag = blake(bytes([tag + 1]), number(count), top, bag)
    return bag


def check(proof, root):
    count = proof["leaves"]
    places = [coin[0] for coin in proof["coins"]]
    if not places or places != sorted(set(places)) or places[-1] >= count:
        raise Refused("outputs are not in order")
    leaves = {
        place: blake(b"\x00", number(place), txid, number(vout, 4), blake(record))
        for place, txid, vout, record in proof["coins"]
    }
    numbers = sorted({place // CHUNK_BITS for place in places})
    if len(numbers) != len(proof["chunks"]):
        raise Refused("another number of chunks")
    bits = dict(zip(numbers, proof["chunks"]))
    chunks = {at: blake(b"\x03", number(at), chunk) for at, chunk in bits.items()}
    outputs = climb(1, count, leaves, proof["output_nodes"])
    live = climb(4, -(-count // CHUNK_BITS), chunks, proof["live_nodes"])
    name = proof["network"].encode()
    if len(name) > 255:
        raise Refused("no name of a network")
    found = blake(
        b"\x10", bytes([len(name)]), name, number(proof["height"]), proof["block_hash"],
        number(count), number(proof["live"]), outputs, live)
    if found != root:
        raise Refused("another root")
    verdicts = []
    for place in places:
        bit = place % CHUNK_BITS
        is_live = bits[place // CHUNK_BITS][bit // 8] >> (7 - bit % 8) & 1
        verdicts.append("UNSPENT" if is_live else "SPENT")
    return verdicts


def main(folder):
    vectors = json.loads((pathlib.Path(folder) / "proofs.json").read_text())
    for case in vectors["good"]:
        said = check(read(bytes.fromhex(case["cbor"])), bytes.fromhex(case["root"]))
        if said != case["verdicts"]:
            sys.exit(f"{said} instead of {case['verdicts']}")
    for case in vectors["bad"]:
        try:
            check(read(bytes.fromhex(case["cbor"])), bytes.fromhex(case["root"]))
        except Refused:
            continue
        sys.exit(f"believed: {case['cbor']}")
    print(f"{len(vectors['good'])} proofs hold, {len(vectors['bad'])} lies are refused")


if __name__ == "__main__":
    main(sys.argv[1])

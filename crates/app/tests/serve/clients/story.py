"""What both Python programs do. Each hands in its own way of calling the daemon."""

import os
import time

WALLET = "generated"


def until(what, look):
    deadline = time.monotonic() + 60
    while not (found := look()):
        assert time.monotonic() < deadline, what
        time.sleep(0.1)
    return found


def tell(client):
    status = client.status()
    assert status.network == "bitcoin-regtest", status
    assert status.source.tip.height == 113, status.source
    assert {room.room for room in status.rooms} >= {"chain", "wallet"}, status.rooms
    assert hasattr(status.started_at, "year"), "times are times"

    made = client.create_wallet(WALLET, os.environ["UNSPENT_DESCRIPTOR"])
    assert made.name == WALLET and made.chains[0].descriptor.startswith("wpkh("), made
    until("the wallet is scanned", lambda: client.balance(WALLET).value == "145000")
    address = client.new_address(WALLET).address
    assert address.startswith("bcrt1"), address
    paid = client.sim_pay(address, "33000")
    assert paid.tip.height == 114 and paid.txid, paid
    until("the payment has come", lambda: client.balance(WALLET).value == "178000")
    coins = client.coins(WALLET)
    assert {coin.value for coin in coins} == {"70000", "50000", "25000", "33000"}, coins

    unsigned, same = (
        client.pay(WALLET, "generated-1", os.environ["UNSPENT_ADDRESS"], "20000") for _ in range(2)
    )
    assert unsigned.psbt.startswith("cHNidP") and int(unsigned.fee) > 0, unsigned
    assert same.psbt == unsigned.psbt, "the key was used twice"
    found = client.lookup(address)
    assert found.addresses[0].known and found.addresses[0].value == "33000", found

    heard = until(
        "the mempool's payment is told", lambda: client.events(wallet=WALLET, kind="mempool")
    )
    assert {type(event).__name__ for event in heard} == {"MempoolEvent"}, heard
    assert "25000" in {event.body.credit for event in heard}, heard
    blocks = client.events(kind="block_applied")
    assert {type(event).__name__ for event in blocks} == {"BlockAppliedEvent"}, blocks
    assert 114 in {event.body.height for event in blocks}, blocks

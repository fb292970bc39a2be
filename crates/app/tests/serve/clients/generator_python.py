"""Talks with a daemon through the Python client that openapi-generator made."""

import json
import os
import time

import unspent_client
from unspent_client import (
    AddressLookup,
    BlockAppliedEvent,
    ChainApi,
    CreateWallet,
    DaemonApi,
    MempoolEvent,
    NextAddress,
    Pay,
    PayAddress,
    PayOutput,
    Policy,
    SimApi,
    WalletBalance,
    WalletsApi,
)
from unspent_client.exceptions import NotFoundException, UnauthorizedException


def connected(token):
    return unspent_client.ApiClient(
        unspent_client.Configuration(host=os.environ["UNSPENT_URL"], access_token=token)
    )


client = connected(os.environ["UNSPENT_TOKEN"])
daemon, wallets, chain, sim = DaemonApi(client), WalletsApi(client), ChainApi(client), SimApi(client)


def until(what, look):
    deadline = time.monotonic() + 60
    while not (found := look()):
        assert time.monotonic() < deadline, what
        time.sleep(0.1)
    return found


status = daemon.get_status()
assert status.network == "bitcoin-regtest", status
assert status.source.tip.height == 113, status.source
assert {room.room for room in status.rooms} >= {"chain", "wallet"}, status.rooms
assert not isinstance(status.started_at, str), "times are times"

made = wallets.create_wallet(
    CreateWallet(name="generated", descriptor=os.environ["UNSPENT_DESCRIPTOR"])
)
assert made.name == "generated" and made.chains[0].descriptor.startswith("wpkh("), made


def balance():
    found = wallets.get_balance("generated").actual_instance
    assert isinstance(found, WalletBalance), found
    return found


until("the wallet is scanned", lambda: balance().value == "145000")
address = wallets.new_address("generated", NextAddress())
assert address.address.startswith("bcrt1"), address
paid = sim.sim_pay(PayAddress(address=address.address, value="33000", confirmations=1))
assert paid.tip.height == 114 and paid.txid, paid
until("the payment has come", lambda: balance().value == "178000")
coins = wallets.list_coins("generated").coins
assert {coin.value for coin in coins} == {"70000", "50000", "25000", "33000"}, coins

request = Pay(
    outputs=[PayOutput(address=os.environ["UNSPENT_ADDRESS"], value="20000")],
    policy=Policy(fee_rate=2.0),
)
unsigned = wallets.pay("generated", idempotency_key="generated-1", pay=request)
assert unsigned.psbt.startswith("cHNidP") and int(unsigned.fee) > 0, unsigned
same = wallets.pay("generated", idempotency_key="generated-1", pay=request)
assert same.psbt == unsigned.psbt, "the key was used twice"

found = chain.lookup_addresses(AddressLookup(addresses=[address.address]))
assert found.addresses[0].known and found.addresses[0].value == "33000", found


def events(**filters):
    return [event.actual_instance for event in daemon.list_events(limit=500, **filters).events]


heard = until("the mempool's payment is told", lambda: events(wallet="generated", kind="mempool"))
assert all(isinstance(event, MempoolEvent) for event in heard), heard
assert "25000" in {event.body.credit for event in heard}, heard
blocks = [event for event in events(kind="block_applied") if isinstance(event, BlockAppliedEvent)]
assert 114 in {event.body.height for event in blocks}, blocks

try:
    wallets.get_wallet("nobody")
    raise AssertionError("nobody has a wallet")
except NotFoundException as error:
    assert error.data.error.code == "not_found", error
try:
    DaemonApi(connected("wrong")).get_status()
    raise AssertionError("a wrong token was taken")
except UnauthorizedException as error:
    assert json.loads(error.body)["error"]["code"] == "unauthorized", error
print("all is well")

"""Talks with a daemon through the client that openapi-python-client made."""

import os
import time

from unspent_client import AuthenticatedClient
from unspent_client.api.chain import lookup_addresses
from unspent_client.api.daemon import get_status, list_events
from unspent_client.api.sim import sim_pay
from unspent_client.api.wallets import create_wallet, get_balance, get_wallet, list_coins, new_address, pay
from unspent_client.models import (
    AddressLookup,
    BlockAppliedEvent,
    CreateWallet,
    ErrorBody,
    MempoolEvent,
    NextAddress,
    Pay,
    PayAddress,
    PayOutput,
    Policy,
    WalletBalance,
)
from unspent_client.types import Unset

client = AuthenticatedClient(os.environ["UNSPENT_URL"], os.environ["UNSPENT_TOKEN"])


def until(what, look):
    deadline = time.monotonic() + 60
    while not (found := look()):
        assert time.monotonic() < deadline, what
        time.sleep(0.1)
    return found


status = get_status.sync(client=client)
assert status.network == "bitcoin-regtest", status
assert status.source.tip.height == 113, status.source
assert {room.room for room in status.rooms} >= {"chain", "wallet"}, status.rooms
assert not isinstance(status.started_at, (str, Unset)), "times are times"

wallet = CreateWallet(name="generated", descriptor=os.environ["UNSPENT_DESCRIPTOR"])
made = create_wallet.sync(client=client, body=wallet)
assert made.name == "generated" and made.chains[0].descriptor.startswith("wpkh("), made
again = create_wallet.sync(client=client, body=wallet)
assert isinstance(again, ErrorBody) and again.error.message, again


def balance():
    found = get_balance.sync("generated", client=client)
    assert isinstance(found, WalletBalance), found
    return found


until("the wallet is scanned", lambda: balance().value == "145000")
address = new_address.sync("generated", client=client, body=NextAddress())
assert address.address.startswith("bcrt1"), address
paid = sim_pay.sync(client=client, body=PayAddress(address=address.address, value="33000", confirmations=1))
assert paid.tip.height == 114 and paid.txid, paid
until("the payment has come", lambda: balance().value == "178000")
coins = list_coins.sync("generated", client=client).coins
assert {coin.value for coin in coins} == {"70000", "50000", "25000", "33000"}, coins

request = Pay(outputs=[PayOutput(address=os.environ["UNSPENT_ADDRESS"], value="20000")], policy=Policy(fee_rate=2.0))
unsigned = pay.sync("generated", client=client, body=request, idempotency_key="generated-1")
assert unsigned.psbt.startswith("cHNidP") and int(unsigned.fee) > 0, unsigned
same = pay.sync("generated", client=client, body=request, idempotency_key="generated-1")
assert same.psbt == unsigned.psbt, "the key was used twice"

found = lookup_addresses.sync(client=client, body=AddressLookup(addresses=[address.address]))
assert found.addresses[0].known and found.addresses[0].value == "33000", found


def events(**filters):
    return list_events.sync(client=client, limit=500, **filters).events


heard = until("the mempool's payment is told", lambda: events(wallet="generated", kind="mempool"))
assert all(isinstance(event, MempoolEvent) for event in heard), heard
assert "25000" in {event.body.credit for event in heard}, heard
blocks = [event for event in events(kind="block_applied") if isinstance(event, BlockAppliedEvent)]
assert 114 in {event.body.height for event in blocks}, blocks

nobody = get_wallet.sync_detailed("nobody", client=client)
assert nobody.status_code == 404 and nobody.parsed.error.code == "not_found", nobody
stranger = AuthenticatedClient(os.environ["UNSPENT_URL"], "wrong")
refused = get_status.sync(client=stranger)
assert isinstance(refused, ErrorBody) and refused.error.code == "unauthorized", refused
print("all is well")

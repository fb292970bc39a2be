"""Talks with a daemon through the client that openapi-python-client made."""

import os

from unspent_client import AuthenticatedClient
from unspent_client.api.chain import lookup_addresses
from unspent_client.api.daemon import get_status, list_events
from unspent_client.api.sim import sim_pay
from unspent_client.api.wallets import create_wallet, get_balance, get_wallet, list_coins, new_address, pay
from unspent_client.models import (
    AddressLookup,
    CreateWallet,
    ErrorBody,
    NextAddress,
    Pay,
    PayAddress,
    PayOutput,
    Policy,
    WalletBalance,
)

from story import WALLET, tell

client = AuthenticatedClient(os.environ["UNSPENT_URL"], os.environ["UNSPENT_TOKEN"])


class Calls:
    def status(self):
        return get_status.sync(client=client)

    def create_wallet(self, name, descriptor):
        return create_wallet.sync(client=client, body=CreateWallet(name=name, descriptor=descriptor))

    def balance(self, wallet):
        found = get_balance.sync(wallet, client=client)
        assert isinstance(found, WalletBalance), found
        return found

    def new_address(self, wallet):
        return new_address.sync(wallet, client=client, body=NextAddress())

    def sim_pay(self, address, value):
        body = PayAddress(address=address, value=value, confirmations=1)
        return sim_pay.sync(client=client, body=body)

    def coins(self, wallet):
        return list_coins.sync(wallet, client=client).coins

    def pay(self, wallet, key, address, value):
        outputs = [PayOutput(address=address, value=value)]
        body = Pay(outputs=outputs, policy=Policy(fee_rate=2.0))
        return pay.sync(wallet, client=client, body=body, idempotency_key=key)

    def lookup(self, address):
        return lookup_addresses.sync(client=client, body=AddressLookup(addresses=[address]))

    def events(self, **filters):
        return list_events.sync(client=client, limit=500, **filters).events


calls = Calls()
tell(calls)
again = calls.create_wallet(WALLET, os.environ["UNSPENT_DESCRIPTOR"])
assert isinstance(again, ErrorBody) and again.error.message, again
nobody = get_wallet.sync_detailed("nobody", client=client)
assert nobody.status_code == 404 and nobody.parsed.error.code == "not_found", nobody
stranger = AuthenticatedClient(os.environ["UNSPENT_URL"], "wrong")
refused = get_status.sync(client=stranger)
assert isinstance(refused, ErrorBody) and refused.error.code == "unauthorized", refused
print("all is well")

"""Talks with a daemon through the Python client that openapi-generator made."""

import json
import os

import unspent_client
from unspent_client import (
    AddressLookup,
    ChainApi,
    CreateWallet,
    DaemonApi,
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

from story import tell


def connected(token):
    return unspent_client.ApiClient(
        unspent_client.Configuration(host=os.environ["UNSPENT_URL"], access_token=token)
    )


client = connected(os.environ["UNSPENT_TOKEN"])
daemon, wallets, chain, sim = DaemonApi(client), WalletsApi(client), ChainApi(client), SimApi(client)


class Calls:
    def status(self):
        return daemon.get_status()

    def create_wallet(self, name, descriptor):
        return wallets.create_wallet(CreateWallet(name=name, descriptor=descriptor))

    def balance(self, wallet):
        found = wallets.get_balance(wallet).actual_instance
        assert isinstance(found, WalletBalance), found
        return found

    def new_address(self, wallet):
        return wallets.new_address(wallet, NextAddress())

    def sim_pay(self, address, value):
        return sim.sim_pay(PayAddress(address=address, value=value, confirmations=1))

    def coins(self, wallet):
        return wallets.list_coins(wallet).coins

    def pay(self, wallet, key, address, value):
        outputs = [PayOutput(address=address, value=value)]
        request = Pay(outputs=outputs, policy=Policy(fee_rate=2.0))
        return wallets.pay(wallet, idempotency_key=key, pay=request)

    def lookup(self, address):
        return chain.lookup_addresses(AddressLookup(addresses=[address]))

    def events(self, **filters):
        return [event.actual_instance for event in daemon.list_events(limit=500, **filters).events]


tell(Calls())
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

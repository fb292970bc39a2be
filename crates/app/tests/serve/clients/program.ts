// Talks with a daemon through the TypeScript client that openapi-generator made.

import {
    ChainApi,
    Configuration,
    DaemonApi,
    ErrorBody,
    ResponseError,
    SimApi,
    WalletBalance,
    WalletsApi,
} from "./index";

function setting(name: string): string {
    const value = process.env[name];
    if (value === undefined) {
        throw new Error(`${name} is not set`);
    }
    return value;
}

function check(isTrue: boolean, what: unknown): void {
    if (!isTrue) {
        throw new Error(JSON.stringify(what));
    }
}

async function until<T>(what: string, look: () => Promise<T | undefined>): Promise<T> {
    const deadline = Date.now() + 60_000;
    for (;;) {
        const found = await look();
        if (found !== undefined) {
            return found;
        }
        check(Date.now() < deadline, what);
        await new Promise((done) => setTimeout(done, 100));
    }
}

function configured(token: string): Configuration {
    return new Configuration({ basePath: setting("UNSPENT_URL"), accessToken: token });
}

async function refusal(request: Promise<unknown>): Promise<[number, ErrorBody]> {
    try {
        await request;
    } catch (error) {
        if (error instanceof ResponseError) {
            return [error.response.status, (await error.response.json()) as ErrorBody];
        }
        throw error;
    }
    throw new Error("it was not refused");
}

async function main(): Promise<void> {
    const configuration = configured(setting("UNSPENT_TOKEN"));
    const daemon = new DaemonApi(configuration);
    const wallets = new WalletsApi(configuration);
    const wallet = "generated";

    const status = await daemon.getStatus();
    check(status.network === "bitcoin-regtest", status);
    check(status.source.tip?.height === 113, status.source);
    check(status.startedAt instanceof Date, "times are times");

    const made = await wallets.createWallet({
        createWallet: { name: wallet, descriptor: setting("UNSPENT_DESCRIPTOR") },
    });
    check(made.name === wallet, made);
    const has = (value: string) => async (): Promise<true | undefined> => {
        const balance = (await wallets.getBalance({ wallet })) as WalletBalance;
        return balance.value === value ? true : undefined;
    };
    await until("the wallet is scanned", has("145000"));
    const { address } = await wallets.newAddress({ wallet, nextAddress: {} });
    const paid = await new SimApi(configuration).simPay({
        payAddress: { address, value: "33000", confirmations: 1 },
    });
    check(paid.tip.height === 114 && typeof paid.txid === "string", paid);
    await until("the payment has come", has("178000"));
    const { coins } = await wallets.listCoins({ wallet });
    const values = coins.map((coin) => coin.value).sort();
    check(values.join() === "25000,33000,50000,70000", coins);

    const request = {
        wallet,
        idempotencyKey: "generated-1",
        pay: {
            outputs: [{ address: setting("UNSPENT_ADDRESS"), value: "20000" }],
            policy: { feeRate: 2 },
        },
    };
    const unsigned = await wallets.pay(request);
    check(unsigned.psbt.startsWith("cHNidP") && Number(unsigned.fee) > 0, unsigned);
    check((await wallets.pay(request)).psbt === unsigned.psbt, "the key was used twice");

    const found = await new ChainApi(configuration).lookupAddresses({
        addressLookup: { addresses: [address] },
    });
    check(found.addresses[0].known && found.addresses[0].value === "33000", found);

    const heard = await until("the mempool's payment is told", async () => {
        const { events } = await daemon.listEvents({ wallet, kind: "mempool" });
        return events.length > 0 ? events : undefined;
    });
    const credits = heard.map((event) => (event.kind === "mempool" ? event.body.credit : null));
    check(credits.includes("25000"), heard);
    const { events } = await daemon.listEvents({ kind: "block_applied", limit: 500 });
    const heights = events.map((event) => (event.kind === "block_applied" ? event.body.height : -1));
    check(heights.includes(114), events);

    const [missing, nobody] = await refusal(wallets.getWallet({ wallet: "nobody" }));
    check(missing === 404 && nobody.error.code === "not_found", nobody);
    const stranger = new DaemonApi(configured("wrong"));
    const [refused, why] = await refusal(stranger.getStatus());
    check(refused === 401 && why.error.code === "unauthorized", why);
    console.log("all is well");
}

main().catch((error) => {
    console.error(error);
    process.exit(1);
});

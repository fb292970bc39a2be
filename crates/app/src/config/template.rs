//! The commented configuration file.

/// What `unspent config init` writes: every key, with its default where it has one.
pub(super) const TEMPLATE: &str = r#"# Configuration of `unspent serve`.
#
# Every key may also be set by the environment (UNSPENT_HTTP__LISTEN for `listen` in [http]) or by a
# flag (--set http.listen=127.0.0.1:8480). Flags count more than the environment, and that more than
# this file. An unknown key is an error.

# bitcoin, bitcoin-testnet4, bitcoin-signet, bitcoin-regtest, cardano-mainnet, cardano-preprod or
# cardano-preview. One data folder serves one network.
network = "bitcoin-regtest"
data_dir = "./unspent-data"

[source]
# sim: the built-in simulated network, to look around.
# bitcoin-node: a Bitcoin Core compatible node by JSON-RPC. bitcoin-files: a folder of block files.
# cardano-node: node to node. cardano-socket: the node's local socket. immutable-db: its folder.
kind = "sim"
# bitcoin-node
#url = "http://127.0.0.1:8332"
#cookie_file = "/var/lib/bitcoind/.cookie"
#user = "unspent"
#password_file = "/etc/unspent/rpc-password"
#zmq = "tcp://127.0.0.1:28332"
# bitcoin-files, immutable-db
#path = "/var/lib/bitcoind/blocks"
# cardano-node
#address = "127.0.0.1:3001"
# cardano-socket
#socket = "/run/cardano/node.socket"
# Cardano's Byron and Shelley genesis files
#genesis = []
# How often the source is asked for news, and how long to wait after a failure
poll_seconds = 1
retry_seconds = 5

[source.sim]
# The same seed makes the same chain.
seed = 21
# Blocks that are there at the start
blocks = 110
# A new block each so many seconds; 0 for none
block_seconds = 5
# Random payments in each of these blocks
payments = 0
# Each so many blocks the last `reorg_depth` ones are replaced; 0 for never
reorg_every = 0
reorg_depth = 2

# The chain room: every unspent output.
[utxo]
enabled = true
store = "classic"
# Forget spent coins this many blocks after their spend (Bitcoin 288, Cardano 2160)
#prune_depth = 288
# Blocks that can be undone (Bitcoin 288, Cardano 4320)
#rollback_window = 288
# Entries one pruning pass may delete
#prune_batch_size = 500
# Shorthand for the two switches of [utxo.index]: address_hash, payment_credential or both
#indexing_strategy = "both"
# Memory for cached database blocks, in MiB
#block_cache_mb = 256
# Blocks that share one flush while catching up (Bitcoin 144, Cardano 10000)
#bulk_blocks = 144

[utxo.index]
#address_hash = true
#payment_credential = true

[utxo.delta]
# Deltas carry the bodies of coins, so that undoing needs no spent records.
#self_contained = false

# The wallet room: Bitcoin networks only.
[wallet]
#enabled = true
# sqlite:PATH or postgres://USER@HOST/NAME; a file wallet.db in the data folder by default
#url = "sqlite:/var/lib/unspent/wallet.db"
# A file that holds the URL, when it has a password
#url_file = "/etc/unspent/wallet-url"
# How long coins are held unless a request says otherwise
lease_seconds = 600

[http]
# Another address than loopback needs tokens and TLS, or the server refuses to start.
listen = "127.0.0.1:8480"
#tls_cert = "/etc/unspent/cert.pem"
#tls_key = "/etc/unspent/key.pem"
# Names under which browsers may call the server, besides localhost and the address itself
allowed_hosts = []
body_bytes = 1048576
timeout_seconds = 30
# Requests that work at a time, requests that may wait, live streams at a time
concurrency = 16
queue = 256
streams = 256
# Connections at a time; one more is closed at once
connections = 1024

[auth]
# Made anew at each start, readable by the owner alone; DATA_DIR/.cookie by default
#cookie_file = "/run/unspent/cookie"
# Written by `unspent token add`; DATA_DIR/tokens.json by default
#tokens_file = "/etc/unspent/tokens.json"
# The dashboard may read without a login; by default on loopback only
#dashboard_read = true
# Wrong credentials that one address may send in a minute
failures_per_minute = 30
session_minutes = 720

# Seconds between two runs
[jobs]
prune_seconds = 60
purge_leases_seconds = 60
mempool_seconds = 30
rebroadcast_seconds = 600

[log]
# error, warn, info, debug, trace, or filters such as "info,unspent_chain=debug"
level = "info"
# text or json
format = "text"

[events]
# How many events are kept for clients that come back
keep = 100000
"#;

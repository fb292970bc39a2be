//! A Cardano node that serves real blocks, and rolls back and hangs up at random.

use std::{
    collections::HashMap,
    path::PathBuf,
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, AtomicUsize, Ordering},
    },
    thread::{self, JoinHandle},
    time::Duration,
};

use pallas_network::{
    facades::{NodeServer, PeerServer},
    miniprotocols::{
        Point as Wire, blockfetch,
        chainsync::{BlockContent, ClientRequest, HeaderContent, Message, Server, Tip},
        handshake::{n2c, n2n},
        keepalive,
    },
    multiplexer::Bearer,
};
use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;
use tokio::net::{TcpListener, UnixListener};
use unspent_model::Network;
use unspent_networks::cardano::{
    head::{Head, block_head, header_bytes},
    magic,
};
use unspent_source::cardano::Address;

pub(crate) const NETWORK: Network = Network::CardanoPreview;

/// What a server serves: a run of blocks, of which some are visible.
pub(crate) struct Run {
    pub(crate) blocks: Vec<Vec<u8>>,
    pub(crate) heads: Vec<Head>,
    by_hash: HashMap<Vec<u8>, usize>,
    pub(crate) visible: AtomicUsize,
}

impl Run {
    pub(crate) fn new(blocks: Vec<Vec<u8>>) -> Self {
        let heads: Vec<_> = blocks.iter().map(|raw| block_head(NETWORK, raw).unwrap()).collect();
        let by_hash = heads.iter().enumerate().map(|(i, head)| (head.point.hash.0.to_vec(), i));
        let by_hash = by_hash.collect();
        Self { visible: AtomicUsize::new(blocks.len()), blocks, heads, by_hash }
    }

    fn len(&self) -> usize {
        self.visible.load(Ordering::Relaxed)
    }

    /// The point below the block with this number.
    fn point_below(&self, at: usize) -> Wire {
        at.checked_sub(1).map_or(Wire::Origin, |last| {
            let point = self.heads[last].point;
            Wire::Specific(point.slot, point.hash.0.to_vec())
        })
    }

    fn tip(&self) -> Tip {
        let height = self.heads[self.len() - 1].point.height;
        Tip(self.point_below(self.len()), height)
    }

    /// How many blocks stand up to a point; `None` when it isn't visible.
    fn count_to(&self, point: &Wire) -> Option<usize> {
        match point {
            Wire::Origin => Some(0),
            Wire::Specific(_, hash) => {
                self.by_hash.get(hash).map(|at| at + 1).filter(|count| *count <= self.len())
            }
        }
    }
}

/// How badly a server behaves.
#[derive(Clone, Copy)]
pub(crate) struct Mischief {
    pub(crate) seed: u64,
    /// One in so many answers is a rollback; 0 is never.
    pub(crate) rollback_odds: u32,
    /// One in so many answers breaks the connection; 0 is never.
    pub(crate) drop_odds: u32,
    /// Longest rollback.
    pub(crate) depth: usize,
    pub(crate) lie: Option<Lie>,
}

/// What a server says that isn't so, from its hundredth block on.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(crate) enum Lie {
    /// Another block than the one announced.
    OtherBlock,
    /// A block is left out.
    Gap,
    /// A block is cut short.
    Cut,
    /// A rollback to a block that never was.
    StrangePoint,
    /// Fewer blocks than were asked for.
    FewerBlocks,
}

pub(crate) const NONE: Mischief =
    Mischief { seed: 0, rollback_odds: 0, drop_odds: 0, depth: 0, lie: None };
/// Where lies begin.
const LIES_FROM: usize = 100;

/// What it did.
#[derive(Default)]
pub(crate) struct Deeds {
    pub(crate) rollbacks: AtomicUsize,
    pub(crate) drops: AtomicUsize,
}

struct World {
    run: Arc<Run>,
    mischief: Mischief,
    deeds: Arc<Deeds>,
    rng: Mutex<ChaCha8Rng>,
}

impl World {
    fn chance(&self, odds: u32) -> bool {
        odds > 0 && self.rng.lock().unwrap().random_range(0..odds) == 0
    }

    /// How far to go back from `at`; 0 for not at all.
    fn rollback_from(&self, at: usize) -> usize {
        if at < 2 || !self.chance(self.mischief.rollback_odds) {
            return 0;
        }
        self.deeds.rollbacks.fetch_add(1, Ordering::Relaxed);
        self.rng.lock().unwrap().random_range(1..=self.mischief.depth.min(at - 1))
    }

    fn lies(&self, lie: Lie, at: usize) -> bool {
        self.mischief.lie == Some(lie) && at >= LIES_FROM
    }

    /// The block with this number, or a lie.
    fn block(&self, at: usize) -> Vec<u8> {
        let block = &self.run.blocks[at];
        match self.mischief.lie {
            Some(Lie::OtherBlock) if at >= LIES_FROM => self.run.blocks[at - 7].clone(),
            Some(Lie::Cut) if at >= LIES_FROM => block[..40].to_vec(),
            _ => block.clone(),
        }
    }

    fn drops(&self) -> bool {
        let drops = self.chance(self.mischief.drop_odds);
        self.deeds.drops.fetch_add(usize::from(drops), Ordering::Relaxed);
        drops
    }
}

/// A running server.
pub(crate) struct CardanoServer {
    pub(crate) address: Address,
    pub(crate) deeds: Arc<Deeds>,
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
    _folder: tempfile::TempDir,
}

impl CardanoServer {
    pub(crate) fn start(
        run: Arc<Run>,
        mischief: Mischief,
        is_local: bool,
        network: Network,
    ) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let socket = folder.path().join("node.socket");
        let deeds = Arc::new(Deeds::default());
        let rng = Mutex::new(ChaCha8Rng::seed_from_u64(mischief.seed));
        let world = Arc::new(World { run, mischief, deeds: deeds.clone(), rng });
        let stop = Arc::new(AtomicBool::new(false));
        let stopped = stop.clone();
        let magic = u64::from(magic(network).unwrap());
        let (tell, told) = std::sync::mpsc::channel();
        let thread = thread::spawn(move || {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
            runtime.unwrap().block_on(async {
                let serving = async {
                    if is_local {
                        serve_local(world, socket, magic, tell).await;
                    } else {
                        serve_peers(world, magic, tell).await;
                    }
                };
                let asked = async {
                    while !stopped.load(Ordering::Relaxed) {
                        tokio::time::sleep(Duration::from_millis(20)).await;
                    }
                };
                tokio::select! { () = serving => {}, () = asked => {} }
            });
        });
        let address = told.recv().unwrap();
        Self { address, deeds, stop, thread: Some(thread), _folder: folder }
    }
}

impl Drop for CardanoServer {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        let _ = self.thread.take().unwrap().join();
    }
}

type Tell = std::sync::mpsc::Sender<Address>;

async fn serve_peers(world: Arc<World>, magic: u64, tell: Tell) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    tell.send(Address::Tcp(listener.local_addr().unwrap().to_string())).unwrap();
    loop {
        let Ok((bearer, _)) = Bearer::accept_tcp(&listener).await else { continue };
        let mut server = PeerServer::new(bearer);
        let greeting = server.handshake().handshake(n2n::VersionTable::v7_and_above(magic)).await;
        if !matches!(greeting, Ok(Some(_))) {
            // Leaving at once would take the refusal along.
            tokio::time::sleep(Duration::from_millis(200)).await;
            continue;
        }
        let PeerServer { plexer, chainsync, blockfetch, keepalive, .. } = server;
        let world = world.clone();
        tokio::spawn(async move {
            tokio::select! {
                () = sync(chainsync, &world, header) => {}
                () = serve_blocks(blockfetch, &world) => {}
                () = answer_pings(keepalive) => {}
            }
            plexer.abort().await;
        });
    }
}

async fn serve_local(world: Arc<World>, socket: PathBuf, magic: u64, tell: Tell) {
    let listener = UnixListener::bind(&socket).unwrap();
    tell.send(Address::Socket(socket)).unwrap();
    loop {
        let Ok((bearer, _)) = Bearer::accept_unix(&listener).await else { continue };
        let mut server = NodeServer::new(bearer).await;
        let greeting = server.handshake().handshake(n2c::VersionTable::v10_and_above(magic)).await;
        if !matches!(greeting, Ok(Some(_))) {
            tokio::time::sleep(Duration::from_millis(200)).await;
            continue;
        }
        let NodeServer { plexer, chainsync, .. } = server;
        let world = world.clone();
        tokio::spawn(async move {
            sync(chainsync, &world, |world, at| BlockContent(world.block(at))).await;
            plexer.abort().await;
        });
    }
}

async fn answer_pings(mut keepalive: keepalive::Server) {
    while keepalive.keepalive_roundtrip().await.is_ok() {}
    std::future::pending::<()>().await;
}

fn header(world: &World, at: usize) -> HeaderContent {
    let (era, cbor) = header_bytes(&world.run.blocks[at]).unwrap();
    let cbor = cbor.to_vec();
    match u8::try_from(era).unwrap() {
        era @ (0 | 1) => HeaderContent { variant: 0, byron_prefix: Some((era, 0)), cbor },
        era => HeaderContent { variant: era - 1, byron_prefix: None, cbor },
    }
}

/// Chain-sync until the client leaves or mischief ends it.
async fn sync<C>(mut server: Server<C>, world: &World, content: impl Fn(&World, usize) -> C)
where
    Message<C>: pallas_codec::Fragment,
{
    let run = &world.run;
    let (mut at, mut is_told) = (0, true);
    while let Ok(Some(request)) = server.recv_while_idle().await {
        if world.drops() {
            return;
        }
        let sent = match request {
            ClientRequest::Intersect(points) => {
                let found = points.iter().find_map(|point| run.count_to(point));
                is_told = false;
                at = found.unwrap_or(0);
                match found {
                    Some(at) => server.send_intersect_found(run.point_below(at), run.tip()).await,
                    None => server.send_intersect_not_found(run.tip()).await,
                }
            }
            // As real nodes do: first the intersection itself.
            ClientRequest::RequestNext if !is_told => {
                is_told = true;
                server.send_roll_backward(run.point_below(at), run.tip()).await
            }
            ClientRequest::RequestNext => {
                let mut sent = Ok(());
                if at >= run.len() {
                    sent = server.send_await_reply().await;
                    while at >= run.len() {
                        tokio::time::sleep(Duration::from_millis(5)).await;
                    }
                }
                let back = world.rollback_from(at);
                match (sent, back) {
                    (Err(error), _) => Err(error),
                    (Ok(()), 0) if world.lies(Lie::StrangePoint, at) => {
                        let point = Wire::Specific(1, vec![9; 32]);
                        server.send_roll_backward(point, run.tip()).await
                    }
                    (Ok(()), 0) => {
                        at += 1 + usize::from(world.lies(Lie::Gap, at));
                        server.send_roll_forward(content(world, at - 1), run.tip()).await
                    }
                    (Ok(()), back) => {
                        at -= back;
                        server.send_roll_backward(run.point_below(at), run.tip()).await
                    }
                }
            }
        };
        if sent.is_err() {
            return;
        }
    }
}

async fn serve_blocks(mut server: blockfetch::Server, world: &World) {
    while let Ok(Some(blockfetch::BlockRequest((from, to)))) = server.recv_while_idle().await {
        let (from, to) = (world.run.count_to(&from).unwrap(), world.run.count_to(&to).unwrap());
        server.send_start_batch().await.unwrap();
        let to = if world.lies(Lie::FewerBlocks, to) { to - 1 } else { to };
        for at in from - 1..to {
            if world.drops() || server.send_block(world.block(at)).await.is_err() {
                return;
            }
        }
        if server.send_batch_done().await.is_err() {
            return;
        }
    }
}

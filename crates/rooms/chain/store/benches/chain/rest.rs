//! A node's HTTP door, with the one thing that Bitcoin Knots lacks, and a curtain.
//!
//! electrs asks a node for parts of blocks (`/rest/blockpart`, which Bitcoin Core has from 31 on):
//! for the first block when it starts, to see whether the node can, and later for each transaction
//! of a script that somebody asks after. It asks for none while it indexes. Knots 29.5 answers 404,
//! whereupon electrs ends. So this stands between the two: parts come out of the file of blocks by
//! their place, as a node would read them; everything else goes to the node, and its answer back,
//! unchanged.
//!
//! The curtain: electrs sees only the headers up to a height, so that one run of it can be measured
//! in two stages. It learns of blocks from `/rest/headers` alone, thus a smaller number in that
//! request is all it takes. The same requests tell when a stage began, and when electrs found
//! nothing more to do.

use std::{
    collections::HashMap,
    fs::File,
    io::{self, BufRead, BufReader, Write},
    net::{TcpListener, TcpStream},
    os::unix::fs::FileExt,
    path::Path,
    sync::{Arc, Mutex},
    thread,
    time::{Duration, Instant},
};

use sha2::{Digest, Sha256};

use crate::stream;

/// Bytes before each block in a node's file: magic and length.
const FRAME: u64 = 8;
const HEADER: usize = 80;

/// A listening door; it ends with the process.
pub struct Rest {
    pub address: String,
    shared: Arc<Shared>,
}

struct Shared {
    node: String,
    file: File,
    /// By hash, as people read it.
    blocks: HashMap<String, Place>,
    curtain: Mutex<Curtain>,
}

struct Place {
    height: usize,
    at: u64,
    length: u64,
}

/// The last height that is seen, when the first block below it was asked for, and when there was
/// nothing more.
#[derive(Default)]
struct Curtain {
    tip: usize,
    begun: Option<Instant>,
    done: Option<Instant>,
}

impl Rest {
    /// Before the node at this address; `frames` holds the blocks as a node's file does.
    pub fn start(node: &str, frames: &Path) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let address = listener.local_addr().expect("an address").to_string();
        let shared = Arc::new(Shared {
            node: node.to_owned(),
            file: File::open(frames).expect("blocks"),
            blocks: places(),
            curtain: Mutex::default(),
        });
        let door = Arc::clone(&shared);
        thread::spawn(move || {
            for client in listener.incoming().flatten() {
                let door = Arc::clone(&door);
                // A connection that breaks is electrs's to notice: it asks again or ends.
                thread::spawn(move || door.serve(client));
            }
        });
        Self { address, shared }
    }

    /// Lifts the curtain up to this height, and starts a stage.
    pub fn show(&self, tip: usize) {
        let mut curtain = self.shared.curtain.lock().expect("no holder panics");
        *curtain = Curtain { tip, ..Curtain::default() };
    }

    /// How long the stage took; `None` while it lasts.
    pub fn took(&self) -> Option<Duration> {
        let curtain = self.shared.curtain.lock().expect("no holder panics");
        Some(curtain.done?.duration_since(curtain.begun?))
    }
}

/// Where each block lies in the file of frames.
fn places() -> HashMap<String, Place> {
    let mut at = 0;
    let place = |(height, block): (usize, Vec<u8>)| {
        let mut hash = Sha256::digest(Sha256::digest(&block[..HEADER]));
        hash.reverse();
        let place = Place { height, at: at + FRAME, length: block.len() as u64 };
        at += FRAME + place.length;
        (hex::encode(hash), place)
    };
    stream::raw().enumerate().map(place).collect()
}

impl Shared {
    fn serve(&self, client: TcpStream) -> io::Result<()> {
        let node = TcpStream::connect(&self.node)?;
        client.set_nodelay(true)?;
        node.set_nodelay(true)?;
        let (mut client, mut node) = (BufReader::new(client), BufReader::new(node));
        while let Some(mut request) = Message::read(&mut client)? {
            let reply = match self.part(&request.first) {
                Some(part) => Message::with(part),
                None => {
                    self.draw_curtain(&mut request.first);
                    request.write(node.get_mut())?;
                    Message::read(&mut node)?.ok_or(io::ErrorKind::UnexpectedEof)?
                }
            };
            reply.write(client.get_mut())?;
        }
        Ok(())
    }

    /// `GET /rest/blockpart/HASH.bin?offset=N&size=N HTTP/1.1`; `None` for every other request, and
    /// for parts that aren't there, to which the node says no.
    fn part(&self, first: &str) -> Option<Vec<u8>> {
        let asked = first.strip_prefix("GET /rest/blockpart/")?.split(' ').next()?;
        let (hash, range) = asked.split_once(".bin?offset=")?;
        let (offset, size) = range.split_once("&size=")?;
        let (offset, size): (u64, u64) = (offset.parse().ok()?, size.parse().ok()?);
        let place = self.blocks.get(hash)?;
        if offset.checked_add(size)? > place.length {
            return None;
        }
        let mut part = vec![0; size as usize];
        self.file.read_exact_at(&mut part, place.at + offset).ok()?;
        Some(part)
    }

    /// Makes the number in `GET /rest/headers/NUMBER/HASH.bin HTTP/1.1` end at the curtain.
    fn draw_curtain(&self, first: &mut String) {
        let Some(asked) = first.strip_prefix("GET /rest/headers/") else { return };
        let Some((number, rest)) = asked.split_once('/') else { return };
        let known = rest.split_once(".bin").and_then(|(hash, _)| self.blocks.get(hash));
        let (Ok(number), Some(from)) = (number.parse::<usize>(), known) else { return };
        let mut curtain = self.curtain.lock().expect("no holder panics");
        if from.height < curtain.tip {
            curtain.begun.get_or_insert_with(Instant::now);
        } else {
            curtain.done.get_or_insert_with(Instant::now);
        }
        let seen = number.min(curtain.tip.saturating_sub(from.height) + 1);
        *first = format!("GET /rest/headers/{seen}/{rest}");
    }
}

/// A request or an answer. Both sides say how long their bodies are.
struct Message {
    first: String,
    /// With the empty line behind them.
    fields: String,
    body: Vec<u8>,
}

impl Message {
    fn with(body: Vec<u8>) -> Self {
        let kind = "Content-Type: application/octet-stream";
        let fields = format!("{kind}\r\nContent-Length: {}\r\n\r\n", body.len());
        Self { first: "HTTP/1.1 200 OK\r\n".to_owned(), fields, body }
    }

    /// `None` when the other side has closed.
    fn read(from: &mut impl BufRead) -> io::Result<Option<Self>> {
        let (mut first, mut fields, mut length) = (String::new(), String::new(), 0);
        if from.read_line(&mut first)? == 0 {
            return Ok(None);
        }
        loop {
            let start = fields.len();
            if from.read_line(&mut fields)? == 0 {
                return Err(io::ErrorKind::UnexpectedEof.into());
            }
            let Some((name, value)) = fields[start..].split_once(':') else { break };
            if name.eq_ignore_ascii_case("content-length") {
                length = value.trim().parse().map_err(io::Error::other)?;
            }
        }
        let mut body = vec![0; length];
        from.read_exact(&mut body)?;
        Ok(Some(Self { first, fields, body }))
    }

    fn write(&self, to: &mut impl Write) -> io::Result<()> {
        to.write_all(&[self.first.as_bytes(), self.fields.as_bytes(), &self.body].concat())
    }
}

//! Live events: resume, reset, a client that doesn't read, the end of the server.

use std::{
    io::{BufRead as _, BufReader, Read as _, Write as _},
    net::TcpStream,
    time::{Duration, Instant},
};

use serde_json::Value;

use crate::daemon::{Daemon, Folder, PATIENCE};

/// A message of the stream.
#[derive(Debug)]
struct Message {
    id: u64,
    kind: String,
    data: Value,
}

/// An open stream.
struct Stream(BufReader<TcpStream>);

fn open(daemon: &Daemon, query: &str, header: &str) -> Stream {
    let mut socket = TcpStream::connect(daemon.address).unwrap();
    socket.set_read_timeout(Some(PATIENCE)).unwrap();
    let (host, cookie) = (daemon.address, &daemon.cookie);
    let head = format!(
        "GET /api/v1/events/stream{query} HTTP/1.1\r\nhost: {host}\r\n\
         authorization: Bearer {cookie}\r\n{header}\r\n"
    );
    socket.write_all(head.as_bytes()).unwrap();
    let mut stream = Stream(BufReader::new(socket));
    let mut line = String::new();
    stream.0.read_line(&mut line).unwrap();
    assert!(line.starts_with("HTTP/1.1 200"), "{line}");
    stream
}

impl Stream {
    fn next(&mut self) -> Message {
        let mut message = Message { id: 0, kind: String::new(), data: Value::Null };
        loop {
            let mut line = String::new();
            assert!(self.0.read_line(&mut line).unwrap() > 0, "the stream ended");
            let line = line.trim_end();
            if let Some(id) = line.strip_prefix("id: ") {
                message.id = id.parse().unwrap();
            } else if let Some(kind) = line.strip_prefix("event: ") {
                kind.clone_into(&mut message.kind);
            } else if let Some(data) = line.strip_prefix("data: ") {
                message.data = serde_json::from_str(data).unwrap();
            } else if line.is_empty() && !message.kind.is_empty() {
                return message;
            }
        }
    }
}

fn last(daemon: &Daemon) -> u64 {
    daemon.admin().get("/api/v1/events?limit=1").ok()["last"].as_u64().unwrap()
}

#[test]
fn a_stream_goes_on_where_it_was_left() {
    let folder = Folder::new();
    let daemon = folder.start(&["source.sim.blocks=20", "source.sim.block_seconds=1"]);
    let mut stream = open(&daemon, "?after=0", "");
    let first: Vec<Message> = (0..5).map(|_| stream.next()).collect();
    let ids: Vec<u64> = first.iter().map(|message| message.id).collect();
    assert_eq!(ids, [1, 2, 3, 4, 5]);
    assert!(first.iter().all(|message| message.data["id"] == message.id));
    assert!(first.iter().all(|message| message.data["kind"] == *message.kind));
    drop(stream);
    let mut by_header = open(&daemon, "?after=1", "last-event-id: 3\r\n");
    assert_eq!(by_header.next().id, 4, "the header counts more");
    // Without an id it starts with what comes next.
    let before = last(&daemon);
    assert!(open(&daemon, "", "").next().id > before);
    // It survives a crash of the daemon without a gap or a repeat.
    let seen = by_header.next().id;
    daemon.kill();
    let daemon = folder.start(&["source.sim.blocks=20", "source.sim.block_seconds=1"]);
    let mut again = open(&daemon, &format!("?after={seen}"), "");
    assert_eq!((again.next().id, again.next().id), (seen + 1, seen + 2));
}

#[test]
fn an_id_that_is_no_longer_kept_or_never_was_is_a_reset() {
    let folder = Folder::new();
    let daemon = folder.start(&["events.keep=3", "source.sim.block_seconds=1"]);
    daemon.wait_for("events are forgotten", |client| {
        client.get("/api/v1/events").ok()["first_kept"].as_u64().unwrap() > 3
    });
    let mut stream = open(&daemon, "?after=1", "");
    let reset = stream.next();
    assert_eq!(reset.kind, "reset");
    assert!(reset.data["first_kept"].as_u64().unwrap() > 3);
    assert_eq!(stream.next().id, reset.id + 1);
    assert_eq!(open(&daemon, "?after=999999", "").next().kind, "reset");
    daemon.admin().get("/api/v1/events/stream?after=-1").refused(400);
    let bad = [("last-event-id", "x")];
    daemon.admin().send("GET", "/api/v1/events/stream", &bad, None).refused(400);
}

#[test]
fn the_number_of_streams_is_bounded_and_they_end_with_the_server() {
    let folder = Folder::new();
    // One client has a quarter of them at most.
    let daemon = folder.start(&["http.streams=12"]);
    let open: Vec<Stream> = (0..3).map(|_| open(&daemon, "", "")).collect();
    let more = daemon.admin().get("/api/v1/events/stream");
    assert_eq!(more.refused(503), "busy");
    assert!(more.header("retry-after").is_some());
    let started = Instant::now();
    assert_eq!(daemon.end(), 0);
    assert!(started.elapsed() < Duration::from_secs(20), "{:?}", started.elapsed());
    for mut stream in open {
        let mut rest = Vec::new();
        stream.0.read_to_end(&mut rest).unwrap();
    }
}

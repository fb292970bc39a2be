//! A room whose code panics, on the road and while it is opened anew.

use std::sync::{
    Arc,
    atomic::{AtomicU32, Ordering},
};

use unspent_engine::{
    Engine, RoomName, RoomState, StartError,
    road::{Follower, SharedBlock, Trouble},
    room::{OpenRoom, Plug, Room, RoomShape},
};
use unspent_model::{Network, Point};
use unspent_source::sim::SimNetwork;

use crate::rig::{quick, wait_for};

const NAME: RoomName = RoomName::new("clumsy");
static SHAPE: RoomShape = RoomShape { name: NAME, keeps: &[], series: &[], events: &[] };

/// A room that panics as often as is set.
#[derive(Clone, Debug, Default)]
struct Clumsy {
    faults: Arc<AtomicU32>,
    tip: Option<Point>,
}

impl Clumsy {
    fn stumble(&self) {
        let left = |left: u32| left.checked_sub(1);
        let before = self.faults.fetch_update(Ordering::SeqCst, Ordering::SeqCst, left);
        assert!(before.is_err(), "a fault that the test set");
    }
}

struct OpenClumsy;

impl OpenRoom for OpenClumsy {}

impl Room for Clumsy {
    fn shape(&self) -> &'static RoomShape {
        &SHAPE
    }

    fn open(&self, plug: &mut Plug<'_>) -> Result<Arc<dyn OpenRoom>, StartError> {
        plug.follow(self.clone())?;
        Ok(Arc::new(OpenClumsy))
    }
}

impl Follower for Clumsy {
    type Ready = Point;

    fn room(&self) -> RoomName {
        NAME
    }

    fn tip(&self) -> Result<Option<Point>, Trouble> {
        Ok(self.tip)
    }

    fn stored_at(&self, height: u64) -> Result<Option<Point>, Trouble> {
        Ok(self.tip.filter(|tip| tip.height <= height))
    }

    fn prepare(_: Network, block: &Arc<SharedBlock>) -> Result<Point, String> {
        Ok(block.point)
    }

    fn apply(&mut self, block: Point) -> Result<(), Trouble> {
        self.stumble();
        self.tip = Some(block);
        Ok(())
    }

    fn roll_back(&mut self, to: Option<Point>) -> Result<(), Trouble> {
        self.tip = to;
        Ok(())
    }

    fn reopen(&mut self) -> Result<(), Trouble> {
        self.stumble();
        Ok(())
    }
}

#[test]
fn a_room_that_panics_while_it_resumes_is_stopped_and_can_be_resumed_again() {
    let (sim, folder) = (SimNetwork::in_memory(74), tempfile::tempdir().unwrap());
    let room = Clumsy::default();
    let faults = room.faults.clone();
    let config = quick(folder.path(), Arc::new(sim.clone())).with(room);
    let engine = Engine::start(config).unwrap();
    let state =
        || engine.status().rooms.iter().find(|room| room.room == NAME).unwrap().state.clone();
    let stops = || {
        let told = engine.events().after(0, 1_000).unwrap().events;
        let ours = |body: &serde_json::Value| body["room"] == NAME.name();
        told.iter().filter(|event| event.kind == "room_stopped" && ours(&event.body)).count()
    };
    wait_for("the room at the tip", || state() == RoomState::Following);
    // One fault on the road, two while it is opened anew.
    faults.store(3, Ordering::SeqCst);
    sim.mine(1).unwrap();
    for stop in 1..=3 {
        wait_for("the room to be stopped", || {
            stops() == stop && matches!(state(), RoomState::Stopped { .. })
        });
        let RoomState::Stopped { reason, .. } = state() else { panic!("it is stopped") };
        assert!(reason.contains("a bug ended the room's thread"), "{reason}");
        engine.resume(NAME).unwrap();
    }
    wait_for("the room at the tip again", || state() == RoomState::Following);
    assert_eq!(faults.load(Ordering::SeqCst), 0);
    engine.shutdown();
}

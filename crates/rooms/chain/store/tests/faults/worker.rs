//! The process that is killed: this binary again, started by a test with a role.

use std::{io::Read, path::Path, process::Child, time::Duration};

use unspent_chain::StoreKind;
use unspent_testkit::crash;

use crate::{driver::Run, history::History};

/// The name under which the test harness knows the worker.
const NAME: &str = "worker::does_nothing_unless_another_test_started_it";
/// No worker takes this long unless it hangs.
pub const PATIENCE: Duration = Duration::from_secs(60);

/// A history by name, so that parent and worker make the same one.
#[derive(Clone, Copy, Debug)]
pub struct Plan {
    pub long: bool,
    pub self_contained: bool,
    pub seed: u64,
    pub store: StoreKind,
}

impl Plan {
    pub fn history(&self) -> History {
        let history = if self.long {
            History::long(self.seed, self.self_contained)
        } else {
            History::short(self.seed, self.self_contained)
        };
        history.on(self.store)
    }

    fn parse(text: &str) -> Self {
        let numbers: Vec<u64> = text.split(',').map(|number| number.parse().unwrap()).collect();
        let store = if numbers[3] == 1 { StoreKind::Mmr } else { StoreKind::Classic };
        Self { long: numbers[0] == 1, self_contained: numbers[1] == 1, seed: numbers[2], store }
    }

    fn name(&self) -> String {
        let has_trees = u8::from(self.store == StoreKind::Mmr);
        let (long, self_contained) = (u8::from(self.long), u8::from(self.self_contained));
        format!("{long},{self_contained},{},{has_trees}", self.seed)
    }

    /// A worker that carries the plan out on `folder`; `job` is what it is to look at.
    pub fn worker(&self, job: &str, folder: &Path) -> std::process::Command {
        crash::worker(NAME, &format!("{job} {}", self.name()), folder).unwrap()
    }
}

/// What the worker said before it ended badly.
pub fn last_words(child: &mut Child) -> String {
    let mut words = String::new();
    child.stderr.take().unwrap().read_to_string(&mut words).unwrap();
    words
}

#[test]
fn does_nothing_unless_another_test_started_it() {
    let Some((role, folder)) = crash::role() else { return };
    let (job, plan) = role.split_once(' ').unwrap();
    let history = Plan::parse(plan).history();
    match job {
        "run" => Run::open(&history, &folder).unwrap().finish().unwrap(),
        "full" => crate::disk_full::work_until_full(&history, &folder),
        other => panic!("unknown job {other}"),
    }
}

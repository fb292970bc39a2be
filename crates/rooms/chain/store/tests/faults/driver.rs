//! Carries a script out on a folder, from wherever the folder stands, and checks what it finds.

use std::path::Path;

use unspent_chain::{
    ApplyError, ChainIndex, OpenError, OpenReport, Reader, RollbackError, RollbackTarget,
    StoreError, StoreKind, prepare,
};
use unspent_testkit::crash::Note;

use crate::history::{BlockId, History, NETWORK, Phase, Step};

/// Any failure of a step, with its kind at hand.
#[derive(Debug)]
pub enum Failure {
    Open(OpenError),
    Apply(ApplyError),
    Rollback(RollbackError),
    Store(StoreError),
}

impl Failure {
    pub fn kind(&self) -> unspent_chain::Kind {
        match self {
            Self::Open(error) => error.kind(),
            Self::Apply(error) => error.kind(),
            Self::Rollback(error) => error.kind(),
            Self::Store(error) => error.kind(),
        }
    }
}

/// The note beside the data folder.
pub fn note(folder: &Path) -> Note {
    Note::open(&folder.join("note")).unwrap()
}

/// The data folder itself.
pub fn data(folder: &Path) -> std::path::PathBuf {
    folder.join("data")
}

pub struct Run<'a> {
    pub history: &'a History,
    pub folder: &'a Path,
    pub index: Option<ChainIndex>,
    pub report: OpenReport,
    note: Note,
    done: usize,
}

impl<'a> Run<'a> {
    /// Opens the folder where its note says the script stands.
    pub fn open(history: &'a History, folder: &'a Path) -> Result<Self, Failure> {
        let note = note(folder);
        let done = note.read().unwrap().0 as usize;
        let mut run =
            Self { history, folder, index: None, report: OpenReport::default(), note, done };
        run.reopen(history.window(done))?;
        Ok(run)
    }

    fn phase(&self, phase: Phase) {
        self.note.write(self.done as u64, phase as u64).unwrap();
    }

    fn reopen(&mut self, window: u64) -> Result<(), Failure> {
        self.phase(Phase::Open);
        self.index = None;
        let (index, report) = self.open_index(window).map_err(Failure::Open)?;
        self.index = Some(index);
        self.report = report;
        self.phase(Phase::Idle);
        Ok(())
    }

    fn open_index(&self, window: u64) -> Result<(ChainIndex, OpenReport), OpenError> {
        let options = self.history.options(window);
        ChainIndex::open(&data(self.folder), NETWORK, options, &[])
    }

    pub fn index(&mut self) -> &mut ChainIndex {
        self.index.as_mut().unwrap()
    }

    pub fn reader(&self) -> Reader {
        self.index.as_ref().unwrap().reader()
    }

    /// Where the index stands in the tree.
    pub fn tip(&self) -> Option<BlockId> {
        let point = self.index.as_ref().unwrap().tip();
        point.map(|point| self.history.find(point).expect("a block of the history"))
    }

    /// Carries the rest of the script out.
    pub fn finish(&mut self) -> Result<(), Failure> {
        while self.done < self.history.steps.len() {
            self.step()?;
        }
        Ok(())
    }

    fn step(&mut self) -> Result<(), Failure> {
        let history = self.history;
        let step = &history.steps[self.done];
        let tip = self.tip();
        self.phase(step.phase());
        match step {
            Step::Open { window } => self.reopen(*window)?,
            Step::Bulk(blocks) => self.bulk(blocks, tip)?,
            Step::Apply(block) => {
                let block = prepare(history.nodes[*block].block.clone());
                self.index().apply(block).map_err(Failure::Apply)?;
            }
            Step::Rollback(target) => {
                let point = history.point(*target);
                let target = RollbackTarget::Point { height: point.height, hash: point.hash };
                self.index().rollback(target).map_err(Failure::Rollback)?;
            }
            Step::Prune => {
                self.index().prune().map_err(Failure::Store)?;
            }
        }
        self.done += 1;
        self.phase(Phase::Idle);
        Ok(())
    }

    /// Feeds what is not there yet.
    fn bulk(&mut self, blocks: &[BlockId], tip: Option<BlockId>) -> Result<(), Failure> {
        let known = blocks.iter().position(|block| Some(*block) == tip).map_or(0, |at| at + 1);
        let history = self.history;
        let rest = &blocks[known..];
        let mut bulk = self.index().bulk(rest.len() as u64);
        for block in rest {
            let block = prepare(history.nodes[*block].block.clone());
            bulk.apply(block).map_err(Failure::Apply)?;
        }
        bulk.finish().map_err(Failure::Store)
    }

    /// The folder is consistent and stands at a tip that a crash may leave.
    pub fn check_boundary(&self, what: &str) {
        self.check_tip(what);
        assert_eq!(self.report.torn, None, "{what}: a killed process loses nothing");
    }

    /// The same without what the store says of lost blocks: its note can't be written on a full disk.
    pub fn check_tip(&self, what: &str) {
        let tip = self.tip();
        let possible = self.history.possible_tips(self.done);
        let step = self.history.steps.get(self.done);
        assert!(
            possible.contains(&tip),
            "{what}: after {} steps, in {step:?}, the tip is block {tip:?}, not one of {possible:?}",
            self.done
        );
        self.check_contents(what);
    }

    /// The contents are exactly those of the tip.
    pub fn check_contents(&self, what: &str) {
        let reader = self.reader();
        let report = reader.verify(&mut |_| {}).unwrap_or_else(|e| panic!("{what}: {e}"));
        assert!(report.is_clean(), "{what}: {:?}", report.findings);
        assert_eq!(report.missing_inputs, 0, "{what}");
        let digest = reader.digest().unwrap_or_else(|e| panic!("{what}: {e}"));
        assert_eq!(digest, self.history.digest(self.tip()), "{what}");
    }

    /// The rest of the script leads to the state that an undisturbed run reaches.
    pub fn check_convergence(&mut self, what: &str) {
        self.finish().unwrap_or_else(|failure| panic!("{what}: {failure:?}"));
        assert_eq!(self.tip(), self.history.tip_after(self.history.steps.len()), "{what}");
        self.check_contents(what);
    }
}

#[test]
fn an_undisturbed_run_ends_where_the_plain_model_does() {
    for (self_contained, store) in [
        (false, StoreKind::Classic),
        (true, StoreKind::Classic),
        (false, StoreKind::Mmr),
        (true, StoreKind::Mmr),
    ] {
        for history in [History::long(1, self_contained), History::short(1, self_contained)] {
            let history = history.on(store);
            let folder = crate::scratch();
            let mut run = Run::open(&history, folder.path()).unwrap();
            while run.done < history.steps.len() {
                run.step().unwrap();
                assert_eq!(run.tip(), history.tip_after(run.done));
                run.check_contents(&format!("step {}", run.done));
            }
        }
    }
}

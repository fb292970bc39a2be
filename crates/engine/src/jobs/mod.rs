//! What is done from time to time, each with a budget.
//!
//! [`table`] lists the jobs: a further room's job is one more row there and one function. Jobs that
//! speak to the node run on a thread of their own, so that a slow node keeps no upkeep waiting.

mod lane;
mod upkeep;

use std::{
    sync::{Arc, Mutex},
    time::Duration,
};

use crossbeam_channel::Sender;

pub(crate) use lane::{Ask, Lane, Line};

use crate::{
    config::Jobs, follow::chain::Order, mempool::Mempool, pulse::hold, shared::Shared,
    source::Node, status::JobKind,
};

/// What came of a run.
pub(crate) enum Outcome {
    /// It is done, and this is what it did.
    Done(String),
    /// Something is missing; it is tried again soon.
    Later(String),
}

/// What a job does. It is told whether somebody asked for this very run.
type Run = Box<dyn FnMut(&Shared, bool) -> Result<Outcome, String> + Send>;

/// One job.
pub(crate) struct Job {
    pub(crate) kind: JobKind,
    pub(crate) every: Duration,
    pub(crate) line: Line,
    pub(crate) run: Run,
}

/// What the jobs work with.
pub(crate) struct Tools {
    /// To the chain room's thread; absent when the room is off.
    pub(crate) chain: Option<Sender<Order>>,
    pub(crate) has_wallets: bool,
    pub(crate) node: Option<Arc<dyn Node>>,
}

/// Every job that these rooms and this source allow, in the order in which they run.
pub(crate) fn table(jobs: Jobs, tools: Tools) -> Vec<Job> {
    let mut table = Vec::new();
    if let Some(orders) = tools.chain {
        table.push(Job {
            kind: JobKind::PruneChain,
            every: jobs.prune_every,
            line: Line::Upkeep,
            run: Box::new(move |shared, _| upkeep::prune(shared, &orders, jobs.prune_passes)),
        });
    }
    if tools.has_wallets {
        table.push(Job {
            kind: JobKind::PurgeLeases,
            every: jobs.purge_leases_every,
            line: Line::Upkeep,
            run: Box::new(|shared, _| upkeep::purge_leases(shared)),
        });
    }
    table.push(Job {
        kind: JobKind::Measure,
        every: jobs.measure_every,
        line: Line::Upkeep,
        run: Box::new(|shared, _| upkeep::measure(shared)),
    });
    if let Some(node) = tools.node.filter(|_| tools.has_wallets) {
        node_jobs(&mut table, jobs, node);
    }
    table
}

fn node_jobs(table: &mut Vec<Job>, jobs: Jobs, node: Arc<dyn Node>) {
    let mempool = Arc::new(Mutex::new(Mempool::new(node)));
    let reading = mempool.clone();
    table.push(Job {
        kind: JobKind::Rebroadcast,
        every: jobs.rebroadcast_every,
        line: Line::Node,
        run: Box::new(move |shared, _| hold(&mempool).send(shared, jobs.rebroadcast_limit)),
    });
    table.push(Job {
        kind: JobKind::ReadMempool,
        every: jobs.mempool_every,
        line: Line::Node,
        run: Box::new(move |shared, is_asked_for| {
            let mut mempool = hold(&reading);
            if is_asked_for {
                mempool.forget();
            }
            mempool.read(shared, jobs.mempool_fetch)
        }),
    });
}

//! Wall time, CPU time, peak memory.

use std::{collections::BTreeMap, fs, process::Command, time::Instant};

/// What a phase measured.
#[derive(Default)]
pub struct Figures {
    pub blocks: f64,
    pub changes: f64,
    pub wall_s: f64,
    pub cpu_s: f64,
    pub extras: BTreeMap<String, String>,
}

/// A running measurement.
pub struct Clock {
    started: Instant,
    cpu: f64,
}

impl Clock {
    pub fn start() -> Self {
        Self { started: Instant::now(), cpu: cpu_seconds(MYSELF) }
    }

    pub fn stop(&self, blocks: usize, changes: usize) -> Figures {
        Figures {
            blocks: blocks as f64,
            changes: changes as f64,
            wall_s: self.started.elapsed().as_secs_f64(),
            cpu_s: cpu_seconds(MYSELF) - self.cpu,
            extras: BTreeMap::from([("peak memory".to_owned(), format!("{} MB", peak_mb(MYSELF)))]),
        }
    }
}

/// The kernel's name of the process that asks.
const MYSELF: &str = "self";

/// User and system time of all threads, in seconds. The kernel counts in ticks of 10 ms.
pub fn cpu_seconds(process: &str) -> f64 {
    ticks(process, 11)
}

/// The same of all child processes that have ended.
pub fn children_cpu_seconds() -> f64 {
    ticks(MYSELF, 13)
}

/// Two numbers of ticks from a process's line, added up, in seconds.
fn ticks(process: &str, at: usize) -> f64 {
    let stat = fs::read_to_string(format!("/proc/{process}/stat")).expect("procfs");
    let behind_name = stat.rsplit(')').next().expect("a name in parentheses");
    let fields: Vec<&str> = behind_name.split_whitespace().collect();
    let ticks: f64 =
        fields[at..at + 2].iter().map(|ticks| ticks.parse::<f64>().expect("ticks")).sum();
    ticks / 100.0
}

pub fn peak_mb(process: &str) -> u64 {
    let status = fs::read_to_string(format!("/proc/{process}/status")).expect("procfs");
    let line = status.lines().find(|line| line.starts_with("VmHWM")).expect("VmHWM");
    line.split_whitespace().nth(1).and_then(|kb| kb.parse::<u64>().ok()).expect("kB") / 1024
}

const MARK: &str = "FIGURES";

impl Figures {
    pub fn with(mut self, name: &str, value: impl Into<String>) -> Self {
        self.extras.insert(name.to_owned(), value.into());
        self
    }

    pub fn print_line(&self) {
        let Self { blocks, changes, wall_s, cpu_s, extras } = self;
        println!("{MARK}\t{blocks}\t{changes}\t{wall_s}\t{cpu_s}");
        for (name, value) in extras {
            println!("{MARK}+\t{name}\t{value}");
        }
    }

    fn parse(output: &str) -> Self {
        let mut figures = Self::default();
        for line in output.lines() {
            let parts: Vec<&str> = line.split('\t').collect();
            match parts[..] {
                [MARK, blocks, changes, wall, cpu] => {
                    let number = |text: &str| text.parse().expect("a number");
                    figures.blocks = number(blocks);
                    figures.changes = number(changes);
                    figures.wall_s = number(wall);
                    figures.cpu_s = number(cpu);
                }
                ["FIGURES+", name, value] => {
                    figures.extras.insert(name.to_owned(), value.to_owned());
                }
                _ => {}
            }
        }
        assert!(output.contains(MARK), "the phase measured nothing:\n{output}");
        figures
    }

    fn cpu_ms_per_block(&self) -> f64 {
        1_000.0 * self.cpu_s / self.blocks
    }

    /// One line; with CPU per block as a multiple of each that it stands beside.
    pub fn show<'a>(&self, name: &str, beside: impl IntoIterator<Item = (&'a Self, &'a str)>) {
        let ratio = |(other, what): (&Self, &str)| {
            format!("  {:.2}x {what}", self.cpu_ms_per_block() / other.cpu_ms_per_block())
        };
        let ratio: String = beside.into_iter().map(ratio).collect();
        println!(
            "{name:<32} {:>9.1} blocks/s {:>11.0} coin changes/s {:>8.3} ms CPU/block{ratio}",
            self.blocks / self.wall_s,
            self.changes / self.wall_s,
            self.cpu_ms_per_block(),
        );
    }

    pub fn show_extras(&self) {
        for (name, value) in &self.extras {
            println!("  {name:<40} {value}");
        }
    }
}

/// Runs a phase in a process of its own.
pub fn child(phase: &str) -> Figures {
    child_with(phase, &[])
}

/// The same with settings in its environment.
pub fn child_with(phase: &str, settings: &[(&str, &str)]) -> Figures {
    eprintln!("measuring {phase} ...");
    let me = std::env::current_exe().expect("my own path");
    let mut command = Command::new(me);
    command.args(["--phase", phase]).envs(settings.iter().copied());
    let output = command.output().expect("a child process");
    let stdout = String::from_utf8_lossy(&output.stdout);
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{phase} failed: {stderr}");
    Figures::parse(&stdout)
}

/// The value below which `share` of the sorted `times` lie, in milliseconds.
pub fn percentile(times: &mut [f64], share: f64) -> f64 {
    times.sort_by(f64::total_cmp);
    let at = ((times.len() as f64 - 1.0) * share).round() as usize;
    times[at]
}

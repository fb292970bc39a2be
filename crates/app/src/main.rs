//! The one binary.

/// Coins are made on one thread and freed on another, which this allocator does at half the cost.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> std::process::ExitCode {
    unspent::main()
}

//! The one binary.

fn main() -> std::process::ExitCode {
    unspent::main()
}

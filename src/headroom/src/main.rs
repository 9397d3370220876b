//! Entry point.

use std::process::ExitCode;

fn main() -> ExitCode {
    headroom::main()
}

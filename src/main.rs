//! The door of the process: hands over to the command line and does nothing else.

use std::process::ExitCode;

fn main() -> ExitCode {
    headroom::cli::main()
}

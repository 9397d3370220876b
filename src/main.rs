//! The door of the process: hands over to the command line and does nothing else.

fn main() {}

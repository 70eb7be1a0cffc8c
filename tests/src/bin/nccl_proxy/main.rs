//! A program that uses the network plugin as NCCL does: `nccl_proxy SCENARIO [ARGUMENT…]`.
//!
//! Prints `OK`, with or without a word more, if all went as it should. Whatever did not is a panic or an error.

mod faults;
mod killed;
mod left;
mod manners;
mod stream;
mod transfers;

use std::error::Error;
use std::process::ExitCode;

type Outcome = Result<String, Box<dyn Error>>;

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    let outcome = match arguments[..] {
        ["versions"] => transfers::versions(),
        ["longest"] => transfers::longest(),
        ["slices", version] => transfers::slices(version),
        ["kinds", version] => transfers::kinds(version),
        ["counts"] => transfers::counts(),
        ["lines", version] => transfers::lines(version),
        ["strangers"] => faults::strangers(),
        ["handles"] => faults::handles(),
        ["cut"] => faults::cut(),
        ["killed", file] => killed::killed(file),
        ["damage"] => faults::damage(),
        ["misuse"] => faults::misuse(),
        ["mixed"] => faults::mixed(),
        ["missing"] => faults::missing(),
        ["crowd"] => manners::crowd(),
        ["close"] => manners::close(),
        ["abort"] => manners::abort(),
        ["deregister"] => manners::deregister(),
        ["listeners"] => left::listeners(),
        ["child"] => left::child(),
        ["threads"] => manners::threads(),
        ["fork"] => manners::fork(),
        ["receive", file, slice] => stream::receive(file, slice),
        ["send", handle, file, slice, seconds] => stream::send(handle, file, slice, seconds),
        _ => {
            eprintln!("usage: nccl_proxy SCENARIO [ARGUMENT...]");
            return ExitCode::from(2);
        }
    };
    match outcome {
        Ok(word) => {
            println!("OK {word}");
            ExitCode::SUCCESS
        }
        Err(error) => {
            println!("{error}; the plugin said {:?}", mgcomp_tests::proxy::said());
            ExitCode::FAILURE
        }
    }
}

//! `mgcomp completions` and `mgcomp man`: what shells and readers of manuals want.

use clap::CommandFactory;
use clap_complete::Shell;

use crate::error::CliError;
use crate::output::{name, print};

/// Print what lets a shell complete the words of this program.
#[derive(clap::Args, Debug)]
pub(crate) struct CompletionsArgs {
    /// For which shell
    #[arg(value_enum)]
    shell: Shell,
}

/// Print the manual page, or that of one command.
#[derive(clap::Args, Debug)]
pub(crate) struct ManArgs {
    /// Of this command
    command: Option<String>,
}

pub(crate) fn completions(args: &CompletionsArgs) -> Result<(), CliError> {
    let mut text = Vec::new();
    clap_complete::generate(args.shell, &mut crate::Cli::command(), "mgcomp", &mut text);
    print(&String::from_utf8_lossy(&text))
}

pub(crate) fn man(args: &ManArgs) -> Result<(), CliError> {
    let mut program = crate::Cli::command();
    program.build();
    let command = match &args.command {
        None => program,
        Some(wanted) => {
            let known = program.find_subcommand(wanted).cloned();
            known.ok_or_else(|| CliError::NoCommand { name: wanted.clone() })?
        }
    };
    let mut text = Vec::new();
    let page = clap_mangen::Man::new(command).source(concat!("mgcomp ", env!("CARGO_PKG_VERSION")));
    let rendered = page.render(&mut text);
    rendered.map_err(|source| CliError::Write { name: name(std::path::Path::new("-")), source })?;
    print(&String::from_utf8_lossy(&text))
}

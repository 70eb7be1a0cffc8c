//! `mgcomp completions` and `mgcomp man`: what shells and readers of manuals want.

use clap::{Command, CommandFactory};
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
    clap_complete::generate(args.shell, &mut program(), "mgcomp", &mut text);
    print(&String::from_utf8_lossy(&text))
}

pub(crate) fn man(args: &ManArgs) -> Result<(), CliError> {
    let mut program = program();
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

/// The program with the commands that are for people. Those that it starts itself with, which are hidden, shells would offer as well.
fn program() -> Command {
    let all = crate::Cli::command();
    // None can be taken away of those that there are.
    let program = Command::new("mgcomp").subcommand_required(true).arg_required_else_help(true);
    program
        .version(env!("CARGO_PKG_VERSION"))
        .about(all.get_about().cloned().unwrap_or_default())
        .subcommands(all.get_subcommands().filter(|command| !command.is_hide_set()).cloned())
}

#[cfg(test)]
mod tests {
    use clap::ValueEnum;

    use super::*;

    #[test]
    fn shells_offer_what_is_for_people_and_all_of_it() {
        let all = crate::Cli::command();
        let (hidden, shown): (Vec<&Command>, Vec<&Command>) =
            all.get_subcommands().partition(|command| command.is_hide_set());
        assert_eq!(
            hidden.iter().map(|command| command.get_name()).collect::<Vec<_>>(),
            ["demo-rank", "perf-rank"]
        );
        for shell in Shell::value_variants() {
            let mut text = Vec::new();
            clap_complete::generate(*shell, &mut program(), "mgcomp", &mut text);
            let text = String::from_utf8(text).unwrap();
            assert!(!hidden.iter().any(|command| text.contains(command.get_name())), "{shell}");
            assert!(shown.iter().all(|command| text.contains(command.get_name())), "{shell}");
        }
    }

    #[test]
    fn the_program_is_the_same_but_for_what_is_hidden() {
        let help = |mut program: Command| program.render_long_help().to_string();
        assert_eq!(help(program()), help(crate::Cli::command()));
        assert_eq!(program().render_version(), crate::Cli::command().render_version());
    }
}

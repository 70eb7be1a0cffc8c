//! Ranks that are processes of this program: how the one that starts them and they speak, a line of JSON at a time.

use std::fs::File;
use std::io::{self, Read, Write};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};

use serde::Serialize;
use serde::de::DeserializeOwned;

/// A rank that was started: its process, what it is told by, and what it answers by.
pub(crate) type Started = (Child, ChildStdin, ChildStdout);

/// This program, to be started as the subcommand `rank`.
pub(crate) fn command(rank: &str) -> io::Result<Command> {
    let mut command = Command::new(std::env::current_exe()?);
    command.arg(rank);
    Ok(command)
}

/// Starts a rank.
pub(crate) fn start(command: &mut Command) -> io::Result<Started> {
    let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn()?;
    match (child.stdin.take(), child.stdout.take()) {
        (Some(orders), Some(answers)) => Ok((child, orders, answers)),
        _ => Err(io::ErrorKind::BrokenPipe.into()),
    }
}

/// Says something in a line.
pub(crate) fn say(what: &impl Serialize, to: &mut impl Write) -> io::Result<()> {
    let line = serde_json::to_string(what)?;
    writeln!(to, "{line}").and_then(|()| to.flush())
}

/// What a line says, if it is of this kind.
pub(crate) fn heard<T: DeserializeOwned>(line: impl AsRef<[u8]>) -> Option<T> {
    serde_json::from_slice(line.as_ref()).ok()
}

/// What all ranks came to, where none failed; else why one did: what only became of its connections does not say that.
pub(crate) fn all_or_cause<T, E>(
    ranks: impl IntoIterator<Item = Result<T, E>>,
    is_of_connection: impl Fn(&E) -> bool,
) -> Result<Vec<T>, E> {
    let (mut done, mut gone) = (Vec::new(), None);
    for rank in ranks {
        match rank {
            Ok(what) => done.push(what),
            Err(error) if is_of_connection(&error) => gone = gone.or(Some(error)),
            Err(cause) => return Err(cause),
        }
    }
    gone.map_or(Ok(done), Err)
}

/// A job secret that nobody can guess, as a rank file spells it.
pub(crate) fn random_secret() -> io::Result<String> {
    let mut bytes = [0; 16];
    File::open("/dev/urandom")?.read_exact(&mut bytes)?;
    Ok(bytes.iter().map(|byte| format!("{byte:02x}")).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_said_is_heard() {
        let mut said = Vec::new();
        say(&("a\nb", 7), &mut said).unwrap();
        assert_eq!(said, b"[\"a\\nb\",7]\n");
        assert_eq!(heard(&said), Some(("a\nb".to_owned(), 7)));
        assert_eq!(heard::<(String, u32)>(b"NCCL INFO"), None);
    }

    #[test]
    fn what_says_why_comes_before_what_became_of_connections() {
        type Ends = Vec<Result<u32, &'static str>>;
        let said = |ranks: Ends| all_or_cause(ranks, |error| error.starts_with("gone"));
        assert_eq!(said(vec![Ok(3), Ok(0), Ok(1)]), Ok(vec![3, 0, 1]));
        assert_eq!(said(vec![Err("gone 0"), Err("gone 1"), Err("panicked")]), Err("panicked"));
        assert_eq!(said(vec![Ok(0), Ok(1), Err("panicked")]), Err("panicked"));
        assert_eq!(said(vec![Err("gone 0"), Err("gone 1"), Ok(2)]), Err("gone 0"));
        assert_eq!(said(vec![Ok(0), Err("gone 1")]), Err("gone 1"));
    }

    #[test]
    fn secrets_are_of_32_digits() {
        let [a, b] = [(); 2].map(|()| random_secret().unwrap());
        assert!(a.len() == 32 && a.bytes().all(|byte| byte.is_ascii_hexdigit()) && a != b, "{a} {b}");
    }
}

//! Writes the golden files that are missing, and none that is there: those are frozen.

use std::error::Error;
use std::process::ExitCode;

use mgcomp_tests::golden::{self, Frozen, cases};

fn main() -> Result<ExitCode, Box<dyn Error>> {
    let folder = golden::folder();
    std::fs::create_dir_all(&folder)?;
    let mut good = true;
    for case in cases::all() {
        for (name, content) in case.files()? {
            match golden::freeze(&folder, &name, &content)? {
                Frozen::Added => {
                    golden::list(&folder, &name, &content)?;
                    println!("{name}: {} bytes", content.len());
                }
                Frozen::Kept => {}
                Frozen::Differs => {
                    eprintln!("{name} is frozen and is something else: give the case another name");
                    good = false;
                }
            }
        }
    }
    Ok(if good { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

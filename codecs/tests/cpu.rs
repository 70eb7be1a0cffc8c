//! `MGCOMP_CPU`: what each value of it gives, in a process of its own.

use mgcomp_codecs::{CPU_VARIABLE, Cpu, CpuError, Isa};

/// What a process started with `value` in the variable takes from it.
fn choice(value: Option<&str>) -> String {
    let mut command = std::process::Command::new(std::env::current_exe().unwrap());
    command.args(["--ignored", "--exact", "--nocapture", "print_the_choice"]).env_remove(CPU_VARIABLE);
    command.envs(value.map(|value| (CPU_VARIABLE, value)));
    let output = command.output().unwrap();
    let text = String::from_utf8(output.stdout).unwrap();
    assert!(output.status.success(), "{text}");
    let line = text.lines().find_map(|line| line.split_once("choice: "));
    line.unwrap_or_else(|| panic!("no choice in {text:?}")).1.to_owned()
}

#[test]
#[ignore = "prints for the other tests, which start it"]
fn print_the_choice() {
    let wanted = match Cpu::from_env() {
        Ok(cpu) => cpu.isa().to_string(),
        Err(error) => error.to_string(),
    };
    println!("\nchoice: {wanted}; active {}", Cpu::active().isa());
}

#[test]
fn an_instruction_set_of_this_machine_is_taken() {
    for cpu in Cpu::available() {
        let name = cpu.isa().name();
        assert_eq!(choice(Some(name)), format!("{name}; active {name}"));
    }
}

#[test]
fn the_best_one_is_taken_where_nothing_is_asked_for() {
    let best = Cpu::detect().isa();
    assert_eq!(choice(None), format!("{best}; active {best}"));
    assert_eq!(choice(Some("")), format!("{best}; active {best}"));
}

#[test]
fn an_unknown_name_is_refused_and_the_library_stays_portable() {
    for value in ["nonsense", "AVX2", " avx2", "avx2,avx512"] {
        let expected = format!(
            "MGCOMP_CPU: unknown instruction set {value:?}; known: portable avx2 avx512; active portable"
        );
        assert_eq!(choice(Some(value)), expected);
    }
}

#[test]
fn an_instruction_set_that_this_machine_lacks_is_refused() {
    let missing: Vec<Isa> = Isa::ALL.into_iter().filter(|&isa| Cpu::on(isa).is_none()).collect();
    let best = Cpu::detect().isa();
    for wanted in &missing {
        let expected =
            format!("MGCOMP_CPU: this machine has no {wanted}; the best it has is {best}; active portable");
        assert_eq!(choice(Some(wanted.name())), expected);
    }
    if missing.is_empty() {
        println!("SKIPPED: this machine has every instruction set");
    }
    let error = CpuError::Missing { wanted: Isa::Avx512, best: Isa::Avx2 };
    assert_eq!(error.to_string(), "MGCOMP_CPU: this machine has no avx512; the best it has is avx2");
}

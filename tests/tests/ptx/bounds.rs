//! The table of bounds says what the PTX that ships takes. What it says of machine code takes a compiler and a disassembler,
//! which are not here.

use mgcomp_tests::bounds;

#[test]
fn the_table_is_of_the_ptx_that_ships() {
    let table = std::fs::read_to_string(bounds::path()).expect("the table");
    let starts = bounds::starts_of_rows().expect("good answers");
    let rows = table.lines().filter(|line| line.starts_with("| `")).count();
    // The rows of kernels, and of those that explain columns none.
    assert_eq!(rows, starts.len(), "renew it: {}", bounds::RENEW);
    for start in starts {
        let found = table.lines().any(|line| line.starts_with(&start));
        assert!(found, "no row {start}; renew it: {}", bounds::RENEW);
    }
}

//! Snapshots of small simulations, for those who have no others.

use mgcomp_codecs::Element;

use super::snapshot::{Class, Snapshot};

/// Cells along each axis of a field.
const SIDE: usize = 48;
/// Steps of a simulation.
const STEPS: usize = 40;

/// A field after heat has spread in it, in single and double precision, and the columns of the matrix that does
/// a step.
pub(super) fn snapshots() -> impl Iterator<Item = Snapshot> {
    let field = heat();
    let snapshot = |label: &str, element, bytes| Snapshot {
        label: format!("generated: {label}"),
        class: Class::Hpc,
        element,
        bytes,
    };
    let single = field.iter().flat_map(|&value| (value as f32).to_le_bytes()).collect();
    let double = field.iter().flat_map(|value| value.to_le_bytes()).collect();
    [
        snapshot("heat f32", Element::F32, single),
        snapshot("heat f64", Element::F64, double),
        snapshot("stencil columns u32", Element::U32, columns()),
    ]
    .into_iter()
}

/// Hot and cold cells in a cube of one temperature, after some steps.
fn heat() -> Vec<f64> {
    let mut field = vec![1.0; SIDE * SIDE * SIDE];
    for source in 0..40 {
        // Cells far from each other, alternately hot and cold.
        field[(source * 6_577 + 4_321) % (SIDE * SIDE * SIDE)] = if source % 2 == 0 { 900.0 } else { -300.0 };
    }
    for _ in 0..STEPS {
        let before = field.clone();
        for (cell, value) in field.iter_mut().enumerate() {
            let around: f64 = neighbours(cell).map(|other| before[other]).sum();
            *value = before[cell] + 0.12 * (around - 6.0 * before[cell]);
        }
    }
    field
}

/// The six cells around a cell; the cube goes on at its other side.
fn neighbours(cell: usize) -> impl Iterator<Item = usize> {
    let at = [cell / (SIDE * SIDE), cell / SIDE % SIDE, cell % SIDE];
    (0..6).map(move |direction| {
        let mut at = at;
        let axis = direction / 2;
        at[axis] = (at[axis] + if direction % 2 == 0 { 1 } else { SIDE - 1 }) % SIDE;
        (at[0] * SIDE + at[1]) * SIDE + at[2]
    })
}

/// Column numbers of a matrix with a row for each cell: the cell and those around it.
fn columns() -> Vec<u8> {
    let mut bytes = Vec::new();
    for cell in 0..SIDE * SIDE * SIDE / 4 {
        let mut row: Vec<usize> = neighbours(cell).chain([cell]).collect();
        row.sort_unstable();
        bytes.extend(row.iter().flat_map(|&column| (column as u32).to_le_bytes()));
    }
    bytes
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn heat_spreads_and_stays() {
        let field = heat();
        let sum: f64 = field.iter().sum();
        // 20 cells of 900 and 20 of −300 among cells of 1.
        let expected = (SIDE * SIDE * SIDE - 40) as f64 + 20.0 * 600.0;
        assert!((sum / expected - 1.0).abs() < 1e-9, "{sum} {expected}");
        assert!(field.iter().all(|&value| (-300.0..900.0).contains(&value)));
    }

    #[test]
    fn cells_have_six_neighbours() {
        let mut around: Vec<usize> = neighbours(0).collect();
        around.sort_unstable();
        assert_eq!(around, [1, 47, 48, 47 * 48, 2304, 47 * 2304]);
    }
}

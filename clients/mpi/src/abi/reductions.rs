//! Which reductions are carried out here: predefined operations, on those predefined datatypes of 4 and 8 bytes that the standard
//! has them for. Shorter integers are left out: Open MPI adds them in vectors up to the greatest there is, and one by one beyond
//! it, so that its sums depend on where in a message a value lies.

use crate::types::{Op, Type};

/// Names of operations in the order of [`Reductions::operations`].
pub(super) const OPERATIONS: [&str; 10] =
    ["max", "min", "sum", "prod", "band", "bor", "bxor", "land", "lor", "lxor"];
/// Of these, the first ones are for Fortran's integers,
const OF_FORTRAN: usize = 7;
/// and the first ones of these for floats.
const OF_FLOATS: usize = 4;

/// The operations and the datatypes of an MPI.
#[derive(Clone, Debug)]
pub(crate) struct Reductions {
    pub(super) operations: [Op; OPERATIONS.len()],
    /// C's integers of 4 and 8 bytes.
    pub(super) integers: Vec<Type>,
    pub(super) fortran: Vec<Type>,
    pub(super) floats: Vec<Type>,
}

impl Reductions {
    /// Whether the operation is for the datatype. What is not known is not, be it right or wrong.
    pub(crate) fn have(&self, op: Op, datatype: Type) -> bool {
        let is_one_of = |types: &[Type]| types.contains(&datatype);
        let operations = match () {
            () if is_one_of(&self.integers) => self.operations.len(),
            () if is_one_of(&self.fortran) => OF_FORTRAN,
            () if is_one_of(&self.floats) => OF_FLOATS,
            () => 0,
        };
        self.operations[..operations].contains(&op)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn operations_are_for_what_the_standard_says() {
        let reductions = Reductions {
            operations: std::array::from_fn(|index| Op(100 + index)),
            integers: vec![Type(1), Type(2)],
            fortran: vec![Type(3)],
            floats: vec![Type(4)],
        };
        let of = |name| Op(100 + OPERATIONS.iter().position(|known| *known == name).unwrap());
        assert!(reductions.have(of("lxor"), Type(2)) && reductions.have(of("sum"), Type(1)));
        assert!(reductions.have(of("bxor"), Type(3)) && !reductions.have(of("land"), Type(3)));
        assert!(reductions.have(of("prod"), Type(4)) && !reductions.have(of("band"), Type(4)));
        assert!(!reductions.have(Op(7), Type(1)) && !reductions.have(of("sum"), Type(9)));
    }
}

//! The PTX that ships, run by a machine that is not the shim: it gives the portable frames and their bytes, and touches
//! nothing but its buffers. No GPU, no CUDA and no C++ compiler is needed.

mod bounds;
mod codecs;
mod hostile;
mod machine;
mod reduce;

use std::sync::OnceLock;

use mgcomp_codecs::Algorithm;
use mgcomp_tests::ptx::Kernels;
use mgcomp_tests::shim::sources;

/// The algorithms that have kernels.
fn algorithms() -> Vec<Algorithm> {
    let numbers: Vec<u8> = sources::codecs().map(|(_, number)| number).collect();
    Algorithm::ALL.into_iter().filter(|algorithm| numbers.contains(&algorithm.number())).collect()
}

/// The kernels of `algorithm` as they ship, read once.
fn kernels(algorithm: Algorithm) -> &'static Kernels {
    static KERNELS: [OnceLock<Kernels>; 16] = [const { OnceLock::new() }; 16];
    let shipped = || Kernels::shipped(algorithm).unwrap_or_else(|error| panic!("{algorithm}: {error}"));
    KERNELS[usize::from(algorithm.number())].get_or_init(shipped)
}

/// Tests of these names, each of the algorithm of its name.
macro_rules! of_each_algorithm {
    ($judge:ident: $($name:ident $algorithm:ident,)+) => {
        $(
            #[test]
            fn $name() {
                $judge(mgcomp_codecs::Algorithm::$algorithm);
            }
        )+

        #[test]
        fn no_algorithm_is_left_out() {
            assert_eq!(crate::algorithms(), [$(mgcomp_codecs::Algorithm::$algorithm),+]);
        }
    };
}
pub(crate) use of_each_algorithm;

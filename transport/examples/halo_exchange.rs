//! Heat that spreads over a plate: each rank has a tile of it, and in every step gets the cells around its tile from the
//! ranks beside it. At the end every rank compares its tile with that of a run without other ranks, bit by bit.
//!
//! The head of `ranks/mod.rs` says how to start it.

mod ranks;

use std::process::ExitCode;

use mgcomp_codecs::Element;
use mgcomp_transport::communicator::Communicator;
use mgcomp_transport::memory::HostBuffer;

/// Cells of a tile, without those around it.
const ROWS: usize = 96;
const COLUMNS: usize = 160;
const STEPS: usize = 60;

fn main() -> ExitCode {
    ranks::run(|world| {
        spread::<f32>(world)?;
        spread::<f64>(world)?;
        Ok(format!("{STEPS} steps of {ROWS} x {COLUMNS} cells as f32 and f64 equal those of one rank"))
    })
}

/// What cells hold.
trait Number: Copy + PartialEq {
    const ELEMENT: Element;
    fn of(number: f64) -> Self;
    fn mean(around: [Self; 4]) -> Self;
    fn bytes(numbers: &[Self]) -> Vec<u8>;
    fn numbers(bytes: &[u8]) -> Vec<Self>;
}

macro_rules! number {
    ($number:ident, $element:ident) => {
        impl Number for $number {
            const ELEMENT: Element = Element::$element;

            fn of(number: f64) -> Self {
                number as Self
            }

            fn mean([above, below, left, right]: [Self; 4]) -> Self {
                (above + below + left + right) / 4.0
            }

            fn bytes(numbers: &[Self]) -> Vec<u8> {
                numbers.iter().flat_map(|number| number.to_le_bytes()).collect()
            }

            fn numbers(bytes: &[u8]) -> Vec<Self> {
                let (words, _) = bytes.as_chunks();
                words.iter().map(|word| Self::from_le_bytes(*word)).collect()
            }
        }
    };
}

number!(f32, F32);
number!(f64, F64);

/// A part of the plate, with the cells around it.
#[derive(Clone)]
struct Tile<N> {
    rows: usize,
    columns: usize,
    /// `rows + 2` rows of `columns + 2` cells.
    cells: Vec<N>,
}

impl<N: Number> Tile<N> {
    /// The cells of the plate from this row and column on, as they are at first: hot stripes, which the edge stays.
    fn new((rows, columns): (usize, usize), (top, left): (usize, usize)) -> Self {
        let heat =
            |row: usize, column: usize| N::of(((top + row) * 31 % 17 * ((left + column) * 13 % 29)) as f64);
        let cells =
            (0..rows + 2).flat_map(|row| (0..columns + 2).map(move |column| heat(row, column))).collect();
        Self { rows, columns, cells }
    }

    fn at(&self, row: usize, column: usize) -> N {
        self.cells[row * (self.columns + 2) + column]
    }

    fn set(&mut self, row: usize, column: usize, cell: N) {
        self.cells[row * (self.columns + 2) + column] = cell;
    }

    /// Every cell becomes the mean of those around it.
    fn step(&mut self) {
        let before = self.clone();
        for row in 1..=self.rows {
            for column in 1..=self.columns {
                let around = [
                    before.at(row - 1, column),
                    before.at(row + 1, column),
                    before.at(row, column - 1),
                    before.at(row, column + 1),
                ];
                self.set(row, column, N::mean(around));
            }
        }
    }

    /// The places of the cells along a side: `depth` 0 for those around the tile, 1 for its own.
    fn side(&self, side: Side, depth: usize) -> Vec<(usize, usize)> {
        let (bottom, right) = (self.rows + 1 - depth, self.columns + 1 - depth);
        match side {
            Side::Above => (1..=self.columns).map(|column| (depth, column)).collect(),
            Side::Below => (1..=self.columns).map(|column| (bottom, column)).collect(),
            Side::Left => (1..=self.rows).map(|row| (row, depth)).collect(),
            Side::Right => (1..=self.rows).map(|row| (row, right)).collect(),
        }
    }
}

#[derive(Clone, Copy)]
enum Side {
    Above,
    Below,
    Left,
    Right,
}

impl Side {
    const ALL: [Self; 4] = [Self::Above, Self::Below, Self::Left, Self::Right];

    fn opposite(self) -> Self {
        [Self::Below, Self::Above, Self::Right, Self::Left][self as usize]
    }
}

/// Where the ranks are on the plate.
struct Layout {
    down: usize,
    across: usize,
}

impl Layout {
    /// As square as the number of ranks lets it be.
    fn of(ranks: usize) -> Self {
        let down = (1..=ranks).rev().find(|down| ranks.is_multiple_of(*down) && down * down <= ranks);
        let down = down.unwrap_or(1);
        Self { down, across: ranks / down }
    }

    fn place(&self, rank: usize) -> (usize, usize) {
        (rank / self.across, rank % self.across)
    }

    /// The rank on that side, if the plate does not end there.
    fn neighbour(&self, rank: usize, side: Side) -> Option<u32> {
        let (row, column) = self.place(rank);
        let (row, column) = match side {
            Side::Above => (row.checked_sub(1)?, column),
            Side::Below => (row + 1, column),
            Side::Left => (row, column.checked_sub(1)?),
            Side::Right => (row, column + 1),
        };
        (row < self.down && column < self.across).then_some((row * self.across + column) as u32)
    }
}

fn spread<N: Number>(world: &Communicator) -> Result<(), ranks::Failure> {
    let layout = Layout::of(world.size() as usize);
    let rank = world.rank() as usize;
    let (row, column) = layout.place(rank);
    let (top, left) = (row * ROWS, column * COLUMNS);
    let mut tile = Tile::<N>::new((ROWS, COLUMNS), (top, left));
    for _ in 0..STEPS {
        exchange(world, &layout, &mut tile)?;
        tile.step();
    }

    let mut plate = Tile::<N>::new((layout.down * ROWS, layout.across * COLUMNS), (0, 0));
    (0..STEPS).for_each(|_| plate.step());
    for row in 1..=ROWS {
        for column in 1..=COLUMNS {
            if tile.at(row, column) != plate.at(top + row, left + column) {
                return Err(format!("cell {row}, {column} differs").into());
            }
        }
    }
    Ok(())
}

/// Gets the cells around the tile from the ranks beside it, and gives them its own.
fn exchange<N: Number>(
    world: &Communicator,
    layout: &Layout,
    tile: &mut Tile<N>,
) -> Result<(), ranks::Failure> {
    let mut sending = Vec::new();
    let mut receiving = Vec::new();
    for side in Side::ALL {
        let Some(peer) = layout.neighbour(world.rank() as usize, side) else { continue };
        let own: Vec<N> = tile.side(side, 1).into_iter().map(|(row, column)| tile.at(row, column)).collect();
        let own = HostBuffer::from(N::bytes(&own));
        let theirs = HostBuffer::zeroed(own.len());
        // A message has the side of its sender as its tag.
        receiving.push((side, world.start_receive(peer, side.opposite() as u32, &theirs.all())?, theirs));
        sending.push(world.start_send(peer, side as u32, &own.all(), N::ELEMENT)?);
    }
    for (side, request, theirs) in receiving {
        request.wait()?;
        let cells = N::numbers(&theirs.all().to_vec());
        for ((row, column), cell) in tile.side(side, 0).into_iter().zip(cells) {
            tile.set(row, column, cell);
        }
    }
    sending.into_iter().try_for_each(|request| Ok(request.wait()?))
}

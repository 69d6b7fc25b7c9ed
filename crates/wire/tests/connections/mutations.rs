//! The properties that the fuzz targets check, on their seeds and on random mutations of these.

use std::path::Path;
use std::time::{Duration, Instant};

use crate::properties::{ALL, Property};
use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};

/// Mutations of the seeds of one property, and the time after which fewer are enough.
const MUTATIONS: usize = 2000;
const TIME: Duration = Duration::from_millis(400);

fn seeds(name: &str) -> Vec<Vec<u8>> {
    let directory = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz/seeds").join(name);
    let files = std::fs::read_dir(&directory).unwrap_or_else(|error| panic!("{}: {error}", directory.display()));
    let mut paths: Vec<_> = files.map(|file| file.unwrap().path()).collect();
    paths.sort();
    paths.iter().map(|path| std::fs::read(path).unwrap()).collect()
}

/// Changes, removes, repeats or inserts a few bytes, or continues with another seed.
fn mutate(input: &mut Vec<u8>, others: &[Vec<u8>], random: &mut StdRng) {
    for _ in 0..random.random_range(1..6) {
        let at = random.random_range(0..=input.len());
        let end = random.random_range(at..=input.len().min(at + 40));
        match random.random_range(0..7) {
            0 if at < input.len() => input[at] = random.random(),
            1 if at < input.len() => input[at] ^= 1 << random.random_range(0..8),
            2 => drop(input.drain(at..end)),
            3 => input.insert(at, random.random()),
            4 => {
                let piece = input[at..end].to_vec();
                drop(input.splice(at..at, piece));
            }
            5 => input.truncate(at.max(2)),
            _ => {
                let other = &others[random.random_range(0..others.len())];
                let from = random.random_range(0..=other.len());
                input.truncate(at);
                input.extend_from_slice(&other[from..]);
            }
        }
    }
}

fn check(name: &str, property: Property) {
    let seeds = seeds(name);
    assert!(!seeds.is_empty());
    seeds.iter().for_each(|seed| property(seed));
    let mut random = StdRng::seed_from_u64(0xf022);
    let begin = Instant::now();
    for round in 0..MUTATIONS {
        let mut input = seeds[round % seeds.len()].clone();
        mutate(&mut input, &seeds, &mut random);
        let result = std::panic::catch_unwind(|| property(&input));
        assert!(result.is_ok(), "{name} does not hold for {input:x?}");
        if begin.elapsed() > TIME {
            break;
        }
    }
}

#[test]
fn properties_hold_for_mutations_of_the_seeds() {
    for (name, property) in ALL {
        check(name, property);
    }
}

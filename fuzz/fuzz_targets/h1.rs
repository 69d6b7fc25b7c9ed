#![no_main]

libfuzzer_sys::fuzz_target!(|input: &[u8]| fuzz::properties::h1(input));

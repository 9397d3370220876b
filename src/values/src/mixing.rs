//! Numbers without order out of numbers that follow one another: for turns, shards and names. It is no secret and no checksum.

/// Another number for each number, as if by chance; 0 for 0. Source: splitmix64, its finalizer.
///
/// Replicas of two versions agree on shards by it: it must not change.
#[must_use]
pub const fn mixed(number: u64) -> u64 {
    let number = (number ^ (number >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let number = (number ^ (number >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    number ^ (number >> 31)
}

#[cfg(test)]
mod tests {
    use super::mixed;

    #[test]
    fn numbers_are_those_of_splitmix64() {
        // The first two of the generator with seed 0, which adds the golden ratio before it mixes.
        let golden = 0x9e37_79b9_7f4a_7c15_u64;
        assert_eq!(mixed(golden), 0xe220_a839_7b1d_cdaf);
        assert_eq!(mixed(golden.wrapping_mul(2)), 0x6e78_9e6a_a1b9_65f4);
        assert_eq!(mixed(0), 0);
    }
}

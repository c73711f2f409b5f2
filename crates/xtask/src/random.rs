//! Random numbers that are the same on every machine.

/// A small random number generator (xorshift64*).
pub(crate) struct Random(pub(crate) u64);

impl Random {
    pub(crate) fn next_number(&mut self) -> u64 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        self.0.wrapping_mul(0x2545_f491_4f6c_dd1d) >> 16
    }

    pub(crate) fn below(&mut self, limit: usize) -> usize {
        (self.next_number() % limit as u64) as usize
    }

    /// Returns a random number with a log-normal distribution: most are near the median, and a few
    /// are far above it.
    pub(crate) fn log_normal(&mut self, median: f64, sigma: f64) -> f64 {
        // The sum of twelve uniform numbers is close enough to a normal distribution.
        let normal =
            (0..12).map(|_| self.below(1 << 20) as f64).sum::<f64>() / f64::from(1 << 20) - 6.0;
        median * (sigma * normal).exp()
    }
}

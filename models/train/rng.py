"""A generator of random numbers whose sequence is fixed by its seed on every Python version (SplitMix64)."""

MASK = (1 << 64) - 1


class Rng:
    def __init__(self, seed):
        self.state = seed & MASK

    def next(self):
        self.state = (self.state + 0x9E3779B97F4A7C15) & MASK
        z = self.state
        z = ((z ^ (z >> 30)) * 0xBF58476D1CE4E5B9) & MASK
        z = ((z ^ (z >> 27)) * 0x94D049BB133111EB) & MASK
        return z ^ (z >> 31)

    def below(self, n):
        """0 <= result < n. The high bits scale to n; for n far below 2**64 the bias is nothing."""
        return (self.next() * n) >> 64

    def between(self, low, high):
        """low <= result <= high."""
        return low + self.below(high - low + 1)

    def choice(self, options):
        return options[self.below(len(options))]

    def percent(self, chance):
        return self.below(100) < chance

"""Statistics: estimates, intervals, tests, and the one comparison of two samples; they know no game and no study."""

"""Derives reference.json without the code under test: every assignment of signs, every choice of a sample, every pair, one
by one, in exact fractions. Probabilities are those that R's wilcox.test(exact = TRUE) and SciPy's wilcoxon and mannwhitneyu
(method = "exact") define for samples without ties and zeros; with them, the same sum over all flips or choices of the mean
ranks. Critical values come from counts in whole numbers, Student's quantiles from the closed form of his distribution (Abramowitz
and Stegun 26.7.3 and 26.7.4), normal ones from Python's statistics. `python3 derive.py > reference.json`."""
import functools, itertools, json, math, statistics
from fractions import Fraction as F


def ranks(values):
    """Mean ranks, from 1."""
    s = sorted(values)
    return [F(2 * s.index(v) + 1 + s.count(v), 2) for v in values]


def interval(sums, lowest, count, points, level):
    """The widest ranks with at most half of the rest outside on each side; sums: how often each value occurs."""
    half, below, out = (1 - level) / 2, F(0), None
    for c in range(len(points) // 2):
        below += F(sums.get(lowest + c, 0), count)
        if below > half:
            break
        out = [float(points[c]), float(points[-1 - c]), float(1 - 2 * below)]
    return out


def middle(points):
    n = len(points)
    return (points[(n - 1) // 2] + points[n // 2]) / 2


def two_sided(values, seen):
    low = F(sum(v <= seen for v in values), len(values))
    high = F(sum(v >= seen for v in values), len(values))
    return min(F(1), 2 * min(low, high))


def tally(values):
    out = {}
    for v in values:
        out[v] = out.get(v, 0) + 1
    return out


def paired(name, text, level):
    d = [F(t) for t in text]
    r = ranks([abs(v) for v in d])
    moving = [x for x, v in zip(r, d) if v != 0]
    w = sum(x for x, v in zip(r, d) if v > 0)
    all_sums = [sum(c) for c in itertools.product(*[(F(0), x) for x in moving])]
    plain = [sum(c) for c in itertools.product(*[(0, i + 1) for i in range(len(d))])]
    walsh = sorted((x + y) / 2 for i, x in enumerate(d) for y in d[i:])
    p = two_sided(all_sums, w)
    return dict(name=name, d=[float(v) for v in d], level=float(level), statistic=float(w), fraction=str(p), p=float(p),
                estimate=float(middle(walsh)), interval=interval(tally(plain), 0, len(plain), walsh, level))


def unpaired(name, a_text, b_text, level):
    a, b = [F(t) for t in a_text], [F(t) for t in b_text]
    r = ranks(a + b)
    least = len(b) * (len(b) + 1) // 2
    u = sum(r[len(a):]) - least
    all_sums = [sum(c) - least for c in itertools.combinations(r, len(b))]
    plain = [sum(c) - least for c in itertools.combinations(range(1, len(r) + 1), len(b))]
    apart = sorted(y - x for y in b for x in a)
    p = two_sided(all_sums, u)
    return dict(name=name, a=[float(v) for v in a], b=[float(v) for v in b], level=float(level), statistic=float(u), fraction=str(p),
                p=float(p), estimate=float(middle(apart)), interval=interval(tally(plain), 0, len(plain), apart, level))


def critical(counts, alpha):
    """The largest value with a two-sided probability of at most alpha; counts: how often each value occurs, symmetrical."""
    total, below = sum(counts), 0
    for c, n in enumerate(counts):
        below += n
        if F(2 * below, total) > alpha:
            return c - 1


def signed_rank_counts(n):
    """How many of the subsets of 1..n have each sum."""
    counts = [1]
    for r in range(1, n + 1):
        counts = [a + b for a, b in zip(counts + [0] * r, [0] * r + counts)]
    return counts


@functools.cache
def u_counts(m, n):
    """How many of the orders of m and n values have each U: the largest value is of the first sample, above n, or not."""
    if m == 0 or n == 0:
        return (1,)
    a, b = (0,) * n + u_counts(m - 1, n), u_counts(m, n - 1)
    return tuple((a[i] if i < len(a) else 0) + (b[i] if i < len(b) else 0) for i in range(m * n + 1))


def student(q, v):
    """The q-quantile for v degrees, q above a half."""
    def cdf(t):
        th = math.atan(t / math.sqrt(v))
        c, total, term = math.cos(th), 0.0, 1.0
        if v % 2:
            term = c
            for k in range(1, v - 1, 2):
                total += term
                term *= c * c * (k + 1) / (k + 2)
            return 0.5 + (th + math.sin(th) * total) / math.pi
        for k in range(0, v - 1, 2):
            total += term
            term *= c * c * (k + 1) / (k + 2)
        return 0.5 + math.sin(th) * total / 2
    low, high = 0.0, 1e4
    for _ in range(200):
        mid = (low + high) / 2
        low, high = (mid, high) if cdf(mid) < q else (low, mid)
    return low


L95, L99, L90 = F(95, 100), F(99, 100), F(90, 100)
before = "1.83 0.50 1.62 2.48 1.68 1.88 1.55 3.06 1.30".split()
after = "0.878 0.647 0.598 2.05 1.06 1.29 1.06 3.14 1.29".split()
depression = [str(F(x) - F(y)) for x, y in zip(before, after)]
reference = dict(
    paired=[
        paired("Hollander and Wolfe 1973, depression scores, the example of R's wilcox.test: V = 40", depression, L95),
        paired("eight, all on one side: 2/256", "3 1 4 15 9 2 6 5".split(), L99),
        paired("too few for any interval", "1 2 3 4 5".split(), L95),
        paired("six, just enough", "1.5 2 3 4 5 6.25".split(), L95),
        paired("ties", "1 1 -1 2 2 3 -3 4 4 5".split(), L95),
        paired("zeros", "0 0 1 -2 3 4 5 6 7".split(), L95),
        paired("zeros and ties", "0 1 1 -1 2 2 -2 0 3 5 8 13".split(), L90),
        paired("all the same: a clear difference without spread", "0.3 0.3 0.3 0.3 0.3 0.3 0.3 0.3".split(), L99),
        paired("nothing but zeros", "0 0 0 0 0 0 0".split(), L95),
        paired("twelve around zero", "-0.31 0.12 0.58 -0.77 0.05 0.91 -0.14 0.26 -0.49 0.33 -0.02 0.64".split(), L95),
        paired("sixteen", "0.11 -0.03 0.25 0.19 0.08 -0.12 0.31 0.02 0.17 0.22 -0.05 0.09 0.14 0.28 -0.01 0.35".split(), L99),
    ],
    unpaired=[
        unpaired("four against four, apart: 2/70", "1 2 3 4".split(), "5 6 7 8".split(), L95),
        unpaired("Hollander and Wolfe 1973, permeability of membranes",
                 "0.80 0.83 1.89 1.04 1.45 1.38 1.91 1.64 0.73 1.46".split(), "1.15 0.88 0.90 0.74 1.21".split(), L95),
        unpaired("ties", "1 2 2 3 5 5".split(), "2 4 5 6 6 7 9".split(), L95),
        unpaired("all the same", "2 2 2 2".split(), "2 2 2".split(), L95),
        unpaired("three against three: no interval", "1 2 3".split(), "4 5 6".split(), L95),
        unpaired("nine against eight", "17 22 8 31 5 12 40 27 19".split(), "25 33 48 14 52 29 37 44".split(), L99),
    ],
    signedrank=[dict(n=n, alpha=float(a), critical=critical(signed_rank_counts(n), a)) for a, least in ((F(5, 100), 6), (F(1, 100), 8)) for n in range(least, 31)],
    ranksum=[dict(n=n, alpha=float(a), critical=critical(u_counts(n, n), a)) for a, least in ((F(5, 100), 4), (F(1, 100), 5)) for n in range(least, 21)],
    student=[dict(q=q, degrees=v, value=student(q, v)) for q in (0.8, 0.975, 0.99, 0.995) for v in (*range(5, 31), 60, 200)],
    normal=[dict(q=q, value=statistics.NormalDist().inv_cdf(q)) for q in (0.01, 0.5, 0.75, 0.8, 0.975, 0.99, 0.995)],
)
print("{" + ",\n".join(json.dumps(k) + ": [\n" + ",\n".join(json.dumps(x) for x in v) + "\n]" for k, v in reference.items()) + "}")

/* One chunk of a pair, in the type T. Included for float and for double.
 *
 * SCALE: lifts differences and lines out of the subnormal numbers, where products round badly
 * LEAST, MOST: what T holds well; ROUNDED: the share of a number that rounding takes at most
 * SLACK: the share by which a point may be over the curve unseen
 * AHEAD: elements by which memory is asked for before its use */

/* A little under the curve, so that rounding hides no point over it; what T cannot hold well becomes 0. */
static T NAME(lowered)(double value)
{
    value *= SCALE * (1 - 8 * ROUNDED);
    return fabs(value) < LEAST ? 0 : value > MOST ? (T)MOST : (T)value;
}

/* The top stays where it is, for many points may be just as high; what rounding hides there, SLACK allows for. */
static NAME(Lines) NAME(lower)(const Lines *exact)
{
    double top = exact->top * SCALE;
    NAME(Lines) lines = {.top = LEAST < top && top < MOST ? (T)top : NAME(lowered)(exact->top)};
    lines.at_zero = (T)exact->at_zero; /* no rounding: c itself, of this type */
    for (int chord = 0; chord < CHORDS; chord++) {
        lines.slope[chord] = NAME(lowered)(exact->slope[chord]);
        lines.height[chord] = NAME(lowered)(exact->height[chord]);
    }
    return lines;
}

/* More than 0 where a difference is over the lines. */
static inline NAME(Vector) NAME(over)(const NAME(Lines) *lines, NAME(Vector) size, NAME(Vector) difference)
{
    NAME(Vector) floor = NAME(every)(lines->top);
    for (int chord = 0; chord < CHORDS; chord++)
        floor = NAME(smaller)(
            NAME(fused)(NAME(every)(lines->slope[chord]), size, NAME(every)(lines->height[chord])), floor);
    return NAME(fused)(difference, NAME(every)(SCALE), -floor);
}

/* True where a difference is over the lines, at r = 0 only if it is larger than any seen there before. */
static inline NAME(Mask) NAME(is_new)(const NAME(Lines) *lines, NAME(Vector) x, NAME(Vector) difference)
{
    NAME(Vector) size = NAME(absolute)(x), d = NAME(absolute)(difference);
    return (NAME(over)(lines, size, d) > 0) & ~((x == 0) & (d <= lines->at_zero));
}

typedef struct {
    NAME(Vector) r, rr, d, dd, rd, abs, top, low, high, least;
} NAME(Lanes);

static inline void NAME(add_to_sums)(NAME(Lanes) *lanes, NAME(Vector) x, NAME(Vector) d)
{
    lanes->r += x;
    lanes->rr = NAME(fused)(x, x, lanes->rr);
    lanes->d += d;
    lanes->dd = NAME(fused)(d, d, lanes->dd);
    lanes->rd = NAME(fused)(x, d, lanes->rd);
    lanes->abs += NAME(absolute)(d);
}

static inline void NAME(add_to_extremes)(NAME(Lanes) *lanes, NAME(Vector) x, NAME(Vector) d)
{
    lanes->top = NAME(larger)(NAME(absolute)(d), lanes->top);
    lanes->low = NAME(smaller)(x, lanes->low);
    lanes->high = NAME(larger)(x, lanes->high);
    lanes->least = NAME(smaller)(NAME(absolute)(x), lanes->least);
}

/* A bit for every strip of a whole block that holds points over the lines. */
static uint32_t NAME(mark_new)(const NAME(Lines) *lines, const T *r, const T *c)
{
    uint32_t marked = 0;
    for (int strip = 0; strip < BLOCK; strip += STRIP) {
        NAME(Mask) new = {0};
        for (int step = strip; step < strip + STRIP; step += LANES) {
            NAME(Vector) x = NAME(load)(r + step);
            new |= NAME(is_new)(lines, x, NAME(load)(c + step) - x);
        }
        marked |= (uint32_t)NAME(any)(new) << strip / STRIP;
    }
    return marked;
}

/* Every sum and extreme in one loop: memory is asked for ahead of its use, and arithmetic runs while it comes.
 * Registers just do for it, so it is not to be merged into its caller, and lines rise: where the largest difference of
 * a block is under them at its smallest |r|, all are. */
__attribute__((noinline)) static Sums NAME(sum_chunk)(const T *r, const T *c, int64_t n, const NAME(Lines) *lines)
{
    const NAME(Vector) infinity = NAME(every)(INFINITY);
    NAME(Lanes) lanes = {.low = infinity, .high = -infinity, .least = infinity};
    uint32_t marked = 0;
    int64_t at = 0;
    for (; at + BLOCK <= n; at += BLOCK) {
        for (int line = 0; line < BLOCK; line += 64 / (int)sizeof(T)) {
            __builtin_prefetch(r + at + AHEAD + line);
            __builtin_prefetch(c + at + AHEAD + line);
        }
        NAME(Lanes) few = {.low = lanes.low, .high = lanes.high, .least = infinity}; /* sums of sums lose fewer digits */
        for (int step = 0; step < BLOCK; step += LANES) {
            NAME(Vector) x = NAME(load)(r + at + step), d = NAME(load)(c + at + step) - x;
            NAME(add_to_sums)(&few, x, d);
            NAME(add_to_extremes)(&few, x, d);
        }
        if (NAME(any)(NAME(over)(lines, few.least, few.top) > 0))
            marked |= NAME(mark_new)(lines, r + at, c + at) << at / STRIP;
        lanes.r += few.r;
        lanes.rr += few.rr;
        lanes.d += few.d;
        lanes.dd += few.dd;
        lanes.rd += few.rd;
        lanes.abs += few.abs;
        lanes.low = few.low;
        lanes.high = few.high;
        lanes.top = NAME(larger)(few.top, lanes.top);
        lanes.least = NAME(smaller)(few.least, lanes.least);
    }
    for (; at < n; at += LANES) {
        NAME(Vector) x = NAME(load_some)(r + at, n - at), d = NAME(load_some)(c + at, n - at) - x;
        NAME(add_to_sums)(&lanes, x, d);
        if (n - at < LANES) { /* what fills up a vector must not be an extreme */
            x = NAME(load_part)(r + at, n - at, r[at]);
            d = NAME(load_part)(c + at, n - at, c[at]) - x;
        }
        NAME(add_to_extremes)(&lanes, x, d);
        marked |= (uint32_t)NAME(any)(NAME(is_new)(lines, x, d)) << at / STRIP;
    }
    return (Sums){.n = n, .r = NAME(total)(lanes.r), .rr = NAME(total)(lanes.rr), .d = NAME(total)(lanes.d),
                  .dd = NAME(total)(lanes.dd), .rd = NAME(total)(lanes.rd), .abs = NAME(total)(lanes.abs),
                  .top = NAME(largest)(lanes.top), .low = NAME(smallest)(lanes.low), .high = NAME(largest)(lanes.high),
                  .least = NAME(smallest)(lanes.least), .marked = marked};
}

/* Take the points of a strip into the curve. */
static void NAME(add_to_hull)(Scan *scan, const T *r, const T *c, int64_t n)
{
    const Vector_double zero = {0};
    Vector_double at_zero = {0};
    Hull *hull = &scan->figures->hull;
    for (int64_t at = 0; at < n; at += 4) {
        Vector_double x = NAME(widened)(r + at, n - at), d = absolute_double(NAME(widened)(c + at, n - at) - x);
        at_zero = larger_double(choose_double(x == 0, d, zero), at_zero);
        x = absolute_double(x);
        Vector_double over = choose_double(x == 0, zero, over_double(&scan->lines_double, x, d));
        if (!any_double(over > 0))
            continue;
        int changed = 0;
        for (int j = 0; j < 4; j++)
            if (over[j] > 0)
                changed |= add_point(hull, x[j], d[j]);
        if (changed)
            draw_lines(scan);
    }
    if (largest_double(at_zero) > hull->at_zero) {
        hull->at_zero = largest_double(at_zero);
        draw_lines(scan);
    }
}

/* The least that |y - slope * r|^2 can be for y = c, or c - r if `near`; it and rr, rd and rc in float64. */
static double NAME(exact_rest)(const T *r, const T *c, Sums *sums, int near, double slope)
{
    Vector_double rr = {0}, re = {0}, ee = {0};
    for (int64_t at = 0; at < sums->n; at += 4) {
        Vector_double x = NAME(widened)(r + at, sums->n - at), y = NAME(widened)(c + at, sums->n - at);
        Vector_double e = (near ? y - x : y) - slope * x;
        rr += x * x;
        re += x * e;
        ee += e * e;
    }
    double rest = total_double(re);
    sums->rr = total_double(rr);
    double along = slope * sums->rr + rest;
    sums->rc = near ? sums->rr + along : along;
    sums->rd = near ? along : along - sums->rr;
    return total_double(ee) - rest * (rest / sums->rr);
}

/* What is left of c without its part along r, which the cosine is made of: from the difference, unless that is large,
 * and in float64 where little is left. */
static double NAME(rest_of)(const T *r, const T *c, Sums *sums, double cc)
{
    int near = sums->dd <= sums->rr * FAR;
    double all = near ? sums->dd : cc, squares;
    sums->rc = sums->rr + sums->rd;
    if (sums->rr == 0 || all == 0 || !is_finite(sums->rr + all))
        return all;
    if (near)
        squares = sums->dd - sums->rd * (sums->rd / sums->rr);
    else
        squares = NAME(exact_rest)(r, c, sums, 0, 0);
    if (squares <= all * CANCELLED)
        squares = NAME(exact_rest)(r, c, sums, near, (near ? sums->rd : sums->rc) / sums->rr);
    return squares > 0 ? squares : 0;
}

/* Take in a largest difference, worked out in float64; `places` tells where elements were in the chunk, if moved. */
static void NAME(add_peak)(Figures *figures, const T *r, const T *c, const Sums *sums, const uint16_t *places,
                           int64_t start)
{
    /* differences of whole numbers have no rounding; in other data many may round to the largest */
    int exact = figures->reference.whole && figures->candidate.whole;
    if (!(sums->top * (exact ? 1 : 1 + 0x1p-22) > figures->max_abs))
        return;
    Vector_double most = {0};
    for (int64_t at = 0; at < sums->n; at += 4) {
        Vector_double d = NAME(widened)(c + at, sums->n - at) - NAME(widened)(r + at, sums->n - at);
        most = larger_double(absolute_double(d), most);
    }
    double peak = largest_double(most);
    if (!(peak > figures->max_abs))
        return;
    int64_t at = 0;
    while (fabs((double)c[at] - (double)r[at]) != peak)
        at++;
    figures->max_abs = peak;
    figures->argmax = start + (places ? places[at] : at);
    figures->reference_at_max = r[at];
    figures->candidate_at_max = c[at];
}

static int64_t NAME(count_zeros)(const T *values, int64_t n)
{
    NAME(Mask) zeros = {0};
    int64_t at = 0, rest = 0;
    for (; at + LANES <= n; at += LANES)
        zeros += NAME(load)(values + at) == 0;
    for (; at < n; at++)
        rest += values[at] == 0;
    return NAME(count)(zeros) + rest;
}

/* Take a chunk of finite elements into all figures; 0, and nothing taken in, where T cannot do it justice. */
static int NAME(add_finite)(Scan *scan, const T *r, const T *c, int64_t n, const uint16_t *places, int64_t start,
                            double *row)
{
    Figures *figures = scan->figures;
    Sums sums = NAME(sum_chunk)(r, c, n, &scan->NAME(lines));
    if (!IS_SAFE(&sums, r, c))
        return 0;
    figures->hull.slack = larger(SLACK, figures->hull.slack);
    if (is_nan(sums.rd))
        sums.rd = 0; /* infinities of both signs: float64 has overflowed */
    OneSide candidate = NAME(describe_candidate)(&figures->candidate, c, &sums);
    OneSide reference = {sums.r, sums.rr, sums.low, sums.high};
    NAME(add_side)(&figures->reference, r, n, &reference);
    NAME(add_side)(&figures->candidate, c, n, &candidate);
    NAME(add_peak)(figures, r, c, &sums, places, start);
    for (uint32_t marked = sums.top > 0 ? sums.marked : 0; marked; marked &= marked - 1) {
        int64_t at = __builtin_ctz(marked) * STRIP;
        NAME(add_to_hull)(scan, r + at, c + at, n - at < STRIP ? n - at : STRIP);
    }
    if (sums.least == 0)
        figures->zeros += NAME(count_zeros)(r, n);
    double rest = NAME(rest_of)(r, c, &sums, candidate.squares);
    add_sums(figures, row, &sums, candidate.squares, rest);
    return 1;
}

/* One chunk of a pair, in the type T. Included for float and for double.
 *
 * SCALE: lifts differences and lines out of the subnormal numbers, where products round badly
 * LEAST, MOST: what T holds well; AHEAD: elements by which memory is asked for before its use
 * CANCELLED: where less than this share of a sum of squares is left, digits are lost and it is worked out again
 * WHOLE_FROM: from here on every number of the type is a whole one */

typedef struct {
    T slope[CHORDS], height[CHORDS], top;
} NAME(Lines);

/* A little under the curve, so that rounding hides no point over it; what T cannot hold well becomes 0. */
static T NAME(lowered)(double value)
{
    value *= SCALE * (1 - 0x1p-20);
    return fabs(value) < LEAST ? 0 : value > MOST ? (T)MOST : (T)value;
}

static NAME(Lines) NAME(lines)(const Hull *hull)
{
    Lines exact = lines_under(hull);
    NAME(Lines) lines = {.top = NAME(lowered)(exact.top)};
    for (int chord = 0; chord < CHORDS; chord++) {
        lines.slope[chord] = NAME(lowered)(exact.slope[chord]);
        lines.height[chord] = NAME(lowered)(exact.height[chord]);
    }
    return lines;
}

static inline NAME(Vector) NAME(floor_at)(const NAME(Lines) *lines, NAME(Vector) x)
{
    NAME(Vector) floor = NAME(every)(lines->top);
    for (int chord = 0; chord < CHORDS; chord++)
        floor = NAME(smaller)(lines->slope[chord] * x + lines->height[chord], floor);
    return floor;
}

typedef struct {
    NAME(Vector) r, rr, d, dd, rd, abs, top, low, high, least, over;
} NAME(Lanes);

static inline void NAME(add_to_sums)(NAME(Lanes) *lanes, NAME(Vector) x, NAME(Vector) d)
{
    lanes->r += x;
    lanes->rr += x * x;
    lanes->d += d;
    lanes->dd += d * d;
    lanes->rd += x * d;
    lanes->abs += NAME(absolute)(d);
}

static inline void NAME(add_to_extremes)(NAME(Lanes) *lanes, const NAME(Lines) *lines, NAME(Vector) x, NAME(Vector) d)
{
    NAME(Vector) size = NAME(absolute)(x), difference = NAME(absolute)(d);
    lanes->top = NAME(larger)(difference, lanes->top);
    lanes->low = NAME(smaller)(x, lanes->low);
    lanes->high = NAME(larger)(x, lanes->high);
    lanes->least = NAME(smaller)(size, lanes->least);
    lanes->over = NAME(larger)(difference * (T)SCALE - NAME(floor_at)(lines, size), lanes->over);
}

/* Every sum and extreme in one loop: memory is asked for ahead of its use, and arithmetic runs while it comes. */
static Sums NAME(sum_chunk)(const T *r, const T *c, int64_t n, const NAME(Lines) *given)
{
    const NAME(Lines) lines = *given;
    NAME(Lanes) lanes = {.low = NAME(every)(INFINITY), .high = NAME(every)(-INFINITY),
                         .least = NAME(every)(INFINITY), .over = NAME(every)(-INFINITY)};
    int64_t at = 0;
    for (; at + 64 <= n; at += 64) {
        for (int line = 0; line < 64; line += 64 / (int)sizeof(T)) {
            __builtin_prefetch(r + at + AHEAD + line);
            __builtin_prefetch(c + at + AHEAD + line);
        }
        NAME(Lanes) few = {0}; /* sums of sums lose fewer digits */
        for (int64_t step = at; step < at + 64; step += LANES) {
            NAME(Vector) x = NAME(load)(r + step), d = NAME(load)(c + step) - x;
            NAME(add_to_sums)(&few, x, d);
            NAME(add_to_extremes)(&lanes, &lines, x, d);
        }
        lanes.r += few.r;
        lanes.rr += few.rr;
        lanes.d += few.d;
        lanes.dd += few.dd;
        lanes.rd += few.rd;
        lanes.abs += few.abs;
    }
    for (; at < n; at += LANES) {
        NAME(Vector) x = NAME(load_some)(r + at, n - at), d = NAME(load_some)(c + at, n - at) - x;
        NAME(add_to_sums)(&lanes, x, d);
        if (n - at < LANES) { /* what fills up a vector must not be an extreme */
            x = NAME(load_part)(r + at, n - at, r[at]);
            d = NAME(load_part)(c + at, n - at, c[at]) - x;
        }
        NAME(add_to_extremes)(&lanes, &lines, x, d);
    }
    return (Sums){.n = n, .r = NAME(total)(lanes.r), .rr = NAME(total)(lanes.rr), .d = NAME(total)(lanes.d),
                  .dd = NAME(total)(lanes.dd), .rd = NAME(total)(lanes.rd), .abs = NAME(total)(lanes.abs),
                  .top = NAME(largest)(lanes.top), .low = NAME(smallest)(lanes.low), .high = NAME(largest)(lanes.high),
                  .least = NAME(smallest)(lanes.least), .over = NAME(largest)(lanes.over)};
}

typedef T NAME(Four) __attribute__((vector_size(4 * sizeof(T))));

/* Four elements as float64; those beyond the end are 0. */
static inline Vector_double NAME(widened)(const T *values, int64_t left)
{
    NAME(Four) four = {0};
    if (left >= 4)
        memcpy(&four, values, sizeof four);
    else
        memcpy(&four, values, (size_t)left * sizeof(T));
    return __builtin_convertvector(four, Vector_double);
}

/* Whether all elements of a chunk are finite on both sides. */
static int NAME(are_finite)(const T *r, const T *c, int64_t n)
{
    NAME(Vector) sum = {0};
    for (int64_t at = 0; at < n; at += LANES) {
        NAME(Vector) x = NAME(load_some)(r + at, n - at), y = NAME(load_some)(c + at, n - at);
        sum += (x - x) + (y - y); /* 0, or NaN */
    }
    return NAME(total)(sum) == 0;
}

/* Sums and bounds of one side, in float64. */
static OneSide NAME(describe)(const T *values, int64_t n)
{
    Vector_double sum = {0}, squares = {0};
    NAME(Vector) low = NAME(every)(values[0]), high = low;
    for (int64_t at = 0; at < n; at += 4) {
        Vector_double value = NAME(widened)(values + at, n - at);
        sum += value;
        squares += value * value;
    }
    for (int64_t at = 0; at < n; at += LANES) {
        NAME(Vector) value = n - at < LANES ? NAME(load_part)(values + at, n - at, values[0]) : NAME(load)(values + at);
        low = NAME(smaller)(value, low);
        high = NAME(larger)(value, high);
    }
    return (OneSide){total_double(sum), total_double(squares), NAME(smallest)(low), NAME(largest)(high)};
}

static int NAME(are_whole)(const T *values, int64_t n)
{
    NAME(Mask) broken = {0};
    for (int64_t at = 0; at < n; at += LANES) {
        NAME(Vector) size = NAME(absolute)(NAME(load_some)(values + at, n - at));
        NAME(Vector) rounded = size + WHOLE_FROM - WHOLE_FROM;
        broken |= (size < WHOLE_FROM) & (rounded != size);
    }
    int any = 0;
    for (int j = 0; j < LANES; j++)
        any |= broken[j] != 0;
    return !any;
}

/* Mean and spread of one side joined to those before it (Chan, Golub and LeVeque). Where an offset drowns the spread,
 * or the sum is beyond float64, both are worked out from deviations from a first guess at the mean. */
static void NAME(add_side)(Side *side, const T *values, int64_t n, OneSide found)
{
    double mean = found.sum / (double)n, spread = found.squares - found.sum * mean;
    if (!isfinite(found.sum)) {
        mean = 0;
        for (int64_t i = 0; i < n; i++)
            mean += (double)values[i] / (double)n;
    }
    if (!(spread > found.squares * CANCELLED) && found.squares != 0) {
        Vector_double total = {0}, squares = {0};
        int64_t at = 0;
        for (; at + 4 <= n; at += 4) {
            Vector_double deviation = NAME(widened)(values + at, 4) - mean;
            total += deviation;
            squares += deviation * deviation;
        }
        for (; at < n; at++) {
            total[0] += values[at] - mean;
            squares[0] += (values[at] - mean) * (values[at] - mean);
        }
        double rest = total_double(total);
        spread = total_double(squares) - rest * rest / (double)n;
        spread = isnan(spread) ? INFINITY : spread > 0 ? spread : 0;
        mean += isfinite(rest) ? rest / (double)n : 0;
    }
    if (side->whole)
        side->whole = NAME(are_whole)(values, n);
    join_side(side, n, mean, spread, found.low, found.high);
}

/* Sums of the candidate: those of the reference and the difference, unless these say too little about it. */
static OneSide NAME(describe_candidate)(const Side *known, const T *c, const Sums *sums)
{
    double reach = sums->top * (1 + 0x1p-22);
    if (sums->dd > sums->rr * FAR || sums->low - reach < known->low || sums->high + reach > known->high)
        return NAME(describe)(c, sums->n);
    return (OneSide){sums->r + sums->d, sums->rr + 2 * sums->rd + sums->dd, known->low, known->high};
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
    if (sums->rr == 0 || all == 0 || !isfinite(sums->rr + all))
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
    if (!(sums->top * (1 + 0x1p-22) > figures->max_abs))
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
}

/* Take the points of a chunk into the curve; at least one of them may be over it. */
static void NAME(add_to_hull)(Hull *hull, const T *r, const T *c, int64_t n)
{
    const Lines lines = lines_under(hull);
    Vector_double at_zero = {0}, steepest = {0}, over = {0};
    for (int64_t at = 0; at < n; at += 4) {
        Vector_double x = NAME(widened)(r + at, n - at), d = absolute_double(NAME(widened)(c + at, n - at) - x);
        Mask_double is_zero = x == 0;
        Vector_double size = choose_double(is_zero, every_double(1), absolute_double(x));
        Vector_double moved = choose_double(is_zero, every_double(0), d);
        at_zero = larger_double(choose_double(is_zero, d, every_double(0)), at_zero);
        steepest = larger_double(moved / size, steepest);
        over = larger_double(moved - exact_floor_at(&lines, size), over);
    }
    double most = largest_double(over);
    hull->at_zero = larger(largest_double(at_zero), hull->at_zero);
    if (isinf(most)) {
        hull->at_zero = INFINITY; /* a difference beyond float64: no tolerance can be judged */
        steepest = every_double(0);
    }
    hull->steepest = larger(largest_double(steepest), hull->steepest);
    if (most <= 0)
        return;
    for (int64_t i = 0; i < n; i++) {
        double x = fabs((double)r[i]), d = fabs((double)c[i] - (double)r[i]);
        if (x == 0 || isinf(d) || d <= exact_floor_at(&lines, every_double(x))[0])
            continue;
        hull->steepest = larger(d / x, hull->steepest);
        add_corner(hull, x, d);
    }
}

/* Take a chunk of finite elements into all figures; 0, and nothing taken in, where T cannot do it justice. */
static int NAME(add_finite)(Figures *figures, const T *r, const T *c, int64_t n, const uint16_t *places, int64_t start,
                            double *row)
{
    NAME(Lines) lines = NAME(lines)(&figures->hull);
    Sums sums = NAME(sum_chunk)(r, c, n, &lines);
    if (!IS_SAFE(&sums))
        return 0;
    if (isnan(sums.rd))
        sums.rd = 0; /* infinities of both signs: float64 has overflowed */
    OneSide candidate = NAME(describe_candidate)(&figures->candidate, c, &sums);
    NAME(add_side)(&figures->reference, r, n, (OneSide){sums.r, sums.rr, sums.low, sums.high});
    NAME(add_side)(&figures->candidate, c, n, candidate);
    NAME(add_peak)(figures, r, c, &sums, places, start);
    if (sums.over > 0)
        NAME(add_to_hull)(&figures->hull, r, c, n);
    if (sums.least == 0)
        for (int64_t i = 0; i < n; i++)
            figures->zeros += r[i] == 0;
    double rest = NAME(rest_of)(r, c, &sums, candidate.squares);
    add_sums(figures, row, &sums, candidate.squares, rest);
    return 1;
}

/* Move what is finite on both sides to the front of `kept_r`, `kept_c`; count the rest. Returns how many there are. */
static int64_t NAME(sort_out)(Figures *figures, const T *r, const T *c, int64_t n, T *kept_r, T *kept_c,
                              uint16_t *places, int64_t start)
{
    T alone_r[CHUNK], alone_c[CHUNK];
    uint16_t mixed[CHUNK];
    int64_t kept = 0, few_r = 0, few_c = 0, mixed_count = 0;
    for (int64_t i = 0; i < n; i++) {
        int finite = (r[i] - r[i] == 0) & (c[i] - c[i] == 0);
        kept_r[kept] = r[i];
        kept_c[kept] = c[i];
        places[kept] = mixed[mixed_count] = (uint16_t)i;
        kept += finite;
        mixed_count += !finite;
    }
    int64_t nan_r = 0, nan_c = 0, both_nan = 0, equal = 0;
    for (int64_t k = 0; k < mixed_count; k++) {
        T x = r[mixed[k]], y = c[mixed[k]];
        int x_nan = x != x, y_nan = y != y;
        alone_r[few_r] = x;
        alone_c[few_c] = y;
        few_r += x - x == 0;
        few_c += y - y == 0;
        nan_r += x_nan;
        nan_c += y_nan;
        both_nan += x_nan & y_nan;
        equal += x == y;
        if (figures->first_both_nan < 0 && x_nan & y_nan)
            figures->first_both_nan = start + mixed[k];
        if (figures->first_conflict < 0 && !(x_nan & y_nan) && x != y)
            figures->first_conflict = start + mixed[k];
    }
    figures->reference.nan += nan_r;
    figures->candidate.nan += nan_c;
    figures->reference.inf += mixed_count - nan_r - few_r;
    figures->candidate.inf += mixed_count - nan_c - few_c;
    figures->both_nan += both_nan;
    figures->equal_inf += equal;
    figures->conflicting += mixed_count - both_nan - equal;
    if (few_r)
        NAME(add_side)(&figures->reference, alone_r, few_r, NAME(describe)(alone_r, few_r));
    if (few_c)
        NAME(add_side)(&figures->candidate, alone_c, few_c, NAME(describe)(alone_c, few_c));
    return kept;
}

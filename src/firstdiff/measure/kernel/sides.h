/* What a chunk says about either side, and about elements that are not finite. Included for float and for double.
 *
 * CANCELLED: where less than this share of a sum of squares is left, digits are lost and it is worked out again
 * WHOLE_FROM: from here on every number of the type is a whole one */

typedef T NAME(Four) __attribute__((vector_size(4 * sizeof(T))));

/* Four elements as float64; those beyond the end are 0. */
static inline Vector_double NAME(widened)(const T *values, int64_t left)
{
    NAME(Four) four, part = {0};
    if (left >= 4) {
        memcpy(&four, values, sizeof four);
        return __builtin_convertvector(four, Vector_double);
    }
    memcpy(&part, values, (size_t)left * sizeof(T));
    return __builtin_convertvector(part, Vector_double);
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

/* The smallest and largest of one side. */
static void NAME(find_bounds)(const T *values, int64_t n, OneSide *found)
{
    NAME(Vector) low = NAME(every)(values[0]), high = low;
    for (int64_t at = 0; at < n; at += LANES) {
        NAME(Vector) value = n - at < LANES ? NAME(load_part)(values + at, n - at, values[0]) : NAME(load)(values + at);
        low = NAME(smaller)(value, low);
        high = NAME(larger)(value, high);
    }
    found->low = NAME(smallest)(low);
    found->high = NAME(largest)(high);
}

/* Sums and bounds of one side, in float64. */
static OneSide NAME(describe)(const T *values, int64_t n)
{
    Vector_double sum = {0}, squares = {0};
    for (int64_t at = 0; at < n; at += 4) {
        Vector_double value = NAME(widened)(values + at, n - at);
        sum += value;
        squares += value * value;
    }
    OneSide found = {.sum = total_double(sum), .squares = total_double(squares)};
    NAME(find_bounds)(values, n, &found);
    return found;
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
static void NAME(add_side)(Side *side, const T *values, int64_t n, const OneSide *found)
{
    double mean = found->sum / (double)n, spread = found->squares - found->sum * mean;
    if (!is_finite(found->sum)) {
        mean = 0;
        for (int64_t i = 0; i < n; i++)
            mean += (double)values[i] / (double)n;
    }
    if (!(spread > found->squares * CANCELLED) && found->squares != 0) {
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
        spread = is_nan(spread) ? INFINITY : spread > 0 ? spread : 0;
        mean += is_finite(rest) ? rest / (double)n : 0;
    }
    if (side->whole)
        side->whole = NAME(are_whole)(values, n);
    join_side(side, n, mean, spread, found->low, found->high);
}

/* Sums of the candidate: those of the reference and the difference, unless that is large; bounds that lie within those
 * of earlier chunks are not looked for. */
static OneSide NAME(describe_candidate)(const Side *known, const T *c, const Sums *sums)
{
    if (sums->dd > sums->rr * FAR)
        return NAME(describe)(c, sums->n);
    OneSide found = {sums->r + sums->d, sums->rr + 2 * sums->rd + sums->dd, known->low, known->high};
    double reach = sums->top * (1 + 0x1p-22);
    if (sums->low - reach < known->low || sums->high + reach > known->high)
        NAME(find_bounds)(c, sums->n, &found);
    return found;
}

/* Take in the elements of one side that are finite where the other side is not. */
static void NAME(add_alone)(Side *side, const T *values, const T *others, int64_t n)
{
    T alone[CHUNK];
    int64_t few = 0;
    for (int64_t i = 0; i < n; i++) {
        alone[few] = values[i];
        few += (values[i] - values[i] == 0) & (others[i] - others[i] != 0);
    }
    if (few) {
        OneSide found = NAME(describe)(alone, few);
        NAME(add_side)(side, alone, few, &found);
    }
}

/* Note where the first NaN on both sides is, and the first NaN or infinity that the other side has not. */
static void NAME(find_first)(Figures *figures, const T *r, const T *c, int64_t n, int64_t start)
{
    for (int64_t i = n - 1; i >= 0; i--) {
        if ((r[i] - r[i] == 0) & (c[i] - c[i] == 0))
            continue;
        int both_nan = (r[i] != r[i]) & (c[i] != c[i]);
        if (both_nan)
            figures->first_both_nan = start + i;
        else if (r[i] != c[i])
            figures->first_conflict = start + i;
    }
}

/* Count NaN and infinities. Returns how many elements are finite on both sides. */
static int64_t NAME(count_nonfinite)(Figures *figures, const T *r, const T *c, int64_t n, int64_t start)
{
    NAME(Mask) nan_r = {0}, nan_c = {0}, inf_r = {0}, inf_c = {0}, both_nan = {0}, equal_inf = {0}, mixed = {0};
    for (int64_t at = 0; at < n; at += LANES) { /* beyond the end there are zeros, which are finite */
        NAME(Vector) x = NAME(load_some)(r + at, n - at), y = NAME(load_some)(c + at, n - at);
        __builtin_prefetch(r + at + AHEAD);
        __builtin_prefetch(c + at + AHEAD);
        NAME(Mask) x_inf = NAME(absolute)(x) == INFINITY, y_inf = NAME(absolute)(y) == INFINITY;
        nan_r += x != x;
        nan_c += y != y;
        inf_r += x_inf;
        inf_c += y_inf;
        both_nan += (x != x) & (y != y);
        equal_inf += x_inf & (x == y);
        mixed += (x != x) | (y != y) | x_inf | y_inf;
    }
    int64_t both = NAME(count)(both_nan), equal = NAME(count)(equal_inf), all = NAME(count)(mixed);
    int64_t mixed_r = NAME(count)(nan_r) + NAME(count)(inf_r), mixed_c = NAME(count)(nan_c) + NAME(count)(inf_c);
    int64_t seen_conflict = figures->first_conflict, seen_nan = figures->first_both_nan;
    if ((seen_conflict < 0 && all > both + equal) || (seen_nan < 0 && both)) {
        NAME(find_first)(figures, r, c, n, start);
        figures->first_conflict = seen_conflict < 0 ? figures->first_conflict : seen_conflict;
        figures->first_both_nan = seen_nan < 0 ? figures->first_both_nan : seen_nan;
    }
    figures->reference.nan += NAME(count)(nan_r);
    figures->candidate.nan += NAME(count)(nan_c);
    figures->reference.inf += NAME(count)(inf_r);
    figures->candidate.inf += NAME(count)(inf_c);
    figures->both_nan += both;
    figures->equal_inf += equal;
    figures->conflicting += all - both - equal;
    if (mixed_r < all)
        NAME(add_alone)(&figures->reference, r, c, n);
    if (mixed_c < all)
        NAME(add_alone)(&figures->candidate, c, r, n);
    return n - all;
}

/* Move what is finite on both sides to the front of `kept_r`, `kept_c`, and note where it was; returns how much is. */
static int64_t NAME(keep_finite)(const T *r, const T *c, int64_t n, T *kept_r, T *kept_c, uint16_t *places)
{
    int64_t kept = 0;
    for (int64_t at = 0; at < n; at += LANES) {
        NAME(Vector) x = NAME(load_some)(r + at, n - at), y = NAME(load_some)(c + at, n - at);
        NAME(Mask) finite = (x - x) + (y - y) == 0;
        int64_t end = n - at < LANES ? n : at + LANES;
        for (int64_t i = at; i < end; i++) {
            kept_r[kept] = r[i];
            kept_c[kept] = c[i];
            places[kept] = (uint16_t)i;
            kept -= finite[i - at]; /* a true lane is -1 */
        }
    }
    return kept;
}

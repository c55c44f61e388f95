/* Figures that need more than a sum, and how the points (|r|, |c - r|) are distributed: taken from a sample of a large
 * pair, or from all of it at a price. Included for float and for double.
 *
 * EXPONENT: the bits of an exponent; the bits of infinity less those of a power of two are those of two over it
 * FRACTION: how many bits of a fraction follow it; BIAS: what its exponents lack of a float64's
 * POWERS_ARE_EXACT: whether T gives twice the largest |c - r| over the power of two under |r| to the last bit */

/* The upper bits of these sizes as float64, which number their bins; wrong for float's subnormal numbers. */
static inline NAME(Mask) NAME(bins_of)(NAME(Vector) sizes)
{
    NAME(Mask) bits = (NAME(Mask))sizes;
    return (bits >> (FRACTION - BIN_BITS)) + ((bits != 0) & (BIAS << BIN_BITS));
}

static inline NAME(Mask) NAME(are_subnormal)(NAME(Vector) sizes)
{
    NAME(Mask) bits = (NAME(Mask))sizes;
    return (bits != 0) & ((bits & EXPONENT) == 0);
}

/* Relative errors, the largest |c - r| over the power of two under |r|, and the bins of |c - r|, of finite elements;
 * 0, and nothing taken in, where T cannot do it justice. */
static int NAME(add_sketch)(Scan *scan, const T *r, const T *c, int64_t n)
{
    Sketch *sketch = &scan->figures->sketch;
    const NAME(Vector) zero = {0}, least_power = NAME(every)((T)scan->plan->smallest_normal);
    NAME(Vector) sum = {0}, powers = {0}, top = {0}, least = NAME(every)(INFINITY);
    NAME(Mask) zeros = {0};
    MASK bins[CHUNK];
    for (int64_t at = 0; at < n; at += LANES) { /* beyond the end there are zeros on both sides */
        NAME(Vector) x = NAME(load_some)(r + at, n - at), d = NAME(absolute)(NAME(load_some)(c + at, n - at) - x);
        NAME(Mask) is_zero = x == 0;
        NAME(Vector) size = NAME(absolute)(x), differing = NAME(choose)(is_zero, zero, d);
        NAME(Vector) power = NAME(larger)((NAME(Vector))((NAME(Mask))size & EXPONENT), least_power);
        sum += differing / NAME(choose)(is_zero, NAME(every)(1), size);
        powers = NAME(larger)(differing * (NAME(Vector))(EXPONENT - (NAME(Mask))power), powers);
        top = NAME(larger)(d, top);
        least = NAME(smaller)(NAME(choose)(d == 0, NAME(every)(INFINITY), d), least);
        zeros += is_zero;
        NAME(Mask) bin = NAME(bins_of)(d);
        memcpy(bins + at, &bin, sizeof bin);
    }
    double relative = NAME(total)(sum), most = NAME(largest)(powers);
    if (!POWERS_ARE_EXACT(relative, most, sketch->most_powers * 2) || (BIAS && NAME(smallest)(least) < FLT_MIN))
        return 0;
    for (int64_t i = 0; i < n; i++)
        scan->plan->bins[bins[i]]++;
    if (NAME(largest)(top) > 0) {
        int64_t low = (int64_t)(bits_of(NAME(smallest)(least)) >> BIN_SHIFT);
        int64_t high = (int64_t)(bits_of(NAME(largest)(top)) >> BIN_SHIFT);
        sketch->low_bin = low && low < sketch->low_bin ? low : sketch->low_bin;
        sketch->high_bin = high > sketch->high_bin ? high : sketch->high_bin;
    }
    sketch->count += n;
    sketch->relative += (n + LANES - 1) / LANES * LANES - NAME(count)(zeros);
    sketch->relative_sum += relative;
    sketch->most_powers = larger(most / 2, sketch->most_powers);
    return 1;
}

/* Count points by the octaves of |r| and |c - r|; 0, and none counted, where T cannot do it justice. */
static int NAME(add_cells)(Scan *scan, const T *r, const T *c, int64_t n)
{
    NAME(Mask) subnormal = {0}, differing = {0};
    MASK keys[CHUNK];
    for (int64_t at = 0; at < n; at += LANES) {
        NAME(Vector) x = NAME(load_some)(r + at, n - at), size = NAME(absolute)(x);
        NAME(Vector) d = NAME(absolute)(NAME(load_some)(c + at, n - at) - x);
        NAME(Mask) key = NAME(bins_of)(size) >> BIN_BITS << 11 | NAME(bins_of)(d) >> BIN_BITS;
        subnormal |= NAME(are_subnormal)(size) | NAME(are_subnormal)(d);
        differing |= d != 0;
        memcpy(keys + at, &key, sizeof key);
    }
    if (BIAS && NAME(any)(subnormal))
        return 0;
    scan->figures->cell_points += n;
    for (int64_t i = 0; i < n && NAME(any)(differing); i++)
        count_in_cell(scan, (uint32_t)keys[i]);
    return 1;
}

/* A row, or the part of one in a chunk, added to the sums of its channels in float64: in float they overflow early. */
static void NAME(add_channels)(const Plan *plan, const T *r, const T *c, int64_t n, int64_t channel, int all_finite)
{
    double *sums = plan->channels + channel;
    int64_t next = plan->row + CHANNEL_ROOM;
    for (int64_t at = 0; at < n; at += 4, sums += 4) { /* beyond the end zeros are added, to numbers that nobody reads */
        Vector_double x = NAME(widened)(r + at, n - at), y = NAME(widened)(c + at, n - at);
        Vector_double ones = load_some_double(ONES, n - at), d = y - x;
        if (!all_finite) {
            Mask_double finite = (x - x) + (y - y) == 0;
            x = choose_double(finite, x, every_double(0));
            d = choose_double(finite, d, every_double(0));
            ones = choose_double(finite, ones, every_double(0));
        }
        Vector_double largest = larger_double(absolute_double(d), load_double(sums + LARGEST * next));
        add_to_double(sums + COUNT * next, ones);
        add_to_double(sums + SUM_R * next, x);
        add_to_double(sums + SUM_RR * next, x * x);
        add_to_double(sums + SUM_D * next, d);
        add_to_double(sums + SUM_DD * next, d * d);
        add_to_double(sums + SUM_RD * next, x * d);
        memcpy(sums + LARGEST * next, &largest, sizeof largest);
    }
}

/* The rows of a chunk that belong to the sample of rows; the chunk begins at the element `start` of the tensor. */
static void NAME(sum_channels)(const Plan *plan, const T *r, const T *c, int64_t n, int64_t start, int all_finite)
{
    int64_t row = start / plan->row, channel = start % plan->row, length;
    for (int64_t at = 0; at < n; at += length, row++, channel = 0) {
        length = plan->row - channel < n - at ? plan->row - channel : n - at;
        if (row % plan->channel_rows == 0)
            NAME(add_channels)(plan, r + at, c + at, length, channel, all_finite);
    }
}

/* How many elements that are finite on both sides have |c - r| > atol + rtol * |r|. */
static int64_t NAME(count_outside)(const T *r, const T *c, int64_t n, double atol, double rtol)
{
    Mask_double outside = {0};
    for (int64_t at = 0; at < n; at += 4) {
        Vector_double x = NAME(widened)(r + at, n - at), y = NAME(widened)(c + at, n - at);
        __builtin_prefetch(r + at + AHEAD);
        __builtin_prefetch(c + at + AHEAD);
        Mask_double finite = (x - x) + (y - y) == 0;
        outside += finite & (absolute_double(y - x) > absolute_double(x) * rtol + atol);
    }
    return count_double(outside);
}

/* The figures that need more than a sum, and how the points (|r|, |c - r|) are distributed. */

static uint64_t bits_of(double value)
{
    uint64_t bits;
    memcpy(&bits, &value, sizeof bits);
    return bits;
}

/* Relative errors, the largest |c - r| over the power of two under |r|, and the bins of |c - r|. */
static void add_sketch(const Plan *plan, Sketch *sketch, const double *x, const double *d, int64_t n)
{
    Vector_double total = {0}, most = {0};
    int64_t relative = 0;
    for (int64_t at = 0; at < n; at += 4) {
        Vector_double size = load_some_double(x + at, n - at), difference = load_some_double(d + at, n - at);
        Mask_double is_zero = size == 0;
        Vector_double power = (Vector_double)((Mask_double)size & (INT64_C(0x7ff) << OCTAVE_SHIFT));
        power = larger_double(power, every_double(plan->smallest_normal));
        difference = choose_double(is_zero, every_double(0), difference);
        most = larger_double(difference / power, most);
        total += difference / choose_double(is_zero, every_double(1), size);
        relative += 4 + (is_zero[0] + is_zero[1]) + (is_zero[2] + is_zero[3]);
    }
    int64_t low = sketch->low_bin, high = sketch->high_bin;
    for (int64_t i = 0; i < n; i++) {
        int64_t bin = (int64_t)(bits_of(d[i]) >> BIN_SHIFT);
        plan->bins[bin]++;
        low = bin && bin < low ? bin : low;
        high = bin > high ? bin : high;
    }
    sketch->low_bin = low;
    sketch->high_bin = high;
    sketch->count += n;
    sketch->relative += relative;
    sketch->relative_sum += total_double(total);
    sketch->most_powers = larger(largest_double(most), sketch->most_powers);
}

/* Points that do not differ have no octave of |c - r|, and are only counted. A full table takes no more cells. */
static void add_cells(const Plan *plan, Figures *figures, const double *x, const double *d, int64_t n)
{
    figures->cell_points += n;
    for (int64_t i = 0; i < n; i++) {
        uint32_t difference = (uint32_t)(bits_of(d[i]) >> OCTAVE_SHIFT);
        if (!difference)
            continue;
        uint32_t key = (uint32_t)(bits_of(x[i]) >> OCTAVE_SHIFT) << 11 | difference;
        uint32_t slot = key * UINT32_C(2654435761) >> 18; /* the upper 14 bits: CELL_SLOTS */
        while (plan->cells[slot].key && plan->cells[slot].key != key)
            slot = (slot + 1) % CELL_SLOTS;
        if (!plan->cells[slot].key) {
            if (figures->cell_count >= CELL_SLOTS * 3 / 4)
                continue;
            plan->cells[slot].key = key;
            figures->cell_count++;
        }
        plan->cells[slot].points++;
    }
}

/* |r| and |c - r| of the elements of a chunk that are finite on both sides; returns how many there are. */
static int64_t finite_points(const Plan *plan, const char *r, const char *c, int64_t n, double *x, double *d)
{
    double r_room[CHUNK], c_room[CHUNK];
    const double *reference = doubles_of(r, plan->reference_type, n, r_room);
    const double *candidate = doubles_of(c, plan->candidate_type, n, c_room);
    Vector_double sum = {0};
    for (int64_t at = 0; at < n; at += 4) { /* x and d have room for a whole chunk */
        Vector_double ours = load_some_double(reference + at, n - at), theirs = load_some_double(candidate + at, n - at);
        Vector_double size = absolute_double(ours), difference = absolute_double(theirs - ours);
        memcpy(x + at, &size, sizeof size);
        memcpy(d + at, &difference, sizeof difference);
        sum += (ours - ours) + (theirs - theirs); /* 0, or NaN */
    }
    if (total_double(sum) == 0)
        return n;
    int64_t kept = 0;
    for (int64_t i = 0; i < n; i++) {
        x[kept] = fabs(reference[i]);
        d[kept] = fabs(candidate[i] - reference[i]);
        kept += (reference[i] - reference[i] == 0) & (candidate[i] - candidate[i] == 0);
    }
    return kept;
}

/* Take a range into the sketch, the cells, or both; it may be longer than a chunk. */
static void add_points(const Plan *plan, Figures *figures, const char *r, const char *c, int64_t n, int sketch, int cells)
{
    double x[CHUNK], d[CHUNK];
    for (int64_t first = 0; first < n; first += CHUNK) {
        int64_t length = n - first < CHUNK ? n - first : CHUNK;
        int64_t kept = finite_points(plan, r + first * width_of(plan->reference_type),
                                     c + first * width_of(plan->candidate_type), length, x, d);
        if (sketch)
            add_sketch(plan, &figures->sketch, x, d, kept);
        if (cells)
            add_cells(plan, figures, x, d, kept);
    }
}

/* The part of [start, start + length) that lies in a window, taken into the sketch or the cells. */
static void add_piece(const Plan *plan, Figures *figures, const char *r, const char *c, int64_t window_start,
                      int64_t window_length, int64_t start, int64_t length, int sketch, int cells)
{
    int64_t first = start > window_start ? start - window_start : 0;
    int64_t stop = start + length - window_start;
    stop = stop < window_length ? stop : window_length;
    if (first < stop)
        add_points(plan, figures, r + first * width_of(plan->reference_type), c + first * width_of(plan->candidate_type),
                   stop - first, sketch, cells);
}

/* The pieces that the sample takes from a window. */
static void add_sample(const Plan *plan, Figures *figures, const char *r, const char *c, int64_t start, int64_t n)
{
    if (!plan->sampled) {
        add_points(plan, figures, r, c, n, 1, 1);
        return;
    }
    if (plan->full)
        add_points(plan, figures, r, c, n, 1, 0);
    for (int64_t period = start / PERIOD; period * PERIOD < start + n; period++) {
        int64_t first = period * PERIOD + period * PIECE_STRIDE * PIECE % PERIOD;
        if (!plan->full)
            add_piece(plan, figures, r, c, start, n, first, PIECE, 1, 0);
        add_piece(plan, figures, r, c, start, n, first, CELLS_PIECE, 0, 1);
    }
}

/* Everything that one pass over a pair gathers, and the count of elements outside a tolerance.
 *
 * A pair is gone through in chunks that end where rows end. A chunk is summed in its own type, the chunks in float64.
 * A chunk that float cannot do justice to (squares that overflow or vanish) is gone through again in double; one with
 * NaN or infinities is copied without them first. Compiled once for every processor; see cpu.c. */

#include <float.h>
#include <math.h>
#include <string.h>
#ifdef __AVX2__
#include <immintrin.h>
#endif

#include "firstdiff.h"

#define PAUSE 7 /* chunks for which float is not tried after one that it failed */
#define STILL_CACHED 8192  /* elements after which the points are taken from what was just read */
#define FAR 0.01 /* of |r|^2: a larger difference says less about the candidate than the candidate itself */

#ifndef VARIANT
#define VARIANT baseline
#endif
#define JOINED(name, variant) name##_##variant
#define EXPANDED(name, variant) JOINED(name, variant)
#define EXPORTED(name) EXPANDED(name, VARIANT)
#ifdef _WIN32
#define PUBLIC __declspec(dllexport)
#else
#define PUBLIC __attribute__((visibility("default")))
#endif

#define CHORDS 4 /* of the curve, that every point is held to */

static const double ONES[4] = {1, 1, 1, 1};

/* Of a chunk. `least`: the smallest |r|; `marked`: a bit for every strip in which something may be over the curve */
typedef struct {
    int64_t n;
    double r, rr, d, dd, rd, rc, abs, top, low, high, least;
    uint32_t marked;
} Sums;

_Static_assert(CHUNK <= 32 * STRIP && CHUNK % BLOCK == 0 && BLOCK % STRIP == 0, "`marked` has 32 bits");

typedef struct {
    double sum, squares, low, high;
} OneSide;

/* Some chords of the curve over all points and its top: the lowest of these lines is nowhere over the curve.
 * at_zero: the largest difference where r is 0, at the foot of the lines */
typedef struct {
    double slope[CHORDS], height[CHORDS], top, at_zero;
} Lines;

typedef Lines Lines_double; /* scaled and rounded down; see chunk.h */

typedef struct {
    float slope[CHORDS], height[CHORDS], top, at_zero;
} Lines_float;

typedef struct {
    const Plan *plan;
    Figures *figures;
    Lines_double lines_double;
    Lines_float lines_float;
    int has_holes; /* the chunk before had NaN or infinities */
} Scan;

static void draw_lines(Scan *scan);

static inline uint64_t bits_of(double value)
{
    uint64_t bits;
    memcpy(&bits, &value, sizeof bits);
    return bits;
}

/* Those of math.h are functions of a library on some systems. */
static inline int is_finite(double value)
{
    return value - value == 0;
}

static inline int is_nan(double value)
{
    return value != value;
}

static inline double smaller(double left, double right)
{
    return left < right ? left : right;
}

static inline double larger(double left, double right)
{
    return left > right ? left : right;
}

static void join_side(Side *side, int64_t n, double mean, double spread, double low, double high)
{
    double share = (double)n / (double)(side->count + n), step = mean - side->mean;
    if (is_finite(step))
        side->mean += step * share;
    else
        side->mean = side->mean * (1 - share) + mean * share;
    side->spread += spread + (side->count ? step * step * (double)side->count * share : 0);
    side->count += n;
    side->low = smaller(low, side->low);
    side->high = larger(high, side->high);
}

/* Sums of a chunk joined to those before it. The rests of two parts have slopes of their own: together there is more. */
static void add_sums(Figures *figures, double *row, const Sums *sums, double cc, double rest)
{
    if (figures->rr > 0 && sums->rr > 0) {
        double step = figures->rc / figures->rr - sums->rc / sums->rr;
        rest += step * step * figures->rr * (sums->rr / (figures->rr + sums->rr));
    }
    figures->finite += sums->n;
    figures->rest += rest;
    figures->r += sums->r;
    figures->rr += sums->rr;
    figures->cc += cc;
    figures->d += sums->d;
    figures->dd += sums->dd;
    figures->rd += sums->rd;
    figures->rc += sums->rc;
    figures->abs += sums->abs;
    if (row) {
        row[COUNT] += (double)sums->n;
        row[SUM_R] += sums->r;
        row[SUM_RR] += sums->rr;
        row[SUM_D] += sums->d;
        row[SUM_DD] += sums->dd;
        row[SUM_RD] += sums->rd;
        row[LARGEST] = larger(sums->top, row[LARGEST]);
    }
}

/* Count a point in its cell; a full table takes no more cells. */
static inline void count_in_cell(Scan *scan, uint32_t octaves)
{
    Cell *cells = scan->plan->cells;
    uint32_t key = octaves | CELL_TAKEN;
    uint32_t slot = (key >> 11) % 128 * 128 + key % 128; /* none collide but those 128 octaves apart */
    while (cells[slot].key != key) {
        if (!cells[slot].key) {
            if (scan->figures->cell_count >= MOST_CELLS)
                return;
            cells[slot].key = key;
            scan->plan->used[scan->figures->cell_count++] = (uint16_t)slot;
            break;
        }
        slot = (slot + 1) % CELL_SLOTS;
    }
    cells[slot].points++;
}

#include "convert.h"
#include "hull.h"

/* Whether float gave the sum and the largest of relative errors; differences of less than half of r have no rounding. */
static int are_exact_in_float(double relative, double most, double known)
{
    return is_finite(relative) && (most < 1 || most * (1 + 0x1p-22) <= known);
}

/* Whether float has met no NaN, not overflowed, and lost no small squares. */
static int is_safe_in_float(const Sums *sums)
{
    const double vanishing = 1e-32;
    if (!is_finite(sums->rr + sums->dd + sums->rd + sums->r))
        return 0;
    if ((sums->low != 0 || sums->high != 0) && sums->rr < vanishing)
        return 0;
    return sums->top == 0 || sums->dd >= vanishing;
}

#define WIDTH 64
#include "element.h"
#define WIDTH 32
#include "element.h"

/* The lines under the curve as it is now. */
static void draw_lines(Scan *scan)
{
    Lines exact = lines_under(&scan->figures->hull);
    scan->lines_double = lower_double(&exact);
    scan->lines_float = lower_float(&exact);
}

static void widen(const float *values, int64_t n, double *out)
{
    for (int64_t i = 0; i < n; i++)
        out[i] = values[i];
}

/* What finite elements say about the distribution of the points (|r|, |c - r|): the sketch, the cells, or both. */
static void add_points_in_double(Scan *scan, const double *r, const double *c, int64_t n, int sketch, int cells)
{
    if (sketch)
        add_sketch_double(scan, r, c, n);
    if (cells)
        add_cells_double(scan, r, c, n);
}

static void add_points_in_float(Scan *scan, const float *r, const float *c, int64_t n, int sketch, int cells)
{
    double wide_r[CHUNK], wide_c[CHUNK];
    sketch = sketch && !add_sketch_float(scan, r, c, n);
    cells = cells && !add_cells_float(scan, r, c, n);
    if (sketch || cells) {
        widen(r, n, wide_r);
        widen(c, n, wide_c);
        add_points_in_double(scan, wide_r, wide_c, n, sketch, cells);
    }
}

/* Take a chunk into all figures but those of channels; returns whether all of it is finite. */
static int add_chunk_in_double(Scan *scan, const double *r, const double *c, int64_t n, int64_t start, double *row)
{
    double kept_r[CHUNK], kept_c[CHUNK];
    uint16_t places[CHUNK];
    if (add_finite_double(scan, r, c, n, NULL, start, row))
        return 1;
    int64_t finite = count_nonfinite_double(scan->figures, r, c, n, start);
    if (finite) {
        keep_finite_double(r, c, n, kept_r, kept_c, places);
        add_finite_double(scan, kept_r, kept_c, finite, places, start, row);
    }
    return 0;
}

static int add_chunk_in_float(Scan *scan, const float *r, const float *c, int64_t n, int64_t start, double *row)
{
    float kept_r[CHUNK], kept_c[CHUNK];
    double wide_r[CHUNK], wide_c[CHUNK];
    uint16_t places[CHUNK], *moved = NULL;
    Figures *figures = scan->figures;
    /* chunks that float will not do for come in series, and so do those with NaN or infinities */
    int tried = !figures->pause && !scan->has_holes;
    if (tried && add_finite_float(scan, r, c, n, NULL, start, row))
        return 1;
    int64_t finite = count_nonfinite_float(figures, r, c, n, start);
    scan->has_holes = finite < n;
    if (!finite)
        return 0;
    if (scan->has_holes) {
        n = keep_finite_float(r, c, n, kept_r, kept_c, places);
        r = kept_r, c = kept_c, moved = places, tried = 0;
    }
    if (tried || figures->pause || !add_finite_float(scan, r, c, n, moved, start, row)) {
        figures->pause = figures->pause ? figures->pause - 1 : PAUSE;
        widen(r, n, wide_r);
        widen(c, n, wide_c);
        add_finite_double(scan, wide_r, wide_c, n, moved, start, row);
    }
    return !scan->has_holes;
}

/* A chunk of both sides, as float or double. */
typedef struct {
    const float *r_float, *c_float;
    const double *r_double, *c_double; /* NULL if both are float */
} Chunk;

typedef struct {
    double r[CHUNK], c[CHUNK];
} Room;

static Chunk chunk_at(const Plan *plan, const char *r, const char *c, int64_t at, int64_t n, Room *room)
{
    r += at * width_of(plan->reference_type);
    c += at * width_of(plan->candidate_type);
    if (plan->reference_type == FLOAT64 || plan->candidate_type == FLOAT64)
        return (Chunk){.r_double = doubles_of(r, plan->reference_type, n, room->r),
                       .c_double = doubles_of(c, plan->candidate_type, n, room->c)};
    return (Chunk){.r_float = floats_of(r, plan->reference_type, n, (float *)room->r),
                   .c_float = floats_of(c, plan->candidate_type, n, (float *)room->c)};
}

static void add_chunk(Scan *scan, const Chunk *chunk, int64_t n, int64_t start, double *row)
{
    const Plan *plan = scan->plan;
    if (chunk->r_double) {
        int all_finite = add_chunk_in_double(scan, chunk->r_double, chunk->c_double, n, start, row);
        if (plan->channel_rows)
            sum_channels_double(plan, chunk->r_double, chunk->c_double, n, start, all_finite);
    } else {
        int all_finite = add_chunk_in_float(scan, chunk->r_float, chunk->c_float, n, start, row);
        if (plan->channel_rows)
            sum_channels_float(plan, chunk->r_float, chunk->c_float, n, start, all_finite);
    }
}

static void add_points_of_chunk(Scan *scan, const Chunk *chunk, int64_t n, int sketch, int cells)
{
    Room room;
    uint16_t places[CHUNK];
    if (chunk->r_double) {
        const double *r = chunk->r_double, *c = chunk->c_double;
        if (!are_finite_double(r, c, n)) {
            n = keep_finite_double(r, c, n, room.r, room.c, places);
            r = room.r, c = room.c;
        }
        add_points_in_double(scan, r, c, n, sketch, cells);
    } else {
        const float *r = chunk->r_float, *c = chunk->c_float;
        if (!are_finite_float(r, c, n)) {
            n = keep_finite_float(r, c, n, (float *)room.r, (float *)room.c, places);
            r = (float *)room.r, c = (float *)room.c;
        }
        add_points_in_float(scan, r, c, n, sketch, cells);
    }
}

/* Take a part of a window into the sketch, the cells, or both. */
static void add_points(Scan *scan, const char *r, const char *c, int64_t begin, int64_t end, int sketch, int cells)
{
    Room room;
    for (int64_t at = begin; at < end; at += CHUNK) {
        int64_t length = end - at < CHUNK ? end - at : CHUNK;
        Chunk chunk = chunk_at(scan->plan, r, c, at, length, &room);
        add_points_of_chunk(scan, &chunk, length, sketch, cells);
    }
}

/* The same for what belongs to the sample; `start` is the element of the tensor at which the window begins. */
static void add_sample(Scan *scan, const char *r, const char *c, int64_t start, int64_t begin, int64_t end)
{
    for (int64_t period = (start + begin) / PERIOD; period * PERIOD < start + end; period++) {
        int64_t piece = period * PERIOD + period * PIECE_STRIDE * PIECE % PERIOD - start;
        int64_t first = piece > begin ? piece : begin;
        if (!scan->plan->full)
            add_points(scan, r, c, first, piece + PIECE < end ? piece + PIECE : end, 1, 0);
        add_points(scan, r, c, first, piece + CELLS_PIECE < end ? piece + CELLS_PIECE : end, 0, 1);
    }
}

/* Begin a stretch. */
PUBLIC void EXPORTED(begin)(Figures *figures)
{
    Side side = {.whole = 1, .low = INFINITY, .high = -INFINITY};
    *figures = (Figures){.reference = side, .candidate = side, .argmax = -1, .first_conflict = -1,
                         .first_both_nan = -1, .max_abs = -1};
    figures->hull.slack = ROUNDING;
    figures->sketch.low_bin = INT64_MAX;
}

/* Take in a window of n elements; `start` is the index of the first of them in the tensor. */
PUBLIC void EXPORTED(scan)(const Plan *plan, Figures *figures, const char *r, const char *c, int64_t start, int64_t n)
{
    Scan scan = {.plan = plan, .figures = figures};
    Room room;
    draw_lines(&scan);
    /* rows longer than a chunk are cut evenly */
    int64_t pieces = (plan->group + CHUNK - 1) / CHUNK, piece = (plan->group + pieces - 1) / pieces;
    int64_t group = start / plan->group, inside = start % plan->group, length;
    for (int64_t at = 0, seen = 0; at < n; at += length) {
        int64_t end = (inside / piece + 1) * piece;
        length = (end < plan->group ? end : plan->group) - inside;
        length = length < n - at ? length : n - at;
        Chunk chunk = chunk_at(plan, r, c, at, length, &room);
        add_chunk(&scan, &chunk, length, start + at, plan->rows + (group - plan->first_group) * FIGURES);
        inside += length;
        if (inside == plan->group)
            group++, inside = 0;
        end = at + length;
        if (end - seen >= STILL_CACHED || end == n) {
            if (plan->full || !plan->sampled)
                add_points(&scan, r, c, seen, end, 1, !plan->sampled);
            if (plan->sampled)
                add_sample(&scan, r, c, start, seen, end);
            seen = end;
        }
    }
    figures->elements += n;
}

/* How many elements that are finite on both sides have |c - r| > atol + rtol * |r|; all go to the sketch, if full. */
PUBLIC int64_t EXPORTED(count_outside)(const Plan *plan, Figures *figures, const char *r, const char *c, int64_t n,
                                       double atol, double rtol)
{
    Scan scan = {.plan = plan, .figures = figures};
    Room room;
    int64_t outside = 0;
    for (int64_t at = 0; at < n; at += CHUNK) {
        int64_t length = n - at < CHUNK ? n - at : CHUNK;
        Chunk chunk = chunk_at(plan, r, c, at, length, &room);
        if (chunk.r_double)
            outside += count_outside_double(chunk.r_double, chunk.c_double, length, atol, rtol);
        else
            outside += count_outside_float(chunk.r_float, chunk.c_float, length, atol, rtol);
        if (plan->full)
            add_points_of_chunk(&scan, &chunk, length, 1, 0);
    }
    return outside;
}

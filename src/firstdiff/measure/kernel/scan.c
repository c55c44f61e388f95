/* Everything that one pass over a pair gathers, and the count of elements outside a tolerance.
 *
 * A pair is gone through in chunks that end where rows end. A chunk is summed in its own type, the chunks in float64.
 * A chunk that float cannot do justice to (squares that overflow or vanish) is gone through again in double; one with
 * NaN or infinities is copied without them first. Compiled once for every processor; see cpu.c. */

#include <math.h>
#include <string.h>
#ifdef __AVX2__
#include <immintrin.h>
#endif

#include "firstdiff.h"

#define PAUSE 7
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

static const double ONES[4] = {1, 1, 1, 1};

/* Of a chunk. `least`: the smallest |r|; `over`: the most that a difference is over the lines under the curve */
typedef struct {
    int64_t n;
    double r, rr, d, dd, rd, rc, abs, top, low, high, least, over;
} Sums;

typedef struct {
    double sum, squares, low, high;
} OneSide;

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
    if (isfinite(step))
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

/* Whether float has met no NaN, not overflowed, and lost no small squares. */
static int is_safe_in_float(const Sums *sums)
{
    const double vanishing = 1e-32;
    if (!isfinite(sums->rr + sums->dd + sums->rd + sums->r))
        return 0;
    if ((sums->low != 0 || sums->high != 0) && sums->rr < vanishing)
        return 0;
    return sums->top == 0 || sums->dd >= vanishing;
}

#include "convert.h"

#define T double
#define LANES 4
#define MASK int64_t
#define NAME(name) name##_double
#define AVX(name) _mm256_##name##_pd
#include "vectors.h"

#include "hull.h"
#include "sketch.h"

#define SCALE 0x1p200
#define LEAST 1e-250
#define MOST 1.7e308
#define AHEAD 256
#define CANCELLED 1e-4
#define WHOLE_FROM 0x1p52
#define IS_SAFE(sums) 1
#include "chunk.h"

#undef T
#undef LANES
#undef MASK
#undef NAME
#undef AVX
#undef SCALE
#undef LEAST
#undef MOST
#undef AHEAD
#undef CANCELLED
#undef WHOLE_FROM
#undef IS_SAFE

#define T float
#define LANES 8
#define MASK int32_t
#define NAME(name) name##_float
#define AVX(name) _mm256_##name##_ps
#define SCALE 0x1p60
#define LEAST 1e-30
#define MOST 3e38
#define AHEAD 512
#define CANCELLED 0.25
#define WHOLE_FROM 0x1p23f
#define IS_SAFE is_safe_in_float
#include "vectors.h"
#include "chunk.h"

static inline void add_to(double *sums, Vector_double values)
{
    Vector_double sum = load_double(sums) + values;
    memcpy(sums, &sum, sizeof sum);
}

/* A row, or the part of one in a chunk, added to the sums of its channels in float64. */
static void add_channels(const Plan *plan, const double *r, const double *c, int64_t n, int64_t channel)
{
    double *sums[FIGURES];
    for (int which = 0; which < FIGURES; which++)
        sums[which] = plan->channels + which * (plan->row + CHANNEL_ROOM) + channel;
    for (int64_t at = 0; at < n; at += 4) { /* beyond the end zeros are added, to numbers that nobody reads */
        Vector_double x = load_some_double(r + at, n - at), y = load_some_double(c + at, n - at);
        Mask_double finite = (x - x) + (y - y) == 0;
        x = choose_double(finite, x, every_double(0));
        Vector_double d = choose_double(finite, y, every_double(0)) - x;
        Vector_double largest = larger_double(absolute_double(d), load_double(sums[LARGEST] + at));
        add_to(sums[COUNT] + at, choose_double(finite, load_some_double(ONES, n - at), every_double(0)));
        add_to(sums[SUM_R] + at, x);
        add_to(sums[SUM_RR] + at, x * x);
        add_to(sums[SUM_D] + at, d);
        add_to(sums[SUM_DD] + at, d * d);
        add_to(sums[SUM_RD] + at, x * d);
        memcpy(sums[LARGEST] + at, &largest, sizeof largest);
    }
}

/* The rows of a chunk that belong to the sample of rows. */
static void sum_channels(const Plan *plan, const char *r, const char *c, int64_t start, int64_t n)
{
    double r_room[CHUNK], c_room[CHUNK];
    for (int64_t first = start; first < start + n;) {
        int64_t row = first / plan->row, end = (row + 1) * plan->row;
        int64_t length = (end < start + n ? end : start + n) - first;
        if (row % plan->channel_rows == 0) {
            const char *ours = r + (first - start) * width_of(plan->reference_type);
            const char *theirs = c + (first - start) * width_of(plan->candidate_type);
            add_channels(plan, doubles_of(ours, plan->reference_type, length, r_room),
                         doubles_of(theirs, plan->candidate_type, length, c_room), length, first % plan->row);
        }
        first += length;
    }
}

static void add_chunk_in_double(Figures *figures, const double *r, const double *c, int64_t n, int64_t start,
                                double *row)
{
    double kept_r[CHUNK], kept_c[CHUNK];
    uint16_t places[CHUNK];
    if (are_finite_double(r, c, n)) {
        add_finite_double(figures, r, c, n, NULL, start, row);
        return;
    }
    int64_t kept = sort_out_double(figures, r, c, n, kept_r, kept_c, places, start);
    if (kept)
        add_finite_double(figures, kept_r, kept_c, kept, places, start, row);
}

static void widen(const float *values, int64_t n, double *out)
{
    for (int64_t i = 0; i < n; i++)
        out[i] = values[i];
}

static void add_chunk_in_float(Figures *figures, const float *r, const float *c, int64_t n, int64_t start, double *row)
{
    float kept_r[CHUNK], kept_c[CHUNK];
    double wide_r[CHUNK], wide_c[CHUNK];
    uint16_t places[CHUNK], *moved = NULL;
    /* chunks that float will not do for come in series: for a few it is not tried again */
    int try_float = !figures->pause;
    if (try_float && add_finite_float(figures, r, c, n, NULL, start, row))
        return;
    if (!are_finite_float(r, c, n)) {
        n = sort_out_float(figures, r, c, n, kept_r, kept_c, places, start);
        r = kept_r, c = kept_c, moved = places;
        if (!n || add_finite_float(figures, r, c, n, moved, start, row))
            return;
    }
    figures->pause = try_float ? PAUSE : figures->pause - 1;
    widen(r, n, wide_r);
    widen(c, n, wide_c);
    add_finite_double(figures, wide_r, wide_c, n, moved, start, row);
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
    float r_float[CHUNK], c_float[CHUNK];
    double r_double[CHUNK], c_double[CHUNK];
    int in_double = plan->reference_type == FLOAT64 || plan->candidate_type == FLOAT64;
    int64_t width_r = width_of(plan->reference_type), width_c = width_of(plan->candidate_type);
    for (int64_t first = start; first < start + n;) {
        int64_t group = first / plan->group, begin = group * plan->group;
        /* rows longer than a chunk are cut evenly */
        int64_t pieces = (plan->group + CHUNK - 1) / CHUNK, piece = (plan->group + pieces - 1) / pieces;
        int64_t end = begin + ((first - begin) / piece + 1) * piece;
        end = end < begin + plan->group ? end : begin + plan->group;
        int64_t length = (end < start + n ? end : start + n) - first;
        const char *here_r = r + (first - start) * width_r, *here_c = c + (first - start) * width_c;
        double *row = plan->rows ? plan->rows + (group - plan->first_group) * FIGURES : NULL;
        if (in_double)
            add_chunk_in_double(figures, doubles_of(here_r, plan->reference_type, length, r_double),
                                doubles_of(here_c, plan->candidate_type, length, c_double), length, first, row);
        else
            add_chunk_in_float(figures, floats_of(here_r, plan->reference_type, length, r_float),
                               floats_of(here_c, plan->candidate_type, length, c_float), length, first, row);
        if (plan->channel_rows)
            sum_channels(plan, here_r, here_c, first, length);
        first += length;
    }
    figures->elements += n;
    add_sample(plan, figures, r, c, start, n);
}

/* How many elements that are finite on both sides have |c - r| > atol + rtol * |r|; all go to the sketch, if full. */
PUBLIC int64_t EXPORTED(count_outside)(const Plan *plan, Figures *figures, const char *r, const char *c, int64_t n,
                                       double atol, double rtol)
{
    double x[CHUNK], d[CHUNK];
    int64_t outside = 0;
    for (int64_t first = 0; first < n; first += CHUNK) {
        int64_t length = n - first < CHUNK ? n - first : CHUNK;
        int64_t kept = finite_points(plan, r + first * width_of(plan->reference_type),
                                     c + first * width_of(plan->candidate_type), length, x, d);
        for (int64_t i = 0; i < kept; i++)
            outside += d[i] > x[i] * rtol + atol;
        if (plan->full)
            add_sketch(plan, &figures->sketch, x, d, kept);
    }
    return outside;
}

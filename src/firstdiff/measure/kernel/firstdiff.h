/* What Python hands to the kernel and gets back. `library.py` mirrors these structs field by field. */
#ifndef FIRSTDIFF_H
#define FIRSTDIFF_H

#include <stdint.h>

enum { FLOAT32, FLOAT64, BFLOAT16, FLOAT16 };
enum { COUNT, SUM_R, SUM_RR, SUM_D, SUM_DD, SUM_RD, LARGEST, FIGURES }; /* of a row or a channel */

#define CHUNK 1024        /* elements summed in their own type before they become float64 */
#define BLOCK 128         /* elements of a chunk that are held to the curve together */
#define STRIP 32          /* elements that are looked at again together */
#define CHANNEL_ROOM 4    /* numbers behind the last channel, so that vectors may end there */
#define CORNERS 64        /* of the envelope's curve at most */
#define PERIOD 65536      /* of so many elements ... */
#define PIECE 1024        /* ... so many in a row are sampled for the sketch ... */
#define CELLS_PIECE 128   /* ... and the first of these for the cells */
#define PIECE_STRIDE 11   /* pieces by which the sample moves on in every period */
#define CELL_SLOTS 16384  /* of the table of cells; a power of two */
#define MOST_CELLS 12288  /* that it takes */
#define CELL_TAKEN 0x400000u /* in the key of every cell */
#define BIN_BITS 5        /* of a float64's fraction tell bins apart: 32 of them an octave */
#define BIN_SHIFT (52 - BIN_BITS)

/* One side, over its own finite elements. `spread` is the sum of squared deviations from the mean; `whole` is 1 while
 * every value is a whole number. */
typedef struct {
    int64_t count, nan, inf, whole;
    double mean, spread, low, high;
} Side;

/* The concave curve over all points (|r|, |c - r|): corners from 1 on, the origin is corner 0. */
typedef struct {
    int64_t count;
    double at_zero, steepest, slack;
    double x[CORNERS + 2], d[CORNERS + 2];
} Hull;

/* Relative error, units in the last place and the distribution of |c - r|, of all elements or of a sample. */
typedef struct {
    int64_t count, relative, low_bin, high_bin;
    double relative_sum, most_powers;
} Sketch;

typedef struct {
    uint32_t key; /* CELL_TAKEN | octave of |r| << 11 | octave of |c - r|; 0 where the slot is free */
    uint32_t points;
} Cell;

/* What a scan is told beforehand.
 * row: elements of the last axis; group: elements that share an entry of `rows`
 * channel_rows: every so many rows, one is summed by channels; 0: none
 * sampled: sketch and cells come from a sample; full: but the sketch from every element
 * rows: entries of FIGURES numbers, the first for the group `first_group`; channels: FIGURES arrays of `row` and some more numbers
 * bins: a count for every bin of |c - r|, all 0; cells: the table, all 0; used: takes the slots that were filled */
typedef struct {
    int64_t reference_type, candidate_type, row, group, first_group, channel_rows, sampled, full;
    double smallest_normal;
    double *rows, *channels;
    int64_t *bins;
    Cell *cells;
    uint16_t *used;
} Plan;

/* What is gathered of a stretch; all sums are over the elements that are finite on both sides.
 * r, c, d: reference, candidate, and d = c - r; two letters: the sum of their products; abs: that of |d|
 * rest: the sum of squares of what is left of c without its part along r
 * conflicting: NaN or infinities that the other side has not; first_…: index of the first in the tensor, or -1 */
typedef struct {
    Side reference, candidate;
    Hull hull;
    Sketch sketch;
    int64_t elements, finite, zeros, argmax;
    int64_t both_nan, equal_inf, conflicting, first_conflict, first_both_nan;
    int64_t cell_points, cell_count;
    int64_t pause; /* chunks for which float is not tried */
    double r, rr, cc, d, dd, rd, rc, abs, rest, max_abs, reference_at_max, candidate_at_max;
} Figures;

#endif

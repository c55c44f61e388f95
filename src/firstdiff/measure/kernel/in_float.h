/* The functions of a chunk for float, which leave to double what float cannot do justice to. */

/* Whether float gave the sum and the largest of relative errors; differences of less than half of r have no rounding. */
static int are_exact_in_float(double relative, double most, double known)
{
    return isfinite(relative) && (most < 1 || most * (1 + 0x1p-22) <= known);
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

#define T float
#define LANES 8
#define MASK int32_t
#define NAME(name) name##_float
#define AVX(name) _mm256_##name##_ps
#define SCALE 0x1p60f
#define ROUNDED 0x1p-24
#define LEAST 1e-30
#define SLACK 0x1p-22
#define MOST 3e38
#define AHEAD 512
#define CANCELLED 0.25
#define WHOLE_FROM 0x1p23f
#define EXPONENT (INT32_C(0xff) << 23)
#define FRACTION 23
#define BIAS (1023 - 127)
#define IS_SAFE(sums, r, c) is_safe_in_float(sums)
#define POWERS_ARE_EXACT are_exact_in_float
#include "vectors.h"
#include "sides.h"
#include "chunk.h"
#include "points.h"

#undef T
#undef LANES
#undef MASK
#undef NAME
#undef AVX
#undef SCALE
#undef ROUNDED
#undef LEAST
#undef SLACK
#undef MOST
#undef AHEAD
#undef CANCELLED
#undef WHOLE_FROM
#undef EXPONENT
#undef FRACTION
#undef BIAS
#undef IS_SAFE
#undef POWERS_ARE_EXACT

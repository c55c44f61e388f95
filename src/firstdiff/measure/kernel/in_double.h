/* The functions of a chunk for double; what the names stand for, the included files say. */

#define T double
#define LANES 4
#define MASK int64_t
#define NAME(name) name##_double
#define AVX(name) _mm256_##name##_pd
#define SCALE 0x1p200
#define ROUNDED 0x1p-53
#define LEAST 1e-250
#define SLACK ROUNDING
#define MOST 1.7e308
#define AHEAD 256
#define CANCELLED 1e-4
#define WHOLE_FROM 0x1p52
#define EXPONENT (INT64_C(0x7ff) << 52)
#define FRACTION 52
#define BIAS INT64_C(0)
#define IS_SAFE(sums, r, c) (isfinite((sums)->rr + (sums)->dd) || are_finite_double(r, c, (sums)->n))
#define POWERS_ARE_EXACT(relative, most, known) 1
#include "vectors.h"

static inline void add_to(double *sums, Vector_double values)
{
    Vector_double sum = load_double(sums) + values;
    memcpy(sums, &sum, sizeof sum);
}

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

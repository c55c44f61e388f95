/* The functions of a chunk for one type: included for WIDTH 64, double, and then for 32, float, which leaves to double
 * what it cannot do justice to. What the names below stand for, the included files say. */

#if WIDTH == 64

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
#define AHEAD 512
#define CANCELLED 1e-4
#define WHOLE_FROM 0x1p52
#define EXPONENT (INT64_C(0x7ff) << 52)
#define FRACTION 52
#define BIAS INT64_C(0)
#define IS_SAFE(sums, r, c) (is_finite((sums)->rr + (sums)->dd) || are_finite_double(r, c, (sums)->n))
#define POWERS_ARE_EXACT(relative, most, known) 1

#else

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
#define AHEAD 1024
#define CANCELLED 0.25
#define WHOLE_FROM 0x1p23f
#define EXPONENT (INT32_C(0xff) << 23)
#define FRACTION 23
#define BIAS (1023 - 127)
#define IS_SAFE(sums, r, c) is_safe_in_float(sums)
#define POWERS_ARE_EXACT are_exact_in_float

#endif

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
#undef WIDTH

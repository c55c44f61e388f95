/* Elements of any of the four types as float or double, a chunk at a time. */

#define LINE 32 /* of them are converted together: 64 bytes, as memory is read */

static inline float float_of_bits(uint32_t bits)
{
    float value;
    memcpy(&value, &bits, sizeof value);
    return value;
}

static inline float float_of_bfloat16(uint16_t value)
{
    return float_of_bits((uint32_t)value << 16);
}

/* Shift the bits into a float's places; a product mends the exponent, of subnormal numbers too. */
static inline float float_of_float16(uint16_t half)
{
    uint32_t size = (half & 0x7fffu) << 13, sign = (half & 0x8000u) << 16, bits;
    float value = float_of_bits(size) * 0x1p112f;
    memcpy(&bits, &value, sizeof bits);
    bits = size >= 0x0f800000 ? size | 0x70000000 : bits; /* Inf and NaN: an exponent of all ones */
    return float_of_bits(bits | sign);
}

static inline void convert_line_bfloat16(const uint16_t *values, float *out)
{
    for (int j = 0; j < LINE; j++)
        out[j] = float_of_bfloat16(values[j]);
}

static inline void convert_line_float16(const uint16_t *values, float *out)
{
#ifdef __F16C__
    for (int j = 0; j < LINE; j += 8)
        _mm256_storeu_ps(out + j, _mm256_cvtph_ps(_mm_loadu_si128((const __m128i *)(values + j))));
#else
    for (int j = 0; j < LINE; j++)
        out[j] = float_of_float16(values[j]);
#endif
}

#define CONVERT_ALL(type)                               \
    int64_t at = 0;                                     \
    for (; at + LINE <= n; at += LINE) {                \
        __builtin_prefetch(values + at + 1024);         \
        convert_line_##type(values + at, out + at);     \
    }                                                   \
    for (; at < n; at++)                                \
        out[at] = float_of_##type(values[at]);

static void from_bfloat16(const uint16_t *restrict values, int64_t n, float *restrict out)
{
    CONVERT_ALL(bfloat16)
}

static void from_float16(const uint16_t *restrict values, int64_t n, float *restrict out)
{
    CONVERT_ALL(float16)
}

static int64_t width_of(int64_t type)
{
    return type == FLOAT64 ? 8 : type == FLOAT32 ? 4 : 2;
}

/* A chunk as float: where it lies, if it can be used there, else in `room`. */
static const float *floats_of(const char *data, int64_t type, int64_t n, float *room)
{
    if (type == FLOAT32 && (uintptr_t)data % sizeof(float) == 0)
        return (const float *)data;
    if (type == FLOAT32) {
        memcpy(room, data, (size_t)n * sizeof(float));
    } else {
        uint16_t halves[CHUNK];
        const uint16_t *values = (const uint16_t *)data;
        if ((uintptr_t)data % sizeof(uint16_t))
            values = memcpy(halves, data, (size_t)n * sizeof(uint16_t));
        if (type == BFLOAT16)
            from_bfloat16(values, n, room);
        else
            from_float16(values, n, room);
    }
    return room;
}

static const double *doubles_of(const char *data, int64_t type, int64_t n, double *room)
{
    if (type == FLOAT64 && (uintptr_t)data % sizeof(double) == 0)
        return (const double *)data;
    if (type == FLOAT64)
        return memcpy(room, data, (size_t)n * sizeof(double));
    float narrow[CHUNK];
    const float *values = floats_of(data, type, n, narrow);
    for (int64_t i = 0; i < n; i++)
        room[i] = values[i];
    return room;
}

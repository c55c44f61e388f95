/* Vectors of 32 bytes, which compilers map to what the processor has. Included for float and for double.
 *
 * T, LANES, MASK: the type, how many of it make a vector, and a whole number as wide
 * NAME(x): a name for this type; AVX(x): the name of an instruction for it */

typedef T NAME(Vector) __attribute__((vector_size(32)));
typedef MASK NAME(Mask) __attribute__((vector_size(32)));

static inline NAME(Vector) NAME(load)(const T *values)
{
    NAME(Vector) vector;
    memcpy(&vector, values, sizeof vector);
    return vector;
}

static inline void NAME(add_to)(T *sums, NAME(Vector) values)
{
    values += NAME(load)(sums);
    memcpy(sums, &values, sizeof values);
}

/* The first `left` values, if these do not fill a vector; the others are `fill`. */
static inline NAME(Vector) NAME(load_part)(const T *values, int64_t left, T fill)
{
    NAME(Vector) vector;
    for (int64_t j = 0; j < LANES; j++)
        vector[j] = j < left ? values[j] : fill;
    return vector;
}

static inline NAME(Vector) NAME(load_some)(const T *values, int64_t left)
{
    return left >= LANES ? NAME(load)(values) : NAME(load_part)(values, left, 0);
}

static inline NAME(Vector) NAME(every)(T value)
{
    return (NAME(Vector)){0} + value;
}

static inline NAME(Vector) NAME(choose)(NAME(Mask) mask, NAME(Vector) yes, NAME(Vector) no)
{
    return (NAME(Vector))((mask & (NAME(Mask))yes) | (~mask & (NAME(Mask))no));
}

/* Where they cannot be compared, the right one. Compilers do not see one instruction in this; AVX has it. */
static inline NAME(Vector) NAME(smaller)(NAME(Vector) left, NAME(Vector) right)
{
#ifdef __AVX2__
    return AVX(min)(left, right);
#else
    return NAME(choose)(left < right, left, right);
#endif
}

static inline NAME(Vector) NAME(larger)(NAME(Vector) left, NAME(Vector) right)
{
#ifdef __AVX2__
    return AVX(max)(left, right);
#else
    return NAME(choose)(left > right, left, right);
#endif
}

static inline NAME(Vector) NAME(absolute)(NAME(Vector) values)
{
    return (NAME(Vector))((NAME(Mask))values & (MASK)(sizeof(T) == 4 ? INT32_MAX : INT64_MAX)); /* without the sign */
}

/* left * right + more, rounded once where the processor can: a fifth less time in loops that do nothing else. */
static inline NAME(Vector) NAME(fused)(NAME(Vector) left, NAME(Vector) right, NAME(Vector) more)
{
#ifdef __FMA__
    return AVX(fmadd)(left, right, more);
#else
    return left * right + more;
#endif
}

static inline int NAME(any)(NAME(Mask) mask)
{
#ifdef __AVX2__
    return AVX(movemask)((NAME(Vector))mask) != 0;
#else
    MASK found = 0;
    for (int j = 0; j < LANES; j++)
        found |= mask[j];
    return found != 0;
#endif
}

/* How often masks that were added up were true: a true lane is -1. */
static inline int64_t NAME(count)(NAME(Mask) masks)
{
    int64_t count = 0;
    for (int j = 0; j < LANES; j++)
        count -= masks[j];
    return count;
}

static inline double NAME(total)(NAME(Vector) values)
{
    double sum = 0;
    for (int j = 0; j < LANES; j++)
        sum += values[j];
    return sum;
}

static inline double NAME(smallest)(NAME(Vector) values)
{
    T found = values[0];
    for (int j = 1; j < LANES; j++)
        found = values[j] < found ? values[j] : found;
    return found;
}

static inline double NAME(largest)(NAME(Vector) values)
{
    T found = values[0];
    for (int j = 1; j < LANES; j++)
        found = values[j] > found ? values[j] : found;
    return found;
}

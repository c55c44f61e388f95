/* Which variant of the kernel this processor runs, and which structs it fills. */

#include "firstdiff.h"

#ifdef _WIN32
#define PUBLIC __declspec(dllexport)
#else
#define PUBLIC __attribute__((visibility("default")))
#endif

#if defined(__x86_64__)
#include <cpuid.h>

/* AVX2, FMA and F16C, and an operating system that keeps its registers. */
static int has_avx2(void)
{
    unsigned int a, b, c, d;
    if (!__get_cpuid(1, &a, &b, &c, &d) || !(c & bit_OSXSAVE) || !(c & bit_AVX) || !(c & bit_FMA) ||
        !(c & bit_F16C))
        return 0;
    unsigned int low, high;
    __asm__ volatile("xgetbv" : "=a"(low), "=d"(high) : "c"(0));
    return (low & 6) == 6 && __get_cpuid_count(7, 0, &a, &b, &c, &d) && (b & bit_AVX2);
}
#else
static int has_avx2(void)
{
    return 0;
}
#endif

/* What library.py checks before it calls anything. */
PUBLIC int firstdiff_kernel_version(void)
{
    return 3;
}

PUBLIC int64_t firstdiff_kernel_figures(void)
{
    return (int64_t)sizeof(Figures);
}

PUBLIC int supports_avx2(void)
{
    return has_avx2();
}

/* Random bits of every type and many shapes through the kernel; the sanitizers it is compiled with say what is wrong. */

#include <stdio.h>
#include <stdlib.h>

#include "scan.c"

#define QUOTED(name) #name
#define TEXT(name) QUOTED(name)

static uint64_t state = 88172645463325252u;

static uint64_t next_bits(void)
{
    state ^= state << 13;
    state ^= state >> 7;
    state ^= state << 17;
    return state;
}

/* Memory of exactly the size that is needed, so that every step beyond it is noticed. */
static char *random_values(int64_t type, int64_t n, int kind)
{
    char *values = malloc((size_t)(n * width_of(type)));
    for (int64_t i = 0; i < n; i++) {
        uint64_t bits = next_bits();
        double number = kind == 1 ? (double)(bits % 200) - 100 : (double)(bits % 20001) * 1e-4 - 1;
        float narrow = (float)number;
        if (kind == 0 && type == FLOAT32)
            memcpy(values + 4 * i, &bits, 4);
        else if (kind == 0 && type == FLOAT64)
            memcpy(values + 8 * i, &bits, 8);
        else if (type == FLOAT32)
            memcpy(values + 4 * i, &narrow, 4);
        else if (type == FLOAT64)
            memcpy(values + 8 * i, &number, 8);
        else
            memcpy(values + 2 * i, &bits, 2);
    }
    return values;
}

static void scan_all(int64_t reference_type, int64_t candidate_type, int64_t rows, int64_t row, int64_t together, int kind)
{
    int64_t n = rows * row, group = row * together, groups = (n + group - 1) / group;
    Plan plan = {.reference_type = reference_type, .candidate_type = candidate_type, .row = row, .group = group,
                 .channel_rows = 1 + kind, .sampled = n > 3000, .full = kind == 2, .smallest_normal = 0x1p-126,
                 .rows = calloc((size_t)(groups * FIGURES), sizeof(double)),
                 .channels = calloc((size_t)(FIGURES * (row + CHANNEL_ROOM)), sizeof(double)),
                 .bins = calloc(1 << (63 - BIN_SHIFT), sizeof(int64_t)), .cells = calloc(CELL_SLOTS, sizeof(Cell)),
                 .used = calloc(MOST_CELLS, sizeof(uint16_t))};
    char *r = random_values(reference_type, n, kind), *c = random_values(candidate_type, n, kind);
    int64_t cut = n / 3;
    Figures figures;
    EXPORTED(begin)(&figures);
    EXPORTED(scan)(&plan, &figures, r, c, 0, cut);
    EXPORTED(scan)(&plan, &figures, r + cut * width_of(reference_type), c + cut * width_of(candidate_type), cut, n - cut);
    int64_t outside = EXPORTED(count_outside)(&plan, &figures, r, c, n, 1e-3, 1e-3);
    if (figures.elements != n || outside > figures.finite || figures.hull.count > CORNERS) {
        printf("figures that cannot be: %lld of %lld elements\n", (long long)figures.elements, (long long)n);
        exit(1);
    }
    free(plan.rows), free(plan.channels), free(plan.bins), free(plan.cells), free(plan.used), free(r), free(c);
}

int main(void)
{
#ifdef __AVX2__
    if (!__builtin_cpu_supports("avx2")) {
        puts("this processor has no AVX2: its variant was not tried");
        return 0;
    }
#endif
    const int64_t shapes[][3] = {{1, 1, 1}, {3, 5, 1}, {7, 9, 4}, {1, 1023, 1}, {2, 1025, 1}, {3, 2051, 1},
                                 {300, 3, 16}, {9, 64, 1}, {5, 129, 2}, {2, 70001, 1}};
    for (int64_t reference = FLOAT32; reference <= FLOAT16; reference++)
        for (int64_t candidate = FLOAT32; candidate <= FLOAT16; candidate++)
            for (size_t shape = 0; shape < sizeof shapes / sizeof *shapes; shape++)
                for (int kind = 0; kind < 3; kind++)
                    scan_all(reference, candidate, shapes[shape][0], shapes[shape][1], shapes[shape][2], kind);
    printf("the sanitizers found nothing in the %s variant\n", TEXT(VARIANT));
    return 0;
}

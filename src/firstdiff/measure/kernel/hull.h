/* The few elements that decide every tolerance.
 *
 * d <= atol + rtol * x, with d = |c - r| and x = |r|, holds for all elements if it holds for the corners of the
 * concave curve that lies over all points (x, d) and starts at the origin. */

#define ROUNDING 0x1p-40 /* a point over the curve by a smaller share is taken as on it */
#define FIRST_STEP 0x1p-24

static double slope_between(const Hull *hull, int64_t left, int64_t right)
{
    double run = hull->x[right] - hull->x[left];
    return run ? (hull->d[right] - hull->d[left]) / run : INFINITY;
}

static void remove_corner(Hull *hull, int64_t at)
{
    size_t rest = (size_t)(hull->count - at) * sizeof(double);
    memmove(hull->x + at, hull->x + at + 1, rest);
    memmove(hull->d + at, hull->d + at + 1, rest);
    hull->count--;
}

/* Past the capacity, drop inner corners that the chord over them misses by little, never two in a row, and say by
 * how much that lowered the curve. */
static void thin_out(Hull *hull)
{
    double step = larger(FIRST_STEP, hull->slack / 8);
    for (; hull->count > CORNERS; step *= 2) {
        int64_t before = hull->count;
        for (int64_t at = 2; at < hull->count; at++) {
            double chord = hull->d[at - 1] + slope_between(hull, at - 1, at + 1) * (hull->x[at] - hull->x[at - 1]);
            if (hull->d[at] <= chord * (1 + step))
                remove_corner(hull, at);
        }
        if (hull->count < before)
            hull->slack = (1 + hull->slack) * (1 + step) - 1;
    }
}

/* Returns whether the curve has changed. */
static int add_corner(Hull *hull, double x, double d)
{
    int64_t at = 1;
    while (at <= hull->count && hull->x[at] < x)
        at++;
    double height = at > hull->count ? hull->d[hull->count]
                                     : hull->d[at - 1] + slope_between(hull, at - 1, at) * (x - hull->x[at - 1]);
    if (d <= height * (1 + hull->slack))
        return 0;
    if (at > hull->count || hull->x[at] > x) {
        size_t rest = (size_t)(hull->count - at + 1) * sizeof(double);
        memmove(hull->x + at + 1, hull->x + at, rest);
        memmove(hull->d + at + 1, hull->d + at, rest);
        hull->count++;
    }
    hull->x[at] = x;
    hull->d[at] = d;
    while (at < hull->count && hull->d[at + 1] <= d)
        remove_corner(hull, at + 1);
    while (at + 1 < hull->count && slope_between(hull, at, at + 1) <= slope_between(hull, at + 1, at + 2))
        remove_corner(hull, at + 1);
    for (; at > 1 && slope_between(hull, at - 2, at - 1) <= slope_between(hull, at - 1, at); at--)
        remove_corner(hull, at - 1);
    thin_out(hull);
    return 1;
}

/* The corner that lies highest over the chord between two others, or the left one of these. */
static int64_t highest_over(const Hull *hull, int64_t left, int64_t right)
{
    double slope = slope_between(hull, left, right), most = 0;
    int64_t highest = left;
    for (int64_t at = left + 1; at < right; at++) {
        double height = hull->d[at] - hull->d[left] - slope * (hull->x[at] - hull->x[left]);
        if (height > most)
            most = height, highest = at;
    }
    return highest;
}

/* The first chord ends at the first corner, which is the steepest point. Of the others, two share the left part, where
 * the curve bends most and few points are. */
static Lines lines_under(const Hull *hull)
{
    int64_t last = hull->count, first = last ? 1 : 0;
    int64_t middle = highest_over(hull, first, last), bend = highest_over(hull, first, middle);
    int64_t ends[CHORDS + 1] = {0, first, bend, middle, last};
    Lines lines = {.top = hull->d[last], .at_zero = hull->at_zero};
    for (int chord = 0; chord < CHORDS; chord++) {
        int64_t left = ends[chord], right = ends[chord + 1];
        lines.slope[chord] = left < right ? slope_between(hull, left, right) : 0;
        lines.height[chord] = left < right ? 0 : INFINITY; /* no such chord */
        if (left && left < right)
            lines.height[chord] = hull->d[left] - lines.slope[chord] * hull->x[left];
    }
    return lines;
}

/* Take in a point that may be over the curve, but not at 0; returns whether the curve has changed. */
static int add_point(Hull *hull, double x, double d)
{
    if (d == INFINITY) {
        hull->at_zero = INFINITY; /* a difference beyond float64: no tolerance can be judged */
        return 0;
    }
    hull->steepest = larger(d / x, hull->steepest);
    return add_corner(hull, x, d);
}

/* Sums of uniform B-splines over a grid of coefficients, their derivatives, and the transposes of both.
 *
 * A coordinate is brought onto the grid, where it has degree + 1 neighbours in each axis; their weights follow from the
 * recursion of Cox and de Boor on the interval between two knots,
 *     d b_d[j](t) = (t + d - j) b_(d-1)[j-1](t) + (1 - t + j) b_(d-1)[j](t),    b_0 = 1,    0 <= t <= 1,
 * in which nothing cancels, and their derivatives from b_d[j]' = b_(d-1)[j-1] - b_(d-1)[j]
 * (de Boor, A Practical Guide to Splines, X (8) to (15); Unser, Splines: a perfect fit for signal and image processing).
 */
#include <math.h>

#define MOST_NEIGHBOURS 6 /* of degree 5 */
#define MOST_AXES 64

enum { REFLECT, CONSTANT, GRID_CONSTANT, NEAREST, MIRROR, GRID_WRAP, WRAP };

/* One axis of one point. Neighbours that lie on no grid point have the index -1. */
typedef struct {
    double weight[MOST_NEIGHBOURS], total;
    int64_t offset[MOST_NEIGHBOURS];
} neighbours;

/* Where on the grid of n points a coordinate outside of it lies, and in `slope` how that moves with the coordinate:
 * SciPy's extensions. Returns whether it lies anywhere. */
static bool bring(double *x, double *slope, int64_t n, int64_t mode) {
    double last = (double)(n - 1);
    *slope = 1;
    if ((*x >= 0 && *x <= last) || mode == GRID_CONSTANT || mode == NEAREST || isnan(*x))
        return true; /* it may lie beside the grid: its neighbours do not, or are known */
    if (mode == CONSTANT) return false;
    if (n == 1) {
        *slope = *x = 0;
    } else if (mode == GRID_WRAP || mode == WRAP) { /* of WRAP both ends are one point: the last, where x < 0 */
        double period = mode == WRAP ? last : (double)n, rest = fmod(*x, period);
        *x = *x < 0 ? rest + period : rest;
    } else {
        double shift = mode == REFLECT ? 0.5 : 0, period = 2 * (last + 2 * shift),
               rest = fmod(fabs(*x + shift), period);
        bool below = *x < -shift, back = below || mode == REFLECT ? 2 * rest >= period : rest >= (double)n;
        *slope = back == below ? 1 : -1;
        *x = (back ? period - rest : rest) - shift;
    }
    return true;
}

/* The grid point that stands for number i of the endless grid; -1 for none. */
static int64_t folded(int64_t i, int64_t n, int64_t mode) {
    if (i >= 0 && i < n) return i;
    if (mode == GRID_CONSTANT) return -1;
    if (n == 1) return 0;
    if (mode == NEAREST) return i < 0 ? 0 : n - 1;
    if (mode == GRID_WRAP) return (i % n + n) % n;
    int64_t edge = mode == REFLECT ? 1 : 0, period = 2 * (n - 1 + edge);
    i = (i % period + period) % period;
    return i < n ? i : period - edge - i;
}

/* The neighbours of a coordinate, of spline values where `order` is 0, else of their derivatives of that order.
 * Returns whether there are any. */
static bool find(neighbours *found, double x, int64_t n, int64_t stride, int64_t degree, int64_t order, int64_t mode) {
    double slope;
    if (!bring(&x, &slope, n, mode)) return false;
    if (isnan(x)) {
        *found = (neighbours){.weight = {x}, .total = x};
        return true;
    }
    double half = degree % 2 ? 0 : 0.5; /* knots lie on the grid points, or half between */
    x = fmin(fmax(x, -4e15), 4e15);     /* where the cast is defined; no grid is as large */
    double knot = floor(x + half);
    if (degree % 2 && mode != REFLECT && mode != GRID_WRAP && x == (double)(n - 1) && n > 1) knot -= 1;
    double t = x - knot + half; /* in this order exact to the last digit but one */
    double weight[MOST_NEIGHBOURS + 1] = {1}; /* of a degree that grows */
    for (int64_t d = 1; d <= degree; d++)
        for (int64_t j = d; j >= 0; j--) {
            double before = j > 0 ? weight[j - 1] : 0, here = j < d ? weight[j] : 0;
            if (d + order > degree) weight[j] = slope * (before - here);
            else weight[j] = ((t + (double)(d - j)) * before + (1 - t + (double)j) * here) / (double)d;
        }
    found->total = 0;
    for (int64_t j = 0; j <= degree; j++) {
        int64_t i = folded((int64_t)knot - degree / 2 + j, n, mode);
        found->weight[j] = order > degree ? 0 : weight[j];
        found->offset[j] = i < 0 ? -1 : i * stride;
        found->total += found->weight[j];
    }
    return true;
}

/* The neighbours of a point in all axes. Returns whether there are any. */
static bool find_all(neighbours *found, const double *x, const int64_t *sizes, int64_t axes, int64_t degree,
                     const int64_t *orders, int64_t mode) {
    int64_t stride = 1;
    for (int64_t axis = axes; axis-- > 0; stride *= sizes[axis])
        if (!find(&found[axis], x[axis], sizes[axis], stride, degree, orders[axis], mode)) return false;
    return true;
}

/* The sum over the neighbours in the axes from here on. */
static double sum(const neighbours *at, int64_t axes, int64_t degree, const double *coefficients, double outside) {
    double result = 0;
    if (axes == 1) {
        for (int64_t j = 0; j <= degree; j++)
            result += at->weight[j] * (at->offset[j] >= 0 ? coefficients[at->offset[j]] : outside);
        return result;
    }
    for (int64_t j = 0; j <= degree; j++) {
        if (at->offset[j] >= 0) {
            result += at->weight[j] * sum(at + 1, axes - 1, degree, coefficients + at->offset[j], outside);
        } else {
            double rest = outside;
            for (int64_t axis = 1; axis < axes; axis++) rest *= at[axis].total;
            result += at->weight[j] * rest;
        }
    }
    return result;
}

/* Adds to the neighbours what each weighs. */
static void scatter(const neighbours *at, int64_t axes, int64_t degree, double value, double *coefficients) {
    for (int64_t j = 0; j <= degree; j++) {
        if (at->offset[j] < 0) continue;
        if (axes == 1) coefficients[at->offset[j]] += at->weight[j] * value;
        else scatter(at + 1, axes - 1, degree, at->weight[j] * value, coefficients + at->offset[j]);
    }
}

/* Whether sizes and orders are those of the arrays. */
static bool fit(int64_t count, const int64_t *sizes, int64_t sizes_length, int64_t orders_length, int64_t axes) {
    int64_t product = 1;
    for (int64_t axis = 0; axis < sizes_length; axis++) product *= sizes[axis];
    bool axes_fit = axes > 0 && axes <= MOST_AXES && sizes_length == axes && orders_length == axes;
    return product == count && axes_fit;
}

int interpolate(int64_t size, int64_t n, int64_t axes, const double *coefficients, const double *coordinates,
                const int64_t *sizes, int64_t sizes_length, const int64_t *orders, int64_t orders_length,
                int64_t degree, int64_t mode, double cval, double *out) {
    if (!fit(size, sizes, sizes_length, orders_length, axes) || degree < 0 || degree >= MOST_NEIGHBOURS) return 1;
    bool values = true;
    for (int64_t axis = 0; axis < axes; axis++) values &= orders[axis] == 0;
    double nowhere = values ? cval : 0;
    neighbours found[MOST_AXES];
    for (int64_t i = 0; i < n; i++) {
        bool anywhere = size > 0 && find_all(found, coordinates + i * axes, sizes, axes, degree, orders, mode);
        out[i] = anywhere ? sum(found, axes, degree, coefficients, cval) : nowhere;
    }
    return 0;
}

int spread(int64_t n, int64_t axes, const double *values, const double *coordinates, const int64_t *sizes,
           int64_t sizes_length, const int64_t *orders, int64_t orders_length, int64_t degree, int64_t mode,
           int64_t size, double *out) {
    if (!fit(size, sizes, sizes_length, orders_length, axes) || degree < 0 || degree >= MOST_NEIGHBOURS) return 1;
    neighbours found[MOST_AXES];
    memset(out, 0, (size_t)size * sizeof(double));
    for (int64_t i = 0; i < n && size > 0; i++) {
        bool anywhere = find_all(found, coordinates + i * axes, sizes, axes, degree, orders, mode);
        for (int64_t axis = 0; axis < axes; axis++) anywhere &= !isnan(found[axis].total); /* 0 times NaN is no 0 */
        if (anywhere) scatter(found, axes, degree, values[i], out);
    }
    return 0;
}

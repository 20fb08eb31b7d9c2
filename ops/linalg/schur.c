/* ops/linalg/schur.c -- eigenvalues and eigenvectors of general matrices, in complex numbers: the
 * shifted QR iteration on the Hessenberg form (Golub & Van Loan, 7.5). */
#include <math.h>

#include "ops/linalg/linalg.h"

enum { MAX_STEPS = 60, EXCEPTIONAL = 10 };

/* Applies the unitary similarity of rows and columns p and p + 1 that maps (x, y) to (r, 0). */
static void turn(number *a, number *q, int64_t n, int64_t p, number x, number y)
{
    double r = hypot(cabs(x), cabs(y));
    if (r == 0) {
        return;
    }
    number c = conj(x) / r, s = conj(y) / r;
    for (int64_t j = 0; j < n; j++) {
        number *up = a + p * n + j, *down = up + n, u = *up;
        *up = c * u + s * *down;
        *down = conj(c) * *down - conj(s) * u;
    }
    for (int64_t i = 0; i < n; i++) {
        for (int second = 0; second < 2; second++) {
            number *left = (second ? q : a) + i * n + p, u = left[0];
            left[0] = u * conj(c) + left[1] * conj(s);
            left[1] = left[1] * c - u * s;
        }
    }
}

static void hessenberg(number *a, number *q, int64_t n)
{
    for (int64_t k = 0; k + 2 < n; k++) {
        for (int64_t i = n - 1; i > k + 1; i--) {
            turn(a, q, n, i - 1, a[(i - 1) * n + k], a[i * n + k]);
            a[i * n + k] = 0;
        }
    }
}

/* The eigenvalue of the last 2x2 block that is nearer to its last element (the Wilkinson shift). */
static number shift(const number *a, int64_t n, int64_t last, int step)
{
    number d = a[last * n + last], below = a[last * n + last - 1];
    if (step % EXCEPTIONAL == 0) {
        return d + cabs(below);
    }
    number delta = (a[(last - 1) * n + last - 1] - d) / 2;
    number root = csqrt(delta * delta + a[(last - 1) * n + last] * below);
    return d + (cabs(delta + root) < cabs(delta - root) ? delta + root : delta - root);
}

/* Reduces a to upper triangular form. */
static bool triangularise(number *a, number *q, int64_t n)
{
    int64_t last = n - 1;
    for (int step = 1; last > 0; step++) {
        int64_t first = last;
        for (; first > 0; first--) {
            number *below = a + first * n + first - 1;
            double scale = cabs(a[first * n + first]) + cabs(a[(first - 1) * n + first - 1]);
            if (cabs(*below) <= 1e-16 * scale || cabs(*below) < 1e-300) {
                *below = 0;
                break;
            }
        }
        if (first == last) {
            last--;
            step = 0;
            continue;
        }
        if (step > MAX_STEPS) {
            return false;
        }
        number x = a[first * n + first] - shift(a, n, last, step), y = a[(first + 1) * n + first];
        for (int64_t k = first; k < last; k++) {
            turn(a, q, n, k, x, y);
            if (k > first) {
                a[(k + 1) * n + k - 1] = 0;
            }
            if (k + 2 <= last) {
                x = a[(k + 1) * n + k];
                y = a[(k + 2) * n + k];
            }
        }
    }
    return true;
}

/* Computes column j of v: q y as a unit vector, where (t - t_jj) y = 0. y is stored in `room`. */
static void eigenvector(const number *t, const number *q, int64_t n, int64_t j, double smallest,
                        number *room, number *v)
{
    double size = 0;
    for (int64_t i = j; i >= 0; i--) {
        number sum = 0, gap = t[i * n + i] - t[j * n + j];
        for (int64_t k = i + 1; k <= j; k++) {
            sum -= t[i * n + k] * room[k];
        }
        room[i] = i == j ? 1 : sum / (cabs(gap) < smallest ? smallest : gap);
    }
    for (int64_t i = 0; i < n; i++) {
        number sum = 0;
        for (int64_t k = 0; k <= j; k++) {
            sum += q[i * n + k] * room[k];
        }
        v[i * n + j] = sum;
        size = hypot(size, cabs(sum));
    }
    for (int64_t i = 0; i < n; i++) {
        v[i * n + j] /= size;
    }
    weft__fix_phase(v + j, n, n);
}

/* Orders eigenvalues by real part, or by imaginary part if the real parts are equal within the
 * tolerance. */
static bool before(number a, number b, double tolerance)
{
    double re = creal(a) - creal(b), im = cimag(a) - cimag(b);
    return fabs(re) > tolerance || fabs(im) <= tolerance ? re < 0 : im < 0;
}

static void sort_columns(number *w, number *v, int64_t n)
{
    double largest = 0;
    for (int64_t i = 0; i < n; i++) {
        largest = fmax(largest, cabs(w[i]));
    }
    for (int64_t i = 1; i < n; i++) {
        for (int64_t j = i; j > 0 && before(w[j], w[j - 1], 1e-5 * largest); j--) {
            number swap = w[j];
            w[j] = w[j - 1];
            w[j - 1] = swap;
            for (int64_t r = 0; v && r < n; r++) {
                swap = v[r * n + j];
                v[r * n + j] = v[r * n + j - 1];
                v[r * n + j - 1] = swap;
            }
        }
    }
}

bool weft__eigen(number *a, number *q, int64_t n, number *room, number *w, number *v)
{
    double largest = 0;
    for (int64_t i = 0; i < n * n; i++) {
        q[i] = i / n == i % n;
        largest = fmax(largest, cabs(a[i]));
    }
    hessenberg(a, q, n);
    if (!triangularise(a, q, n)) {
        return false;
    }
    for (int64_t j = 0; j < n; j++) {
        w[j] = a[j * n + j];
        if (v) {
            eigenvector(a, q, n, j, fmax(1e-16 * largest, 1e-300), room, v);
        }
    }
    sort_columns(w, v, n);
    return true;
}

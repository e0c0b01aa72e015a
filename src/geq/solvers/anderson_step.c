/* A step of Anderson acceleration: store the newest image and residual, extend the inner products, find the weights
 * of the combination and combine. The mathematics is that of Anderson.step and rules.anderson_weights.
 *
 * The same text is compiled for float and for double. Samples are independent and each is done by one thread, in a
 * fixed order: results do not depend on the number of threads, and NaN in a sample does not reach the others.
 */
#ifndef REAL
#include <math.h>
#include <stddef.h>
#include <string.h>

#define MOST 32    /* states that are combined */
#define BLOCK 2048 /* numbers that are summed in their own precision, before these sums are added in double */

typedef struct {
    ptrdiff_t batch, size, slots, memory; /* memory: side of the inner products; slots: states that there is room for */
    ptrdiff_t slot, count, threads;
    double ridge, most_weight, mixing;
} Step;

/* Solve the n equations A x = b in place by elimination with pivots; a singular system gives NaN or infinity. */
static void eliminate(double a[MOST][MOST], double *x, ptrdiff_t n)
{
    for (ptrdiff_t k = 0; k < n; k++) {
        ptrdiff_t pivot = k;
        for (ptrdiff_t i = k + 1; i < n; i++)
            if (fabs(a[i][k]) > fabs(a[pivot][k])) pivot = i;
        if (pivot != k) {
            for (ptrdiff_t j = k; j < n; j++) {
                const double kept = a[k][j];
                a[k][j] = a[pivot][j], a[pivot][j] = kept;
            }
            const double kept = x[k];
            x[k] = x[pivot], x[pivot] = kept;
        }
        for (ptrdiff_t i = k + 1; i < n; i++) {
            const double factor = a[i][k] / a[k][k];
            for (ptrdiff_t j = k + 1; j < n; j++) a[i][j] -= factor * a[k][j];
            x[i] -= factor * x[k];
        }
    }
    for (ptrdiff_t k = n - 1; k >= 0; k--) {
        for (ptrdiff_t j = k + 1; j < n; j++) x[k] -= a[k][j] * x[j];
        x[k] /= a[k][k];
    }
}

#define REAL float
#define NAME(x) x##_float
#define TINY 1.17549435082228750797e-38 /* the smallest normal number */
#define PRECISION 1.1920928955078125e-07
#include __FILE__
#undef REAL
#undef NAME
#undef TINY
#undef PRECISION
#define REAL double
#define NAME(x) x##_double
#define TINY 2.22507385850720138309e-308
#define PRECISION 2.22044604925031308085e-16
#include __FILE__

#else

static REAL NAME(dot)(const REAL *restrict a, const REAL *restrict b, ptrdiff_t size)
{
    double total = 0;
    for (ptrdiff_t from = 0; from < size; from += BLOCK) {
        const ptrdiff_t to = from + BLOCK < size ? from + BLOCK : size;
        REAL sum = 0;
#pragma omp simd reduction(+ : sum)
        for (ptrdiff_t i = from; i < to; i++) sum += a[i] * b[i];
        total += sum;
    }
    return (REAL)total;
}

/* gram: memory x memory, of one sample */
static void NAME(weights)(const Step *s, const REAL *gram, REAL *found)
{
    const ptrdiff_t n = s->count;
    double scale[MOST], system[MOST][MOST], weight[MOST], sum = 0, size = 0;
    for (ptrdiff_t i = 0; i < n; i++) {
        const double square = gram[i * s->memory + i];
        scale[i] = square > TINY ? 1 / sqrt(square) : 0;
    }
    const double ridge = s->ridge > PRECISION ? s->ridge : PRECISION;
    for (ptrdiff_t i = 0; i < n; i++) {
        for (ptrdiff_t j = 0; j < n; j++) system[i][j] = gram[i * s->memory + j] * scale[i] * scale[j];
        system[i][i] += ridge;
        weight[i] = scale[i];
    }
    eliminate(system, weight, n);
    for (ptrdiff_t i = 0; i < n; i++) sum += weight[i] *= scale[i];
    for (ptrdiff_t i = 0; i < n; i++) size += fabs(weight[i] /= sum);
    const int usable = size <= s->most_weight; /* 0 for NaN */
    for (ptrdiff_t i = 0; i < n; i++) found[i] = usable ? (REAL)weight[i] : i == s->slot;
}

static void NAME(sample)(const Step *s, const REAL *restrict image, const REAL *restrict residual,
                         REAL *restrict images, REAL *restrict residuals, REAL *gram, REAL *restrict out)
{
    const ptrdiff_t size = s->size;
    REAL weight[MOST];
    memcpy(images + s->slot * size, image, size * sizeof(REAL));
    memcpy(residuals + s->slot * size, residual, size * sizeof(REAL));
    for (ptrdiff_t i = 0; i < s->count; i++)
        gram[s->slot * s->memory + i] = gram[i * s->memory + s->slot]
            = NAME(dot)(residuals + i * size, residual, size);
    NAME(weights)(s, gram, weight);
    for (ptrdiff_t from = 0; from < size; from += BLOCK) { /* a stretch stays in the cache while rows are added to it */
        const ptrdiff_t to = from + BLOCK < size ? from + BLOCK : size;
        for (ptrdiff_t i = 0; i < s->count; i++) {
            const REAL w = weight[i], *restrict row = images + i * size;
            if (i == 0)
                for (ptrdiff_t k = from; k < to; k++) out[k] = w * row[k];
            else
                for (ptrdiff_t k = from; k < to; k++) out[k] += w * row[k];
        }
        if (s->mixing == 1) continue;
        for (ptrdiff_t i = 0; i < s->count; i++) {
            const REAL w = weight[i] * (REAL)(s->mixing - 1), *restrict row = residuals + i * size;
            for (ptrdiff_t k = from; k < to; k++) out[k] += w * row[k];
        }
    }
}

/* All arrays have the samples first and are contiguous: image, residual and out (batch, size), images and residuals
 * (batch, slots, size), gram (batch, memory, memory). */
void NAME(geq_anderson)(const Step *s, const REAL *image, const REAL *residual, REAL *images, REAL *residuals,
                        REAL *gram, REAL *out)
{
#pragma omp parallel for num_threads(s->threads) schedule(static)
    for (ptrdiff_t b = 0; b < s->batch; b++) {
        const ptrdiff_t at = b * s->size, history = at * s->slots;
        NAME(sample)(s, image + at, residual + at, images + history, residuals + history,
                     gram + b * s->memory * s->memory, out + at);
    }
}
#endif

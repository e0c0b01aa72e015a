/* The patch operation of the Gaussian kernel in one pass over memory: gather d = v - u, r = dG, weight, scatter.
 *
 * Maps are (batch, channels, height, width) with given strides of one sample's axes, so both memory layouts are
 * read in place. The same text is compiled for float and for double. Samples are independent and each is done
 * by one thread, in a fixed order: results do not depend on the number of threads.
 */
#ifndef REAL
#include <math.h>
#include <stddef.h>

#define LIMIT 512 /* most entries of a patch */

typedef struct {
    ptrdiff_t batch, channels, height, width;                       /* sizes */
    ptrdiff_t batch_stride, channel_stride, row_stride, column_stride; /* in numbers, not bytes */
    ptrdiff_t patch, split, threads;
} Geometry;

#define REAL float
#define EXP expf
#define NAME(x) x##_float
#include __FILE__
#undef REAL
#undef EXP
#undef NAME
#define REAL double
#define EXP exp
#define NAME(x) x##_double
#include __FILE__

#else

/* r = dG; returns <d, r>. */
static inline __attribute__((always_inline)) REAL NAME(project)(
    const REAL *restrict d, const REAL *restrict gram, REAL *restrict r, ptrdiff_t entries)
{
    for (ptrdiff_t j = 0; j < entries; j++) r[j] = 0;
    for (ptrdiff_t i = 0; i < entries; i++) {
        const REAL factor = d[i];
        for (ptrdiff_t j = 0; j < entries; j++) r[j] += factor * gram[i * entries + j];
    }
    REAL sum = 0;
#pragma omp simd reduction(+ : sum)
    for (ptrdiff_t j = 0; j < entries; j++) sum += d[j] * r[j];
    return sum;
}

static inline __attribute__((always_inline)) REAL NAME(dot)(
    const REAL *restrict a, const REAL *restrict b, ptrdiff_t entries)
{
    REAL sum = 0;
#pragma omp simd reduction(+ : sum)
    for (ptrdiff_t j = 0; j < entries; j++) sum += a[j] * b[j];
    return sum;
}

/* One sample. With direction == NULL: out = beta r. Otherwise out = beta (Gq - 2 gamma r <r, q>), the derivative
 * of beta r along q; then, if gram_grad is given, also m = beta r and the gradients of <q, beta r>. */
static inline __attribute__((always_inline)) void NAME(sample)(
    const Geometry *g, const ptrdiff_t *offset, const REAL *v, const REAL *u, const REAL *restrict gram,
    REAL gamma, const REAL *direction, REAL *out, REAL *m, REAL *restrict gram_grad, REAL *gamma_grad,
    ptrdiff_t entries)
{
    REAL d[LIMIT], r[LIMIT], q[LIMIT], gq[LIMIT];
    REAL gamma_sum = 0;
    for (ptrdiff_t group = 0; group < g->channels; group += g->split)
        for (ptrdiff_t row = 0; row < g->height; row += g->patch)
            for (ptrdiff_t column = 0; column < g->width; column += g->patch) {
                const ptrdiff_t at =
                    group * g->channel_stride + row * g->row_stride + column * g->column_stride;
                for (ptrdiff_t e = 0; e < entries; e++) d[e] = v[at + offset[e]] - u[at + offset[e]];
                const REAL square = NAME(project)(d, gram, r, entries);
                const REAL beta = EXP(-gamma * square);
                if (!direction) {
                    for (ptrdiff_t e = 0; e < entries; e++) out[at + offset[e]] = beta * r[e];
                    continue;
                }
                for (ptrdiff_t e = 0; e < entries; e++) q[e] = direction[at + offset[e]];
                NAME(project)(q, gram, gq, entries);
                const REAL along = NAME(dot)(r, q, entries);
                const REAL bend = 2 * gamma * along;
                for (ptrdiff_t e = 0; e < entries; e++) out[at + offset[e]] = beta * (gq[e] - bend * r[e]);
                if (!gram_grad) continue;
                for (ptrdiff_t e = 0; e < entries; e++) m[at + offset[e]] = beta * r[e];
                for (ptrdiff_t e = 0; e < entries; e++) q[e] -= gamma * along * d[e];
                for (ptrdiff_t i = 0; i < entries; i++) {
                    const REAL factor = beta * d[i];
                    for (ptrdiff_t j = 0; j < entries; j++) gram_grad[i * entries + j] += factor * q[j];
                }
                gamma_sum -= beta * square * along;
            }
    if (gamma_grad) *gamma_grad = gamma_sum;
}

void NAME(geq_patch)(const Geometry *g, const REAL *v, const REAL *u, const REAL *gram, const REAL *gamma,
                     const REAL *direction, REAL *out, REAL *m, REAL *gram_grad, REAL *gamma_grad)
{
    ptrdiff_t offset[LIMIT], entries = 0;
    for (ptrdiff_t c = 0; c < g->split; c++)
        for (ptrdiff_t i = 0; i < g->patch; i++)
            for (ptrdiff_t j = 0; j < g->patch; j++)
                offset[entries++] = c * g->channel_stride + i * g->row_stride + j * g->column_stride;
#pragma omp parallel for num_threads(g->threads) schedule(static)
    for (ptrdiff_t b = 0; b < g->batch; b++) {
        const ptrdiff_t at = b * g->batch_stride, square = b * entries * entries;
        const REAL *q = direction ? direction + at : 0;
        REAL *mb = m ? m + at : 0, *gg = gram_grad ? gram_grad + square : 0, *cg = gamma_grad ? gamma_grad + b : 0;
        /* The papers' patch, 8 channels of 2x2, with its size known to the compiler. */
        if (entries == 32)
            NAME(sample)(g, offset, v + at, u + at, gram, gamma[b], q, out + at, mb, gg, cg, 32);
        else
            NAME(sample)(g, offset, v + at, u + at, gram, gamma[b], q, out + at, mb, gg, cg, entries);
    }
}
#endif

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
    ptrdiff_t gamma_sample, gamma_patch; /* from one gamma to that of the next sample or patch: 0 if they share it */
} Geometry;

/* A patch in memory: `runs` stretches of `length` neighbours each. With channels last a stretch holds the channels
 * of a pixel, otherwise the pixels of a row. */
typedef struct {
    ptrdiff_t runs, length, start[LIMIT];
} Patch;

static Patch patch_of(const Geometry *g)
{
    Patch p = {.runs = 0, .length = g->channel_stride == 1 ? g->split : g->column_stride == 1 ? g->patch : 1};
    const int pixels_first = g->channel_stride == 1;
    const ptrdiff_t p2 = g->patch * g->patch, total = g->split * p2;
    for (ptrdiff_t e = 0; e < total; e++) {
        const ptrdiff_t c = pixels_first ? e % g->split : e / p2, pixel = pixels_first ? e / g->split : e % p2;
        const ptrdiff_t i = pixel / g->patch, j = pixel % g->patch;
        if (e % p.length == 0)
            p.start[p.runs++] = c * g->channel_stride + i * g->row_stride + j * g->column_stride;
    }
    return p;
}

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

static inline __attribute__((always_inline)) void NAME(gather)(
    const REAL *restrict from, REAL *restrict d, const ptrdiff_t *start, ptrdiff_t runs, ptrdiff_t length)
{
    for (ptrdiff_t run = 0; run < runs; run++)
        for (ptrdiff_t k = 0; k < length; k++) d[run * length + k] = from[start[run] + k];
}

/* to = factor (a - bend b) */
static inline __attribute__((always_inline)) void NAME(scatter)(
    REAL *restrict to, const REAL *restrict a, const REAL *restrict b, REAL factor, REAL bend,
    const ptrdiff_t *start, ptrdiff_t runs, ptrdiff_t length)
{
    for (ptrdiff_t run = 0; run < runs; run++)
        for (ptrdiff_t k = 0; k < length; k++)
            to[start[run] + k] = factor * (a[run * length + k] - bend * b[run * length + k]);
}

/* One sample. With direction == NULL: out = beta r. Otherwise out = beta (Gq - 2 gamma r <r, q>), the derivative
 * of beta r along q; then, if gram_grad is given, also m = beta r and the gradients of <q, beta r>. */
static inline __attribute__((always_inline)) void NAME(sample)(
    const Geometry *g, const Patch *p, const REAL *v, const REAL *u, const REAL *restrict gram,
    const REAL *next_gamma, const REAL *direction, REAL *out, REAL *m, REAL *restrict gram_grad, REAL *gamma_grad,
    ptrdiff_t runs, ptrdiff_t length)
{
    const ptrdiff_t entries = runs * length;
    REAL d[LIMIT], r[LIMIT], q[LIMIT], gq[LIMIT];
    REAL gamma_sum = 0;
    for (ptrdiff_t group = 0; group < g->channels; group += g->split)
        for (ptrdiff_t row = 0; row < g->height; row += g->patch)
            for (ptrdiff_t column = 0; column < g->width; column += g->patch) {
                const REAL gamma = *next_gamma;
                next_gamma += g->gamma_patch;
                const ptrdiff_t at =
                    group * g->channel_stride + row * g->row_stride + column * g->column_stride;
                NAME(gather)(v + at, d, p->start, runs, length);
                NAME(gather)(u + at, q, p->start, runs, length);
                for (ptrdiff_t e = 0; e < entries; e++) d[e] -= q[e];
                const REAL square = NAME(project)(d, gram, r, entries);
                const REAL beta = EXP(-gamma * square);
                if (!direction) {
                    NAME(scatter)(out + at, r, r, beta, 0, p->start, runs, length);
                    continue;
                }
                NAME(gather)(direction + at, q, p->start, runs, length);
                NAME(project)(q, gram, gq, entries);
                const REAL along = NAME(dot)(r, q, entries);
                NAME(scatter)(out + at, gq, r, beta, 2 * gamma * along, p->start, runs, length);
                if (!gram_grad) continue;
                NAME(scatter)(m + at, r, r, beta, 0, p->start, runs, length);
                for (ptrdiff_t e = 0; e < entries; e++) q[e] -= gamma * along * d[e];
                for (ptrdiff_t i = 0; i < entries; i++) {
                    const REAL factor = beta * d[i];
                    for (ptrdiff_t j = 0; j < entries; j++) gram_grad[i * entries + j] += factor * q[j];
                }
                gamma_sum -= beta * square * along;
                if (g->gamma_patch) *gamma_grad++ = gamma_sum, gamma_sum = 0;
            }
    if (gamma_grad && !g->gamma_patch) *gamma_grad = gamma_sum;
}

/* `ordered` is the Gram matrix with its entries in the order of memory; gram_grad comes out in the same order.
 * gamma_grad is per sample, or, where patches have a gamma each, per sample and patch. */
void NAME(geq_patch)(const Geometry *g, const REAL *v, const REAL *u, const REAL *ordered, const REAL *gamma,
                     const REAL *direction, REAL *out, REAL *m, REAL *gram_grad, REAL *gamma_grad)
{
    const Patch p = patch_of(g);
    const ptrdiff_t entries = p.runs * p.length;
    const ptrdiff_t patches = g->channels / g->split * (g->height / g->patch) * (g->width / g->patch);
    const ptrdiff_t numbers = g->gamma_patch ? patches : 1;
#pragma omp parallel for num_threads(g->threads) schedule(static)
    for (ptrdiff_t b = 0; b < g->batch; b++) {
        const ptrdiff_t at = b * g->batch_stride, square = b * entries * entries;
        const REAL *q = direction ? direction + at : 0;
        const REAL *c = gamma + b * g->gamma_sample;
        REAL *mb = m ? m + at : 0, *gg = gram_grad ? gram_grad + square : 0;
        REAL *cg = gamma_grad ? gamma_grad + b * numbers : 0;
        /* The papers' patch, 8 channels of 2x2, with its sizes known to the compiler in both layouts. */
        if (p.length == 8 && p.runs == 4)
            NAME(sample)(g, &p, v + at, u + at, ordered, c, q, out + at, mb, gg, cg, 4, 8);
        else if (p.length == 2 && p.runs == 16)
            NAME(sample)(g, &p, v + at, u + at, ordered, c, q, out + at, mb, gg, cg, 16, 2);
        else
            NAME(sample)(g, &p, v + at, u + at, ordered, c, q, out + at, mb, gg, cg, p.runs, p.length);
    }
}
#endif

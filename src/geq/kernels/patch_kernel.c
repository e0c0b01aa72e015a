/* The patch operation of the Gaussian kernel in one pass over memory: gather d = v - u, r = dG, weight, scatter.
 *
 * LANES patches of a sample are done together, so that a row of G is loaded once for all of them and their weights
 * take one exponential. Each patch has a lane of its own: what is NaN in one does not reach the others.
 *
 * Maps are (batch, channels, height, width) with given strides of one sample's axes, so both memory layouts are
 * read in place. The same text is compiled for float and for double. Samples are independent and each is done
 * by one thread, in a fixed order: results do not depend on the number of threads.
 */
#ifndef REAL
#include <math.h>
#include <stddef.h>

#define LIMIT 512 /* most entries of a patch */
#define LANES 4   /* patches at once */
#define PAD 16    /* rows of G are padded with zeros to a multiple of this */
#ifdef __AVX512F__
#define BYTES 64 /* of a vector */
#else
#define BYTES 32
#endif

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
#define BITS int
#define NAME(x) x##_float
#define MANTISSA 23
#define TERMS 7                    /* of the Taylor series of exp on |x| < ln(2)/2: an error of 5e-9 */
#define LOWEST -104.0f             /* exp is 0 below, */
#define HIGHEST 89.0f              /* and infinite from here on */
#define LN2_HIGH 0.693145751953125f /* its product with an exponent is exact; the rest of ln 2 is the next one */
#define LN2_LOW 1.42860682030941723212e-6f
#include __FILE__
#undef REAL
#undef BITS
#undef NAME
#undef MANTISSA
#undef TERMS
#undef LOWEST
#undef HIGHEST
#undef LN2_HIGH
#undef LN2_LOW
#define REAL double
#define BITS long long
#define NAME(x) x##_double
#define MANTISSA 52
#define TERMS 13 /* an error of 4e-18 */
#define LOWEST -746.0
#define HIGHEST 710.0
#define LN2_HIGH 0x1.62e42feep-1
#define LN2_LOW 0x1.a39ef35793c76p-33
#include __FILE__

#else

typedef REAL NAME(vector) __attribute__((vector_size(BYTES), aligned(sizeof(REAL)), may_alias));
typedef REAL NAME(lanes) __attribute__((vector_size(LANES * sizeof(REAL))));
typedef BITS NAME(bits) __attribute__((vector_size(LANES * sizeof(REAL))));
typedef REAL NAME(rows)[LANES][LIMIT + PAD];
#define WIDTH ((ptrdiff_t)(BYTES / sizeof(REAL)))

/* exp of every lane; NaN stays NaN. */
static inline __attribute__((always_inline)) NAME(lanes) NAME(exponential)(NAME(lanes) x)
{
    typedef NAME(lanes) lanes;
    typedef NAME(bits) bits;
    const BITS bias = ((BITS)1 << (sizeof(REAL) == 4 ? 7 : 10)) - 1;
    const bits low = x < (REAL)LOWEST, high = x > (REAL)HIGHEST, inside = ~(low | high);
    const lanes all = {1, 1, 1, 1};
    const lanes bounded = (lanes)((inside & (bits)x) | (low & (bits)(all * (REAL)LOWEST))
                                  | (high & (bits)(all * (REAL)HIGHEST)));
    /* Adding 1.5 * 2^MANTISSA leaves the nearest whole number in the last bits. */
    const lanes shift = all * (REAL)1.5 * (REAL)((BITS)1 << MANTISSA);
    const lanes whole = bounded * (REAL)1.44269504088896340736 + shift, n = whole - shift;
    const lanes rest = (bounded - n * (REAL)LN2_HIGH) - n * (REAL)LN2_LOW;
    lanes series = all;
    for (int k = TERMS; k > 0; k--) series = all + series * (rest * ((REAL)1 / k));
    /* 2^n as two factors, so that neither leaves the range of the numbers. */
    const bits exponent = (bits)whole - (bits)shift, half = exponent >> 1;
    return series * (lanes)((half + bias) << MANTISSA) * (lanes)((exponent - half + bias) << MANTISSA);
}

/* r = dG, for rows of G that are padded to `stride`. */
static inline __attribute__((always_inline)) void NAME(project)(
    NAME(rows) d, const REAL *restrict gram, NAME(rows) r, ptrdiff_t entries, ptrdiff_t stride)
{
    typedef NAME(vector) vector;
    ptrdiff_t j = 0;
    for (; j + 2 * WIDTH <= stride; j += 2 * WIDTH) {
        vector sum[LANES][2] = {0};
        for (ptrdiff_t i = 0; i < entries; i++) {
            const vector *row = (const vector *)(gram + i * stride + j);
            const vector left = row[0], right = row[1];
            for (int l = 0; l < LANES; l++) {
                sum[l][0] += d[l][i] * left;
                sum[l][1] += d[l][i] * right;
            }
        }
        for (int l = 0; l < LANES; l++) {
            *(vector *)(r[l] + j) = sum[l][0];
            *(vector *)(r[l] + j + WIDTH) = sum[l][1];
        }
    }
    if (j < stride) {
        vector sum[LANES] = {0};
        for (ptrdiff_t i = 0; i < entries; i++)
            for (int l = 0; l < LANES; l++) sum[l] += d[l][i] * *(const vector *)(gram + i * stride + j);
        for (int l = 0; l < LANES; l++) *(vector *)(r[l] + j) = sum[l];
    }
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
    const ptrdiff_t entries = runs * length, stride = (entries + PAD - 1) / PAD * PAD;
    const ptrdiff_t rows = g->height / g->patch, columns = g->width / g->patch;
    const ptrdiff_t patches = g->channels / g->split * rows * columns;
    NAME(rows) d, r, q, gq;
    REAL gamma_sum = 0;
    ptrdiff_t group = 0, row = 0, column = 0;
    for (ptrdiff_t done = 0; done < patches; done += LANES) {
        const int lanes = patches - done < LANES ? (int)(patches - done) : LANES;
        ptrdiff_t at[LANES];
        NAME(lanes) gamma = {0}, square, beta, along = {0};
        for (int l = 0; l < LANES; l++) {
            if (l >= lanes) { /* lanes without a patch compute with zeros, and nobody reads what they find */
                for (ptrdiff_t e = 0; e < entries; e++) d[l][e] = q[l][e] = 0;
                continue;
            }
            gamma[l] = next_gamma[(done + l) * g->gamma_patch];
            at[l] = g->patch * (row * g->row_stride + column * g->column_stride)
                    + group * g->split * g->channel_stride;
            if (++column == columns) {
                column = 0;
                if (++row == rows) row = 0, group++;
            }
            NAME(gather)(v + at[l], d[l], p->start, runs, length);
            NAME(gather)(u + at[l], q[l], p->start, runs, length);
            for (ptrdiff_t e = 0; e < entries; e++) d[l][e] -= q[l][e];
        }
        NAME(project)(d, gram, r, entries, stride);
        for (int l = 0; l < LANES; l++) square[l] = NAME(dot)(d[l], r[l], entries);
        beta = NAME(exponential)(-gamma * square);
        if (!direction) {
            for (int l = 0; l < lanes; l++)
                NAME(scatter)(out + at[l], r[l], r[l], beta[l], 0, p->start, runs, length);
            continue;
        }
        for (int l = 0; l < lanes; l++) NAME(gather)(direction + at[l], q[l], p->start, runs, length);
        NAME(project)(q, gram, gq, entries, stride);
        for (int l = 0; l < lanes; l++) {
            along[l] = NAME(dot)(r[l], q[l], entries);
            NAME(scatter)(out + at[l], gq[l], r[l], beta[l], 2 * gamma[l] * along[l], p->start, runs, length);
        }
        if (!gram_grad) continue;
        for (int l = 0; l < lanes; l++) {
            NAME(scatter)(m + at[l], r[l], r[l], beta[l], 0, p->start, runs, length);
            for (ptrdiff_t e = 0; e < entries; e++) {
                q[l][e] -= gamma[l] * along[l] * d[l][e];
                d[l][e] *= beta[l];
            }
            gamma_sum -= beta[l] * square[l] * along[l];
            if (g->gamma_patch) *gamma_grad++ = gamma_sum, gamma_sum = 0;
        }
        for (ptrdiff_t i = 0; i < entries; i++)
            for (ptrdiff_t j = 0; j < entries; j++)
                gram_grad[i * entries + j] += d[0][i] * q[0][j] + d[1][i] * q[1][j] + d[2][i] * q[2][j] + d[3][i] * q[3][j];
    }
    if (gamma_grad && !g->gamma_patch) *gamma_grad = gamma_sum;
}

/* `ordered` is the Gram matrix with its entries in the order of memory, its rows padded; gram_grad comes out in the
 * same order, without padding. gamma_grad is per sample, or, where patches have a gamma each, per sample and patch. */
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
#undef WIDTH
#endif

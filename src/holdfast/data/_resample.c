/* Antialiased resampling of interleaved RGB bytes, in plain loops that a compiler turns into vectors.
   `resampling.py` has the weights, and does the same by Pillow and torch where this file was not compiled. */
#define PY_SSIZE_T_CLEAN
#include <Python.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#define BITS 22 /* of a weight's fraction, as in Pillow */
#define HALF (1 << (BITS - 1))
#define INLINE static inline __attribute__((always_inline))

#if defined(__x86_64__) && defined(__GNUC__) && !defined(__clang__)
#define FAST __attribute__((target_clones("avx2", "default")))
#else
#define FAST
#endif

typedef int32_t whole __attribute__((vector_size(16)));
typedef float real __attribute__((vector_size(16)));

INLINE uint8_t clip8(int32_t sum) {
    sum >>= BITS;
    return (uint8_t)(sum < 0 ? 0 : sum > 255 ? 255 : sum);
}

/* Weighted sums of neighbouring pixels along a line; a fourth number is read and written with each pixel's three. */
#define ACROSS(NAME, NUMBER, FOUR, START)                                                                       \
    INLINE void NAME##_of(const NUMBER *restrict line, const int32_t *restrict left, const NUMBER *restrict weight, \
                          const int taps, int columns, NUMBER *restrict out) {                                  \
        for (int x = 0; x < columns; x++, weight += taps) {                                                     \
            const NUMBER *restrict from = line + 3 * left[x];                                                   \
            FOUR sum = {START, START, START, START}, pixel;                                                     \
            for (int t = 0; t < taps; t++) {                                                                    \
                __builtin_memcpy(&pixel, from + 3 * t, sizeof pixel);                                           \
                sum += pixel * weight[t];                                                                       \
            }                                                                                                   \
            __builtin_memcpy(out + 3 * x, &sum, sizeof sum);                                                    \
        }                                                                                                       \
    }                                                                                                           \
    INLINE void NAME(const NUMBER *restrict line, const int32_t *restrict left, const NUMBER *restrict weight,  \
                     int taps, int columns, NUMBER *restrict out) {                                             \
        switch (taps) { /* a loop of known length is unrolled */                                                \
            case 1: NAME##_of(line, left, weight, 1, columns, out); break;                                      \
            case 2: NAME##_of(line, left, weight, 2, columns, out); break;                                      \
            case 3: NAME##_of(line, left, weight, 3, columns, out); break;                                      \
            case 4: NAME##_of(line, left, weight, 4, columns, out); break;                                      \
            case 5: NAME##_of(line, left, weight, 5, columns, out); break;                                      \
            default: NAME##_of(line, left, weight, taps, columns, out);                                         \
        }                                                                                                       \
    }

ACROSS(across_whole, int32_t, whole, HALF)
ACROSS(across_real, float, real, 0)

/* A window of a resized image, to the byte what Pillow's `resize` gives: across first, eight bits between the passes.
   `left` and `top` say where the weights of each column and row begin, from the first byte of `in`. There must be room
   for 3 * in_columns + 1 numbers in `line`, 3 * columns + 1 in `sums`, in_rows * columns pixels in `mid`. */
FAST static void shrink(const uint8_t *restrict in, ptrdiff_t stride, int in_rows, int in_columns,
            const int32_t *restrict left, const int32_t *restrict across, int across_taps, int columns,
            const int32_t *restrict top, const int32_t *restrict down, int down_taps, int rows,
            int32_t *restrict line, int32_t *restrict sums, uint8_t *restrict mid, uint8_t *restrict out) {
    const int width = 3 * columns;
    for (int y = 0; y < in_rows; y++) {
        const uint8_t *restrict row = in + y * stride;
        for (int i = 0; i < 3 * in_columns; i++) line[i] = row[i];
        across_whole(line, left, across, across_taps, columns, sums);
        uint8_t *restrict to = mid + (ptrdiff_t)y * width;
        for (int i = 0; i < width; i++) to[i] = clip8(sums[i]);
    }
    for (int y = 0; y < rows; y++) {
        const uint8_t *restrict from = mid + (ptrdiff_t)top[y] * width;
        const int32_t *restrict weight = down + (ptrdiff_t)y * down_taps;
        for (int i = 0; i < width; i++) sums[i] = HALF;
        for (int t = 0; t < down_taps; t++) {
            const uint8_t *restrict row = from + (ptrdiff_t)t * width;
            const int32_t each = weight[t];
            for (int i = 0; i < width; i++) sums[i] += row[i] * each;
        }
        uint8_t *restrict to = out + (ptrdiff_t)y * width;
        for (int i = 0; i < width; i++) to[i] = clip8(sums[i]);
    }
}

/* A window as numbers from 0 to 1, down first, a line at a time; nothing is rounded. There must be room for 3 * in_columns + 1
   numbers in `line`, and for 3 * columns + 1 in `sums`. */
FAST static void view(const uint8_t *restrict in, ptrdiff_t stride, int in_columns,
          const int32_t *restrict left, const float *restrict across, int across_taps, int columns,
          const int32_t *restrict top, const float *restrict down, int down_taps, int rows,
          float *restrict line, float *restrict sums, float *restrict out) {
    const int width = 3 * in_columns;
    for (int y = 0; y < rows; y++) {
        const uint8_t *restrict from = in + top[y] * stride;
        const float *restrict weights = down + (ptrdiff_t)y * down_taps;
        for (int i = 0; i < width; i++) line[i] = from[i] * weights[0];
        for (int t = 1; t < down_taps; t++) {
            const uint8_t *restrict row = from + t * stride;
            const float each = weights[t];
            for (int i = 0; i < width; i++) line[i] += row[i] * each;
        }
        across_real(line, left, across, across_taps, columns, sums);
        float *restrict to = out + (ptrdiff_t)y * columns * 3;
        for (int i = 0; i < 3 * columns; i++) to[i] = sums[i] < 0 ? 0 : sums[i] > 1 ? 1 : sums[i];
    }
}

/* Whether all that the weights of a side count lies within it. */
static int within(const Py_buffer *first, const Py_buffer *weights, int taps, int count, int full) {
    const int32_t *at = first->buf;
    if (taps < 1 || count < 1 || first->len < (Py_ssize_t)sizeof(int32_t) * count ||
        weights->len < (Py_ssize_t)sizeof(int32_t) * taps * count)
        return 0;
    for (int i = 0; i < count; i++)
        if (at[i] < 0 || at[i] > full - taps) return 0;
    return 1;
}

/* The arguments of both functions: bytes, offset of the first, bytes of a row, rows and columns; for each side where
   weights begin, the weights, how many, and pixels of the result; the result. */
typedef struct {
    Py_buffer in, left, across, top, down, out;
    Py_ssize_t offset, stride;
    int in_rows, in_columns, across_taps, columns, down_taps, rows;
} Arguments;

static int parsed(PyObject *given, Arguments *a, size_t number) {
    if (!PyArg_ParseTuple(given, "y*nniiy*y*iiy*y*iiw*", &a->in, &a->offset, &a->stride, &a->in_rows, &a->in_columns,
                          &a->left, &a->across, &a->across_taps, &a->columns, &a->top, &a->down, &a->down_taps,
                          &a->rows, &a->out))
        return 0;
    const Py_ssize_t last = a->offset + (a->in_rows - 1) * a->stride + 3 * (Py_ssize_t)a->in_columns;
    if (a->offset >= 0 && a->stride >= 0 && a->in_rows > 0 && a->in_columns > 0 && last <= a->in.len &&
        within(&a->left, &a->across, a->across_taps, a->columns, a->in_columns) &&
        within(&a->top, &a->down, a->down_taps, a->rows, a->in_rows) &&
        a->out.len == (Py_ssize_t)number * 3 * a->rows * a->columns)
        return 1;
    PyErr_SetString(PyExc_ValueError, "weights or room that do not fit the pixels");
    return -1;
}

static PyObject *finished(Arguments *a, int done) {
    Py_buffer *held[] = {&a->in, &a->left, &a->across, &a->top, &a->down, &a->out};
    for (int i = 0; i < 6; i++) PyBuffer_Release(held[i]);
    if (!done) return PyErr_Occurred() ? NULL : PyErr_NoMemory();
    Py_RETURN_NONE;
}

static PyObject *py_shrink(PyObject *module, PyObject *given) {
    Arguments a;
    const int fine = parsed(given, &a, 1);
    if (!fine) return NULL;
    if (fine < 0) return finished(&a, 0);
    int32_t *line = malloc(sizeof(int32_t) * (3 * (size_t)a.in_columns + 1));
    int32_t *sums = malloc(sizeof(int32_t) * (3 * (size_t)a.columns + 1));
    uint8_t *mid = malloc(3 * (size_t)a.in_rows * a.columns);
    const int room = line && sums && mid;
    if (room) {
        Py_BEGIN_ALLOW_THREADS
        line[3 * a.in_columns] = 0;
        shrink((const uint8_t *)a.in.buf + a.offset, a.stride, a.in_rows, a.in_columns, a.left.buf, a.across.buf,
               a.across_taps, a.columns, a.top.buf, a.down.buf, a.down_taps, a.rows, line, sums, mid, a.out.buf);
        Py_END_ALLOW_THREADS
    }
    free(line), free(sums), free(mid);
    return finished(&a, room);
}

static PyObject *py_view(PyObject *module, PyObject *given) {
    Arguments a;
    const int fine = parsed(given, &a, sizeof(float));
    if (!fine) return NULL;
    if (fine < 0) return finished(&a, 0);
    float *line = malloc(sizeof(float) * (3 * (size_t)a.in_columns + 1));
    float *sums = malloc(sizeof(float) * (3 * (size_t)a.columns + 1));
    const int room = line && sums;
    if (room) {
        Py_BEGIN_ALLOW_THREADS
        line[3 * a.in_columns] = 0;
        view((const uint8_t *)a.in.buf + a.offset, a.stride, a.in_columns, a.left.buf, a.across.buf, a.across_taps,
             a.columns, a.top.buf, a.down.buf, a.down_taps, a.rows, line, sums, a.out.buf);
        Py_END_ALLOW_THREADS
    }
    free(line), free(sums);
    return finished(&a, room);
}

static PyMethodDef methods[] = {
    {"shrink", py_shrink, METH_VARARGS, "A window of a resized image, to the byte what Pillow's `resize` gives."},
    {"view", py_view, METH_VARARGS, "A window at another size, as floats from 0 to 1."},
    {NULL, NULL, 0, NULL},
};

static struct PyModuleDef definition = {PyModuleDef_HEAD_INIT, "_resample", NULL, 0, methods, NULL, NULL, NULL, NULL};

PyMODINIT_FUNC PyInit__resample(void) { return PyModuleDef_Init(&definition); }

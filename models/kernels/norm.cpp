// Rows of `width` numbers: out = after + activation(norm(z + bias + before)), and its gradients.
//
// Rows, and what is added to them or multiplied with them, may be longer than their width: `stride`, and zeros beyond the
// width. Whole vectors take a row of 97 then in half the time.
//
// `before` and `after` (residuals) may be null; norm is a layer norm with gain and shift, or nothing; activation is
// GELU in its tanh form, or nothing. Every row is read and written once, where the same in separate operations takes
// four to eight passes over memory. Gradients of bias, gain and shift are summed in a fixed order, whatever the number of
// threads.
#include "vector.h"

constexpr double GELU_SCALE = 0.7978845608028654, GELU_CUBE = 0.044715;  // sqrt(2/pi)
constexpr int64_t CHUNKS = 8;  // of a model's rows: what threads share, and sums are made over

// The sigmoid whose product with v is GELU(v): (1 + tanh(s (v + c v^3))) / 2.
template <class T> static inline T gate_of(T v, T cube) {
  return 1 / (1 + quick_exp(T(-2 * GELU_SCALE) * v * (1 + cube)));
}

template <class T, bool NORM, bool GELU>
static void forward(int64_t models, int64_t rows, int64_t width, int64_t stride, T epsilon, const T* z, const T* bias, const T* before,
                    const T* gain, const T* shift, const T* after, T* out, T* statistics) {
#pragma omp parallel
  {
    std::vector<T> row_buffer(stride);
    T* const u = row_buffer.data();
#pragma omp for collapse(2) schedule(static)
    for (int64_t m = 0; m < models; ++m)
      for (int64_t chunk = 0; chunk < CHUNKS; ++chunk) {
        const T *b = bias + m * stride, *g = gain + (NORM ? m * stride : 0), *s = shift + (NORM ? m * stride : 0);
        for (int64_t i = rows * chunk / CHUNKS; i < rows * (chunk + 1) / CHUNKS; ++i) {
          const int64_t at = m * rows + i;
          const T* x = z + at * stride;
          T* o = out + at * stride;
          T sum = 0, mean = 0, scale = 1;
          if (before) {
            const T* r = before + at * stride;
#pragma omp simd reduction(+ : sum)
            for (int64_t j = 0; j < stride; ++j) { u[j] = x[j] + b[j] + r[j]; sum += u[j]; }
          } else {
#pragma omp simd reduction(+ : sum)
            for (int64_t j = 0; j < stride; ++j) { u[j] = x[j] + b[j]; sum += u[j]; }
          }
          if (NORM) {
            T square = 0;
            mean = sum / width;
#pragma omp simd reduction(+ : square)
            for (int64_t j = 0; j < stride; ++j) square += (u[j] - mean) * (u[j] - mean);
            square -= (stride - width) * mean * mean;  // of the zeros
            scale = 1 / std::sqrt(square / width + epsilon);
            statistics[2 * at] = mean;
            statistics[2 * at + 1] = scale;
          }
#pragma omp simd
          for (int64_t j = 0; j < stride; ++j) {
            T v = NORM ? (u[j] - mean) * scale * g[j] + s[j] : u[j];
            if (GELU) v *= gate_of(v, T(GELU_CUBE) * v * v);
            o[j] = v;
          }
          if (after) {
            const T* r = after + at * stride;
#pragma omp simd
            for (int64_t j = 0; j < stride; ++j) o[j] += r[j];
          }
        }
      }
  }
}

// Gradients of z (also that of `before`), and of bias, gain and shift, added to what is there. With GELU the activated
// values themselves are written to `activated`: they cost nothing more here, and need not be kept from the forward pass.
// `dz` may be `dout`.
template <class T, bool NORM, bool GELU>
static void backward(int64_t models, int64_t rows, int64_t width, int64_t stride, const T* dout, const T* z, const T* bias,
                     const T* before, const T* gain, const T* shift, const T* statistics, T* dz, T* activated, T* dbias,
                     T* dgain, T* dshift) {
  std::vector<T> partial(models * CHUNKS * 3 * stride, T(0));
#pragma omp parallel
  {
    std::vector<T> row_buffer(2 * stride);
    T *const hat = row_buffer.data(), *const dhat = hat + stride;
#pragma omp for collapse(2) schedule(static)
    for (int64_t m = 0; m < models; ++m)
      for (int64_t chunk = 0; chunk < CHUNKS; ++chunk) {
        const T *b = bias + m * stride, *g = gain + (NORM ? m * stride : 0), *s = shift + (NORM ? m * stride : 0);
        T* const pb = partial.data() + (m * CHUNKS + chunk) * 3 * stride;
        T *const pg = pb + stride, *const ps = pg + stride;
        for (int64_t i = rows * chunk / CHUNKS; i < rows * (chunk + 1) / CHUNKS; ++i) {
          const int64_t at = m * rows + i;
          const T *x = z + at * stride, *go = dout + at * stride;
          T *d = dz + at * stride, *act = GELU ? activated + at * stride : nullptr;
          const T mean = NORM ? statistics[2 * at] : 0, scale = NORM ? statistics[2 * at + 1] : 1;
          if (before) {
            const T* r = before + at * stride;
#pragma omp simd
            for (int64_t j = 0; j < stride; ++j) hat[j] = (x[j] + b[j] + r[j] - mean) * scale;
          } else {
#pragma omp simd
            for (int64_t j = 0; j < stride; ++j) hat[j] = (x[j] + b[j] - mean) * scale;
          }
          T sum = 0, dot = 0;
#pragma omp simd reduction(+ : sum, dot)
          for (int64_t j = 0; j < stride; ++j) {
            T dv = go[j];
            if (GELU) {
              const T v = NORM ? hat[j] * g[j] + s[j] : hat[j];
              const T cube = T(GELU_CUBE) * v * v, gate = gate_of(v, cube);
              act[j] = v * gate;
              dv *= gate + v * gate * (1 - gate) * T(2 * GELU_SCALE) * (1 + 3 * cube);
            }
            if (NORM) {
              pg[j] += dv * hat[j];
              ps[j] += dv;
              dv *= g[j];
              sum += dv;
              dot += dv * hat[j];
            }
            dhat[j] = dv;
          }
          sum /= width;
          dot /= width;
#pragma omp simd
          for (int64_t j = 0; j < stride; ++j) {
            const T du = NORM ? scale * (dhat[j] - sum - hat[j] * dot) : dhat[j];
            d[j] = du;
            pb[j] += du;
          }
          for (int64_t j = width; j < stride; ++j) d[j] = 0;
        }
      }
  }
  for (int64_t m = 0; m < models; ++m)
    for (int64_t chunk = 0; chunk < CHUNKS; ++chunk) {
      const T* p = partial.data() + (m * CHUNKS + chunk) * 3 * stride;
      for (int64_t j = 0; j < stride; ++j) dbias[m * stride + j] += p[j];
      for (int64_t j = 0; NORM && j < stride; ++j) dgain[m * stride + j] += p[stride + j];
      for (int64_t j = 0; NORM && j < stride; ++j) dshift[m * stride + j] += p[2 * stride + j];
    }
}

#define CHOSEN(f, T) (norm ? (gelu ? f<T, true, true> : f<T, true, false>) : (gelu ? f<T, false, true> : f<T, false, false>))
#define EXPORT(T, suffix)                                                                                              \
  extern "C" void norm_forward_##suffix(int norm, int gelu, int64_t models, int64_t rows, int64_t width, int64_t stride, \
                                        double epsilon, const T* z, const T* bias, const T* before, const T* gain,     \
                                        const T* shift, const T* after, T* out, T* statistics) {                       \
    CHOSEN(forward, T)(models, rows, width, stride, T(epsilon), z, bias, before, gain, shift, after, out, statistics);         \
  }                                                                                                                    \
  extern "C" void norm_backward_##suffix(int norm, int gelu, int64_t models, int64_t rows, int64_t width, int64_t stride, \
                                         const T* dout, const T* z, const T* bias, const T* before, const T* gain,     \
                                         const T* shift, const T* statistics, T* dz, T* activated, T* dbias, T* dgain, \
                                         T* dshift) {                                                                  \
    CHOSEN(backward, T)(models, rows, width, stride, dout, z, bias, before, gain, shift, statistics, dz, activated, dbias,     \
                        dgain, dshift);                                                                                \
  }
EXPORT(float, f32)
EXPORT(double, f64)

// Vectors of 64 bytes in the compilers' own extension, so that one text serves every processor.
#pragma once
#include <cmath>
#include <cstdint>
#include <cstring>
#include <vector>

template <class T> struct Lanes;
template <> struct Lanes<float> {
  typedef float type __attribute__((vector_size(64), may_alias));
  typedef int32_t whole __attribute__((vector_size(64)));
  static constexpr int64_t count = 16;
};
template <> struct Lanes<double> {
  typedef double type __attribute__((vector_size(64), may_alias));
  static constexpr int64_t count = 8;
};
template <class T> using Vec = typename Lanes<T>::type;

// exp in single precision: a polynomial of degree 6 after the reduction by powers of two (Cephes); relative error below
// 2e-7. NaN stays NaN. Arguments are held to [-87, 88]: no overflow, no denormals.
static inline float quick_exp(float x) {
  x = x < -87.0f ? -87.0f : x;
  x = 88.0f < x ? 88.0f : x;
  const int32_t n = (int32_t)(x * 1.44269504088896341f + 128.5f) - 128;
  const float r = x - n * 0.693359375f + n * 2.12194440e-4f;
  float p = 1.9875691500e-4f;
  p = p * r + 1.3981999507e-3f;
  p = p * r + 8.3334519073e-3f;
  p = p * r + 4.1665795894e-2f;
  p = p * r + 1.6666665459e-1f;
  p = p * r + 5.0000001201e-1f;
  p = p * r * r + r + 1.0f;
  const int32_t bits = (n + 127) * (1 << 23);
  float scale;
  std::memcpy(&scale, &bits, 4);
  return p * scale;
}
static inline double quick_exp(double x) { return std::exp(x); }

static inline Vec<float> quick_exp(Vec<float> x) {
  typedef Lanes<float>::whole Whole;
  const Vec<float> low = Vec<float>{} - 87.0f, high = Vec<float>{} + 88.0f;
  x = low > x ? low : x;  // in this order NaN stays
  x = high < x ? high : x;
  const Whole n = __builtin_convertvector(x * 1.44269504088896341f + 128.5f, Whole) - 128;
  const Vec<float> whole = __builtin_convertvector(n, Vec<float>);
  const Vec<float> r = x - whole * 0.693359375f + whole * 2.12194440e-4f;
  Vec<float> p = r * 1.9875691500e-4f + 1.3981999507e-3f;
  p = p * r + 8.3334519073e-3f;
  p = p * r + 4.1665795894e-2f;
  p = p * r + 1.6666665459e-1f;
  p = p * r + 5.0000001201e-1f;
  p = p * r * r + r + 1.0f;
  return p * (Vec<float>)((n + 127) * (1 << 23));
}
static inline Vec<double> quick_exp(Vec<double> x) {
  for (int lane = 0; lane < Lanes<double>::count; ++lane) x[lane] = std::exp(x[lane]);
  return x;
}

static inline float sum_of(Vec<float> x) {
  typedef float Half __attribute__((vector_size(32)));
  typedef float Quarter __attribute__((vector_size(16)));
  Half halves[2];
  std::memcpy(halves, &x, sizeof x);
  halves[0] += halves[1];
  Quarter quarters[2];
  std::memcpy(quarters, halves, sizeof quarters);
  const Quarter sum = quarters[0] + quarters[1];
  return (sum[0] + sum[1]) + (sum[2] + sum[3]);
}
static inline double sum_of(Vec<double> x) {
  return ((x[0] + x[1]) + (x[2] + x[3])) + ((x[4] + x[5]) + (x[6] + x[7]));
}

// Vectors that hold `n` numbers.
template <class T> static inline int64_t blocks_of(int64_t n) { return (n + Lanes<T>::count - 1) / Lanes<T>::count; }

// One head's rows [n, E] (the first at `rows`, `stride` apart, `bias` [E] added, times `factor`) as columns
// [E][blocks] of vectors over the rows; what is beyond the last row is 0.
template <class T, int E>
static void to_columns(const T* rows, int64_t stride, const T* bias, T factor, int64_t n, Vec<T>* columns) {
  constexpr int64_t W = Lanes<T>::count;
  const int64_t padded = blocks_of<T>(n) * W;
  T* numbers = reinterpret_cast<T*>(columns);
  T shift[E];
  for (int e = 0; e < E; ++e) shift[e] = bias ? bias[e] : T(0);
  for (int64_t i = 0; i < n; ++i)
    for (int e = 0; e < E; ++e) numbers[e * padded + i] = (rows[i * stride + e] + shift[e]) * factor;
  for (int64_t i = n; i < padded; ++i)
    for (int e = 0; e < E; ++e) numbers[e * padded + i] = 0;
}

// The other way, for one block of which `full` rows are there; its columns lie `apart` vectors from each other.
template <class T, int E>
static inline void from_columns(const Vec<T>* column, int64_t apart, int64_t full, int64_t stride, T* rows) {
  const T* numbers = reinterpret_cast<const T*>(column);
  for (int64_t lane = 0; lane < full; ++lane)
    for (int e = 0; e < E; ++e) rows[lane * stride + e] = numbers[e * apart * Lanes<T>::count + lane];
}

// Calls FUNCTION<T, E> for the head's width; 1 where there is none for it.
#define FOR_HEAD_WIDTH(width, CALL)                                                                                    \
  switch (width) {                                                                                                     \
    case 1: CALL(1) break;                                                                                             \
    case 2: CALL(2) break;                                                                                             \
    case 4: CALL(4) break;                                                                                             \
    case 8: CALL(8) break;                                                                                             \
    case 16: CALL(16) break;                                                                                           \
    case 32: CALL(32) break;                                                                                           \
    default: return 1;                                                                                                 \
  }                                                                                                                    \
  return 0;

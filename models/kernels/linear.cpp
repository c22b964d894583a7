// Attention without the matrix of weights: normalised (NAP) and plain linear (NON), and their gradients.
//
// NAP, per head, with centred keys k~ = k - mean(k): C = sum k~ k~', S = sum k~ v', V = sum v. A query gives
//     deviation = sqrt(q' C q / L),  out = gain / (deviation + epsilon) * S' q + bias * V.
// NON: out = S' q / sqrt(E) with keys as they are. Tokens fill the lanes of vectors; a head's features are loops unrolled.
#include "attention.h"

// [E, E]: the products of columns a and b over the tokens, summed.
template <class T, int E> static void products(const Vec<T>* a, const Vec<T>* b, int64_t blocks, T* out) {
  constexpr int TILE = E < 4 ? E : 4;
  for (int e0 = 0; e0 < E; e0 += TILE)
    for (int f0 = 0; f0 < E; f0 += TILE) {
      Vec<T> sums[TILE][TILE] = {};
      for (int64_t block = 0; block < blocks; ++block)
        for (int e = 0; e < TILE; ++e)
          for (int f = 0; f < TILE; ++f) sums[e][f] += a[(e0 + e) * blocks + block] * b[(f0 + f) * blocks + block];
      for (int e = 0; e < TILE; ++e)
        for (int f = 0; f < TILE; ++f) out[(e0 + e) * E + f0 + f] = sum_of(sums[e][f]);
    }
}

// y = M x (or M' x) for a vector of tokens; x's features lie `apart` vectors from each other.
template <class T, int E, bool TRANSPOSED>
static inline void times(const T* matrix, const Vec<T>* x, int64_t apart, Vec<T>* y) {
  constexpr int TILE = E < 8 ? E : 8;
  for (int e0 = 0; e0 < E; e0 += TILE) {
    Vec<T> sums[TILE] = {};
    for (int f = 0; f < E; ++f) {
      const Vec<T> one = x[f * apart];
      for (int e = 0; e < TILE; ++e) sums[e] += matrix[TRANSPOSED ? f * E + e0 + e : (e0 + e) * E + f] * one;
    }
    for (int e = 0; e < TILE; ++e) y[e0 + e] = sums[e];
  }
}

// The square root, and 0 of what is below 0; NaN stays NaN.
template <class T> static inline Vec<T> root(Vec<T> x) {
  T numbers[Lanes<T>::count];
  std::memcpy(numbers, &x, sizeof x);
  for (T& number : numbers) number = std::sqrt(number < 0 ? T(0) : number);
  std::memcpy(&x, numbers, sizeof x);
  return x;
}

// Takes the mean of the first `n` rows from each column; what is beyond stays 0.
template <class T, int E> static void centre(Vec<T>* columns, int64_t n) {
  constexpr int64_t W = Lanes<T>::count;
  const int64_t blocks = blocks_of<T>(n);
  for (int e = 0; e < E; ++e) {
    Vec<T> sum = {};
    for (int64_t block = 0; block < blocks; ++block) sum += columns[e * blocks + block];
    const T mean = sum_of(sum) / n;
    for (int64_t block = 0; block < n / W; ++block) columns[e * blocks + block] -= mean;
    for (int64_t i = n / W * W; i < n; ++i) columns[e * blocks + i / W][i % W] -= mean;
  }
}

template <class T, int E, bool NORMALIZED>
static void forward(const Sizes& n, const Projected<T>& p, const T* gains, const T* biases, T epsilon, T* out) {
  constexpr int64_t W = Lanes<T>::count;
  typedef Vec<T> V;
  const int64_t blocks = blocks_of<T>(n.length), read = blocks_of<T>(n.reads);
#pragma omp parallel
  {
    std::vector<V> q(E * read), k(E * blocks), v(E * blocks);
    std::vector<T> c(E * E), s(E * E);
#pragma omp for schedule(static)
    for (int64_t index = 0; index < n.models * n.batch * n.heads; ++index) {
      const Head<T> head(n, p, index);
      const int64_t parameter = head.model * n.heads + index % n.heads;
      to_columns<T, E>(head.q, p.q_stride, head.q_bias, T(1), n.reads, q.data());
      to_columns<T, E>(head.k, p.kv_stride, NORMALIZED ? nullptr : head.k_bias, T(1), n.length, k.data());
      to_columns<T, E>(head.v, p.kv_stride, head.v_bias, T(1), n.length, v.data());
      T everywhere[E] = {};
      if (NORMALIZED) {
        centre<T, E>(k.data(), n.length);
        products<T, E>(k.data(), k.data(), blocks, c.data());
        for (int e = 0; e < E; ++e) {
          V sum = {};
          for (int64_t block = 0; block < blocks; ++block) sum += v[e * blocks + block];
          everywhere[e] = biases[parameter] * sum_of(sum);
        }
      }
      products<T, E>(k.data(), v.data(), blocks, s.data());
      for (int64_t block = 0; block < read; ++block) {
        V u[E], cq[E], square = {}, gain = V{} + 1 / std::sqrt(T(E));
        times<T, E, true>(s.data(), &q[block], read, u);
        if (NORMALIZED) {
          times<T, E, false>(c.data(), &q[block], read, cq);
          for (int e = 0; e < E; ++e) square += cq[e] * q[e * read + block];
          gain = gains[parameter] / (root<T>(square / T(n.length)) + epsilon);
        }
        for (int e = 0; e < E; ++e) u[e] = gain * u[e] + everywhere[e];
        const int64_t full = n.reads - block * W < W ? n.reads - block * W : W;
        from_columns<T, E>(u, 1, full, head.out_stride, out + head.out + block * W * head.out_stride);
      }
    }
  }
}

// dgains and dbiases: [models, batch, heads], to be summed over the batch.
template <class T, int E, bool NORMALIZED>
static void backward(const Sizes& n, const Projected<T>& p, const T* gains, const T* biases, T epsilon, const T* dout,
                     const ProjectedGradient<T>& gradient, T* dgains, T* dbiases) {
  constexpr int64_t W = Lanes<T>::count;
  typedef Vec<T> V;
  const int64_t blocks = blocks_of<T>(n.length), read = blocks_of<T>(n.reads);
#pragma omp parallel
  {
    std::vector<V> q(E * read), k(E * blocks), v(E * blocks), go(E * read), du(E * read), tq(E * read), dk(E * blocks);
    std::vector<T> c(E * E), s(E * E), dc(E * E), ds(E * E);
#pragma omp for schedule(static)
    for (int64_t index = 0; index < n.models * n.batch * n.heads; ++index) {
      const Head<T> head(n, p, index);
      const HeadGradient<T> d(n, gradient, index);
      const int64_t parameter = head.model * n.heads + index % n.heads;
      to_columns<T, E>(head.q, p.q_stride, head.q_bias, T(1), n.reads, q.data());
      to_columns<T, E>(head.k, p.kv_stride, NORMALIZED ? nullptr : head.k_bias, T(1), n.length, k.data());
      to_columns<T, E>(head.v, p.kv_stride, head.v_bias, T(1), n.length, v.data());
      to_columns<T, E>(dout + head.out, head.out_stride, nullptr, T(1), n.reads, go.data());
      if (NORMALIZED) {
        centre<T, E>(k.data(), n.length);
        products<T, E>(k.data(), k.data(), blocks, c.data());
      }
      products<T, E>(k.data(), v.data(), blocks, s.data());
      V dgain = {};
      for (int64_t block = 0; block < read; ++block) {
        V u[E], cq[E], dq[E], gain = V{} + 1 / std::sqrt(T(E)), slope = {};
        if (NORMALIZED) {
          V square = {}, aligned = {};
          times<T, E, true>(s.data(), &q[block], read, u);
          times<T, E, false>(c.data(), &q[block], read, cq);
          for (int e = 0; e < E; ++e) square += cq[e] * q[e * read + block];
          for (int e = 0; e < E; ++e) aligned += u[e] * go[e * read + block];
          const V deviation = root<T>(square / T(n.length)), inverse = 1 / (deviation + epsilon);
          gain = gains[parameter] * inverse;
          dgain += aligned * inverse;
          // d(deviation^2) / L; a row without deviation passes none
          slope = gain * inverse * aligned / (-2 * T(n.length) * (deviation > 0 ? deviation : V{} + 1));
          slope = deviation == 0 ? V{} : slope;
        }
        for (int e = 0; e < E; ++e) {
          du[e * read + block] = gain * go[e * read + block];
          if (NORMALIZED) tq[e * read + block] = slope * q[e * read + block];
        }
        times<T, E, false>(s.data(), &du[block], read, dq);
        if (NORMALIZED)
          for (int e = 0; e < E; ++e) dq[e] += 2 * slope * cq[e];
        const int64_t full = n.reads - block * W < W ? n.reads - block * W : W;
        from_columns<T, E>(dq, 1, full, gradient.q_stride, d.q + block * W * gradient.q_stride);
      }
      T everywhere[E] = {};
      if (NORMALIZED) {
        T dbias = 0;
        for (int e = 0; e < E; ++e) {
          V sum = {}, values = {};
          for (int64_t block = 0; block < read; ++block) sum += go[e * read + block];
          for (int64_t block = 0; block < blocks; ++block) values += v[e * blocks + block];
          everywhere[e] = biases[parameter] * sum_of(sum);
          dbias += sum_of(sum) * sum_of(values);
        }
        dgains[index] = sum_of(dgain);
        dbiases[index] = dbias;
        products<T, E>(tq.data(), q.data(), read, dc.data());
      }
      products<T, E>(q.data(), du.data(), read, ds.data());
      for (int64_t block = 0; block < blocks; ++block) {
        V part[E], dv[E];
        times<T, E, false>(ds.data(), &v[block], blocks, part);
        for (int e = 0; e < E; ++e) dk[e * blocks + block] = part[e];
        if (NORMALIZED) {
          times<T, E, false>(dc.data(), &k[block], blocks, part);
          for (int e = 0; e < E; ++e) dk[e * blocks + block] += 2 * part[e];
        }
        times<T, E, true>(ds.data(), &k[block], blocks, dv);
        for (int e = 0; e < E; ++e) dv[e] += everywhere[e];
        const int64_t full = n.length - block * W < W ? n.length - block * W : W;
        from_columns<T, E>(dv, 1, full, gradient.kv_stride, d.v + block * W * gradient.kv_stride);
      }
      if (NORMALIZED) centre<T, E>(dk.data(), n.length);
      for (int64_t block = 0; block < blocks; ++block) {
        const int64_t full = n.length - block * W < W ? n.length - block * W : W;
        from_columns<T, E>(&dk[block], blocks, full, gradient.kv_stride, d.k + block * W * gradient.kv_stride);
      }
    }
  }
}

#define EXPORT(T, suffix)                                                                                              \
  extern "C" int linear_forward_##suffix(const Sizes* n, const Projected<T>* p, int normalized, const T* gains,        \
                                         const T* biases, double epsilon, T* out) {                                    \
    FOR_HEAD_WIDTH(n->head_width, FORWARD_##suffix)                                                                    \
  }                                                                                                                    \
  extern "C" int linear_backward_##suffix(const Sizes* n, const Projected<T>* p, int normalized, const T* gains,       \
                                          const T* biases, double epsilon, const T* dout,                              \
                                          const ProjectedGradient<T>* gradient, T* dgains, T* dbiases) {               \
    FOR_HEAD_WIDTH(n->head_width, BACKWARD_##suffix)                                                                   \
  }
#define FORWARD(T, E)                                                                                                  \
  (normalized ? forward<T, E, true> : forward<T, E, false>)(*n, *p, gains, biases, T(epsilon), out);
#define BACKWARD(T, E)                                                                                                 \
  (normalized ? backward<T, E, true> : backward<T, E, false>)(*n, *p, gains, biases, T(epsilon), dout, *gradient,      \
                                                              dgains, dbiases);
#define FORWARD_f32(E) FORWARD(float, E)
#define FORWARD_f64(E) FORWARD(double, E)
#define BACKWARD_f32(E) BACKWARD(float, E)
#define BACKWARD_f64(E) BACKWARD(double, E)
EXPORT(float, f32)
EXPORT(double, f64)

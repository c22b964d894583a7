// Softmax attention for narrow heads: softmax(q k / sqrt(E)) v and its gradients, without the matrix of weights.
//
// Products of 4 x 128 matrices cost a matrix library more in calls than in arithmetic. Here 16 queries (forward) or 16
// keys (backward) fill the lanes of a vector and a head's few features are a loop unrolled. Queries are scaled as they are read.
#include "attention.h"

// Queries whose gradients the backward pass holds in vectors at a time: 32 KB of them.
template <int E> constexpr int64_t QUERIES = E < 4 ? 128 : 512 / E;

// Features that are held in registers at a time.
template <int E> constexpr int TILE = E < 16 ? E : 16;

// sums[i] (+)= the products of the features in `columns` (vectors, `apart` from each other) with those of row i.
template <class T, int E>
static inline void dots(const Vec<T>* columns, int64_t apart, const T* rows, int64_t count, Vec<T>* sums) {
  for (int e0 = 0; e0 < E; e0 += TILE<E>) {
    Vec<T> column[TILE<E>];
    for (int e = 0; e < TILE<E>; ++e) column[e] = columns[(e0 + e) * apart];
    for (int64_t i = 0; i < count; ++i) {
      Vec<T> sum = e0 ? sums[i] : Vec<T>{};
      for (int e = 0; e < TILE<E>; ++e) sum += column[e] * rows[i * E + e0 + e];
      sums[i] = sum;
    }
  }
}

// totals += the rows, weighed: totals[e] over i of weights[i] * rows[i][e].
template <class T, int E>
static inline void weigh(const Vec<T>* weights, const T* rows, int64_t count, Vec<T>* totals, int64_t apart) {
  for (int e0 = 0; e0 < E; e0 += TILE<E>) {
    Vec<T> total[TILE<E>];
    for (int e = 0; e < TILE<E>; ++e) total[e] = totals[(e0 + e) * apart];
    for (int64_t i = 0; i < count; ++i)
      for (int e = 0; e < TILE<E>; ++e) total[e] += weights[i] * rows[i * E + e0 + e];
    for (int e = 0; e < TILE<E>; ++e) totals[(e0 + e) * apart] = total[e];
  }
}

template <class T, int E>
static void forward(const Sizes& n, const Projected<T>& p, T* out, T* logsums) {
  constexpr int64_t W = Lanes<T>::count;
  typedef Vec<T> V;
  const T factor = 1 / std::sqrt(T(E));
  const int64_t blocks = blocks_of<T>(n.reads);
#pragma omp parallel
  {
    std::vector<T> keys(n.length * E), values(n.length * E);
    std::vector<V> queries(E * blocks), weights(n.length);
#pragma omp for schedule(static)
    for (int64_t index = 0; index < n.models * n.batch * n.heads; ++index) {
      const Head<T> head(n, p, index);
      for (int64_t j = 0; j < n.length; ++j)
        for (int e = 0; e < E; ++e) {
          keys[j * E + e] = head.k[j * p.kv_stride + e] + head.k_bias[e];
          values[j * E + e] = head.v[j * p.kv_stride + e] + head.v_bias[e];
        }
      to_columns<T, E>(head.q, p.q_stride, head.q_bias, factor, n.reads, queries.data());
      for (int64_t block = 0; block < blocks; ++block) {
        V o[E] = {}, sum = {};
        dots<T, E>(&queries[block], blocks, keys.data(), n.length, weights.data());
        V top = weights[0];
        for (int64_t j = 1; j < n.length; ++j) top = weights[j] > top ? weights[j] : top;
        for (int64_t j = 0; j < n.length; ++j) sum += weights[j] = quick_exp(weights[j] - top);
        weigh<T, E>(weights.data(), values.data(), n.length, o, 1);
        for (int e = 0; e < E; ++e) o[e] /= sum;
        const int64_t full = n.reads - block * W < W ? n.reads - block * W : W;
        from_columns<T, E>(o, 1, full, head.out_stride, out + head.out + block * W * head.out_stride);
        for (int64_t lane = 0; lane < full; ++lane)
          logsums[head.statistic + block * W + lane] = top[lane] + std::log(sum[lane]);
      }
    }
  }
}

template <class T, int E>
static void backward(const Sizes& n, const Projected<T>& p, const T* out, const T* logsums, const T* dout,
                     const ProjectedGradient<T>& gradient) {
  constexpr int64_t W = Lanes<T>::count;
  typedef Vec<T> V;
  const T factor = 1 / std::sqrt(T(E));
  const int64_t blocks = blocks_of<T>(n.length);
#pragma omp parallel
  {
    std::vector<T> queries(QUERIES<E> * E), douts(QUERIES<E> * E), shared(QUERIES<E>);
    std::vector<V> keys(E * blocks), values(E * blocks), dkeys(E * blocks), dvalues(E * blocks), dqueries(QUERIES<E> * E);
    std::vector<V> weights(QUERIES<E>), dlogits(QUERIES<E>);
#pragma omp for schedule(static)
    for (int64_t index = 0; index < n.models * n.batch * n.heads; ++index) {
      const Head<T> head(n, p, index);
      const HeadGradient<T> d(n, gradient, index);
      to_columns<T, E>(head.k, p.kv_stride, head.k_bias, T(1), n.length, keys.data());
      to_columns<T, E>(head.v, p.kv_stride, head.v_bias, T(1), n.length, values.data());
      for (int64_t i = 0; i < E * blocks; ++i) dkeys[i] = dvalues[i] = V{};
      for (int64_t first = 0; first < n.reads; first += QUERIES<E>) {
        const int64_t count = n.reads - first < QUERIES<E> ? n.reads - first : QUERIES<E>;
        const T* logsum = logsums + head.statistic + first;
        for (int64_t i = 0; i < count; ++i) {
          const int64_t row = head.out + (first + i) * head.out_stride;
          shared[i] = 0;
          for (int e = 0; e < E; ++e) {
            queries[i * E + e] = (head.q[(first + i) * p.q_stride + e] + head.q_bias[e]) * factor;
            douts[i * E + e] = dout[row + e];
            shared[i] += dout[row + e] * out[row + e];
            dqueries[i * E + e] = V{};
          }
        }
        for (int64_t block = 0; block < blocks; ++block) {
          V there = {};
          for (int64_t lane = 0; lane < W; ++lane) there[lane] = block * W + lane < n.length;
          dots<T, E>(&keys[block], blocks, queries.data(), count, weights.data());
          dots<T, E>(&values[block], blocks, douts.data(), count, dlogits.data());
          for (int64_t i = 0; i < count; ++i) {
            weights[i] = quick_exp(weights[i] - logsum[i]) * there;
            dlogits[i] = weights[i] * (dlogits[i] - shared[i]);
          }
          weigh<T, E>(weights.data(), douts.data(), count, &dvalues[block], blocks);
          weigh<T, E>(dlogits.data(), queries.data(), count, &dkeys[block], blocks);
          for (int e0 = 0; e0 < E; e0 += TILE<E>) {
            V key[TILE<E>];
            for (int e = 0; e < TILE<E>; ++e) key[e] = keys[(e0 + e) * blocks + block];
            for (int64_t i = 0; i < count; ++i)
              for (int e = 0; e < TILE<E>; ++e) dqueries[i * E + e0 + e] += dlogits[i] * key[e];
          }
        }
        for (int64_t i = 0; i < count; ++i)
          for (int e = 0; e < E; ++e)
            d.q[(first + i) * gradient.q_stride + e] = factor * sum_of(dqueries[i * E + e]);
      }
      for (int64_t block = 0; block < blocks; ++block) {
        const int64_t full = n.length - block * W < W ? n.length - block * W : W, at = block * W * gradient.kv_stride;
        from_columns<T, E>(&dkeys[block], blocks, full, gradient.kv_stride, d.k + at);
        from_columns<T, E>(&dvalues[block], blocks, full, gradient.kv_stride, d.v + at);
      }
    }
  }
}

#define EXPORT(T, suffix)                                                                                              \
  extern "C" int softmax_forward_##suffix(const Sizes* n, const Projected<T>* p, T* out, T* logsums) {                 \
    FOR_HEAD_WIDTH(n->head_width, FORWARD_##suffix)                                                                    \
  }                                                                                                                    \
  extern "C" int softmax_backward_##suffix(const Sizes* n, const Projected<T>* p, const T* out, const T* logsums,      \
                                           const T* dout, const ProjectedGradient<T>* gradient) {                      \
    FOR_HEAD_WIDTH(n->head_width, BACKWARD_##suffix)                                                                   \
  }
#define FORWARD_f32(E) forward<float, E>(*n, *p, out, logsums);
#define FORWARD_f64(E) forward<double, E>(*n, *p, out, logsums);
#define BACKWARD_f32(E) backward<float, E>(*n, *p, out, logsums, dout, *gradient);
#define BACKWARD_f64(E) backward<double, E>(*n, *p, out, logsums, dout, *gradient);
EXPORT(float, f32)
EXPORT(double, f64)

// Softmax attention for narrow heads: softmax(q k / sqrt(E)) v and its gradients, without the matrix of weights.
//
// Products of 4 x 128 matrices cost a matrix library more in calls than in arithmetic. Here 16 queries (forward) or 16
// keys (backward) fill the lanes of a vector and a head's few features are a loop unrolled. Queries are scaled as they are read.
#include "attention.h"

constexpr int64_t QUERIES = 128;  // of which the backward pass holds the gradients in vectors

template <class T, int E>
static void forward(const Sizes& n, const Projected<T>& p, T* out, T* logsums) {
  constexpr int64_t W = Lanes<T>::count;
  typedef Vec<T> V;
  const T factor = 1 / std::sqrt(T(E));
  const int64_t blocks = blocks_of<T>(n.reads);
#pragma omp parallel
  {
    std::vector<T> keys(n.length * E), values(n.length * E);
    std::vector<V> queries(E * blocks), logits(n.length);
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
        V q[E], o[E] = {}, sum = {}, top = {};
        for (int e = 0; e < E; ++e) q[e] = queries[e * blocks + block];
        for (int64_t j = 0; j < n.length; ++j) {
          V s = {};
          for (int e = 0; e < E; ++e) s += q[e] * keys[j * E + e];
          logits[j] = s;
          top = j ? (s > top ? s : top) : s;
        }
        for (int64_t j = 0; j < n.length; ++j) {
          const V weight = quick_exp(logits[j] - top);
          sum += weight;
          for (int e = 0; e < E; ++e) o[e] += weight * values[j * E + e];
        }
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
    std::vector<T> queries(QUERIES * E), douts(QUERIES * E), shared(QUERIES);
    std::vector<V> keys(E * blocks), values(E * blocks), dkeys(E * blocks), dvalues(E * blocks), dqueries(QUERIES * E);
#pragma omp for schedule(static)
    for (int64_t index = 0; index < n.models * n.batch * n.heads; ++index) {
      const Head<T> head(n, p, index);
      const HeadGradient<T> d(n, gradient, index);
      to_columns<T, E>(head.k, p.kv_stride, head.k_bias, T(1), n.length, keys.data());
      to_columns<T, E>(head.v, p.kv_stride, head.v_bias, T(1), n.length, values.data());
      for (int64_t i = 0; i < E * blocks; ++i) dkeys[i] = dvalues[i] = V{};
      for (int64_t first = 0; first < n.reads; first += QUERIES) {
        const int64_t count = n.reads - first < QUERIES ? n.reads - first : QUERIES;
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
          V k[E], v[E], dk[E], dv[E], there = {};
          for (int64_t lane = 0; lane < W; ++lane) there[lane] = block * W + lane < n.length;
          for (int e = 0; e < E; ++e) {
            k[e] = keys[e * blocks + block], v[e] = values[e * blocks + block];
            dk[e] = dkeys[e * blocks + block], dv[e] = dvalues[e * blocks + block];
          }
          for (int64_t i = 0; i < count; ++i) {
            const T *q = &queries[i * E], *go = &douts[i * E];
            V s = {}, dweight = {};
            for (int e = 0; e < E; ++e) s += q[e] * k[e];
            for (int e = 0; e < E; ++e) dweight += go[e] * v[e];
            const V weight = quick_exp(s - logsum[i]) * there;
            const V ds = weight * (dweight - shared[i]);
            for (int e = 0; e < E; ++e) dv[e] += weight * go[e];
            for (int e = 0; e < E; ++e) dk[e] += ds * q[e];
            for (int e = 0; e < E; ++e) dqueries[i * E + e] += ds * k[e];
          }
          for (int e = 0; e < E; ++e) dkeys[e * blocks + block] = dk[e], dvalues[e * blocks + block] = dv[e];
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

// What attention kernels are handed: rows of concatenated heads, and the sizes.
#pragma once
#include "vector.h"

struct Sizes {
  int64_t models, batch, reads, length, heads, head_width;
};

// Queries [models, batch, reads, ·], keys and values [models, batch, length, ·]: rows `stride` numbers apart, before
// their biases [models, bias_stride] are added. The heads lie side by side in a row.
template <class T> struct Projected {
  const T *q, *k, *v;
  int64_t q_stride, kv_stride;
  const T *q_bias, *k_bias, *v_bias;
  int64_t bias_stride;
};
template <class T> struct ProjectedGradient {
  T *q, *k, *v;
  int64_t q_stride, kv_stride;
};

// One head of one sequence of one model.
template <class T> struct Head {
  const T *q, *k, *v, *q_bias, *k_bias, *v_bias;
  int64_t model, out, out_stride, statistic;  // `out`: where its rows start in [models, batch, reads, heads · width]

  Head(const Sizes& n, const Projected<T>& p, int64_t index) {
    const int64_t h = index % n.heads, sequence = index / n.heads, at = h * n.head_width;
    model = sequence / n.batch;
    q = p.q + sequence * n.reads * p.q_stride + at;
    k = p.k + sequence * n.length * p.kv_stride + at;
    v = p.v + sequence * n.length * p.kv_stride + at;
    q_bias = p.q_bias + model * p.bias_stride + at;
    k_bias = p.k_bias + model * p.bias_stride + at;
    v_bias = p.v_bias + model * p.bias_stride + at;
    out_stride = n.heads * n.head_width;
    out = sequence * n.reads * out_stride + at;
    statistic = index * n.reads;
  }
};
template <class T> struct HeadGradient {
  T *q, *k, *v;
  HeadGradient(const Sizes& n, const ProjectedGradient<T>& p, int64_t index) {
    const int64_t h = index % n.heads, sequence = index / n.heads, at = h * n.head_width;
    q = p.q + sequence * n.reads * p.q_stride + at;
    k = p.k + sequence * n.length * p.kv_stride + at;
    v = p.v + sequence * n.length * p.kv_stride + at;
  }
};

/* A stand-in for ggml's header: what the page on ggml uses, with the names, types and meanings of the real one. */
#pragma once
#include <cstddef>
#include <cstdint>

enum ggml_type { GGML_TYPE_F32 = 0, GGML_TYPE_F16 = 1, GGML_TYPE_Q4_0 = 2, GGML_TYPE_I32 = 26, GGML_TYPE_I64 = 27, GGML_TYPE_BF16 = 30 };
enum ggml_op { GGML_OP_NONE = 0, GGML_OP_ADD = 2 };

struct ggml_tensor {
  enum ggml_type type;
  int64_t ne[4];
  size_t nb[4];
  enum ggml_op op;
  struct ggml_tensor* view_src;
  void* data;
  char name[64];
};

inline size_t ggml_type_size(enum ggml_type type) { return type == GGML_TYPE_I64 ? 8 : type == GGML_TYPE_F32 || type == GGML_TYPE_I32 ? 4 : 2; }
inline int64_t ggml_nelements(const struct ggml_tensor* t) { return t->ne[0] * t->ne[1] * t->ne[2] * t->ne[3]; }
inline size_t ggml_nbytes(const struct ggml_tensor* t) {
  size_t bytes = ggml_type_size(t->type);
  for (int axis = 0; axis < 4; ++axis) {
    if (t->ne[axis] <= 0) return 0;
    bytes += size_t(t->ne[axis] - 1) * t->nb[axis];
  }
  return bytes;
}
inline int ggml_n_dims(const struct ggml_tensor* t) {
  for (int axis = 3; axis >= 1; --axis)
    if (t->ne[axis] > 1) return axis + 1;
  return 1;
}
inline const char* ggml_op_name(enum ggml_op op) { return op == GGML_OP_ADD ? "ADD" : "NONE"; }

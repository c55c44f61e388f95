/* A stand-in for ggml's header; see ggml.h. */
#pragma once
#include "ggml.h"

#include <cstring>

typedef bool (*ggml_backend_sched_eval_callback)(struct ggml_tensor* t, bool ask, void* user_data);

inline void ggml_backend_tensor_get(const struct ggml_tensor* t, void* data, size_t offset, size_t size) {
  std::memcpy(data, static_cast<const char*>(t->data) + offset, size);
}

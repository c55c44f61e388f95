/* Calls the page's callback as ggml's scheduler does: asks first, and calls again for what was wanted. */
#include PAGE

static bool computed(ggml_tensor& t, ggml_backend_sched_eval_callback callback, void* user_data) {
  return !callback(&t, true, user_data) || callback(&t, false, user_data);
}

int main() {
  TapState state;
  float numbers[24];
  for (int index = 0; index < 24; ++index) numbers[index] = float(index);
  ggml_tensor plain = {GGML_TYPE_F32, {4, 3, 2, 1}, {4, 16, 48, 96}, GGML_OP_ADD, nullptr, numbers, "l_out-0"};
  ggml_tensor permuted = {GGML_TYPE_F32, {3, 4, 2, 1}, {16, 4, 48, 96}, GGML_OP_NONE, &plain, numbers, "Qcur-0 (permuted)"};
  ggml_tensor part = {GGML_TYPE_F32, {2, 3, 1, 1}, {4, 16, 48, 48}, GGML_OP_NONE, &plain, numbers + 1, "k-0 (view)"};
  ggml_tensor half = {GGML_TYPE_F16, {2, 1, 1, 1}, {2, 4, 4, 4}, GGML_OP_NONE, nullptr, numbers, "half"};
  ggml_tensor quantised = {GGML_TYPE_Q4_0, {32, 1, 1, 1}, {18, 18, 18, 18}, GGML_OP_NONE, nullptr, numbers, "weight"};
  bool going_on = true;
  for (state.step = 0; state.step < 2; ++state.step)
    for (ggml_tensor* t : {&plain, &permuted, &part, &half, &quantised}) going_on = going_on && computed(*t, tap_eval, &state);
  return going_on && state.recorder.close() ? 0 : 1;
}

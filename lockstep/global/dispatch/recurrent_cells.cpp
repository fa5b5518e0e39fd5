#include <lockstep/global/dispatch/recurrent_cells.h>

#include <ATen/ATen.h>

#include <tuple>
#include <vector>

namespace lockstep::global {
namespace {

at::Tensor plus(const at::Tensor& gates, const c10::optional<at::Tensor>& bias) {
  return bias && bias->defined() ? gates + *bias : gates;
}

std::vector<at::Tensor> parts_for(const at::Tensor& gates, const at::Tensor& state, std::int64_t count) {
  TORCH_CHECK(gates.dim() == 2 && state.dim() == 2 && gates.size(1) == count * state.size(1), "expected gates [batch, ",
              count, " * hidden] of a state [batch, hidden], not ", gates.sizes(), " of ", state.sizes());
  return gates.unsafe_chunk(count, 1);
}

/// Returns the hidden state, the cell state, and the workspace of libtorch's own derivative, which is not used: the
/// derivative is that of the operators below.
std::tuple<at::Tensor, at::Tensor, at::Tensor> lstm_cell(const at::Tensor& of_input, const at::Tensor& of_hidden,
                                                         const at::Tensor& cell,
                                                         const c10::optional<at::Tensor>& input_bias,
                                                         const c10::optional<at::Tensor>& hidden_bias) {
  const auto gates = plus(of_input, input_bias) + plus(of_hidden, hidden_bias);
  const auto parts = parts_for(gates, cell, 4);
  const auto next = parts[1].sigmoid() * cell + parts[0].sigmoid() * parts[2].tanh();
  return {parts[3].sigmoid() * next.tanh(), next, gates};
}

std::tuple<at::Tensor, at::Tensor> gru_cell(const at::Tensor& of_input, const at::Tensor& of_hidden,
                                            const at::Tensor& hidden, const c10::optional<at::Tensor>& input_bias,
                                            const c10::optional<at::Tensor>& hidden_bias) {
  const auto from_input = parts_for(plus(of_input, input_bias), hidden, 3);
  const auto from_hidden = parts_for(plus(of_hidden, hidden_bias), hidden, 3);
  const auto reset = (from_input[0] + from_hidden[0]).sigmoid();
  const auto keep = (from_input[1] + from_hidden[1]).sigmoid();
  const auto fresh = (from_input[2] + reset * from_hidden[2]).tanh();
  return {(hidden - fresh) * keep + fresh, reset};
}

}  // namespace

void register_recurrent_cells(torch::Library& aten) {
  aten.impl("_thnn_fused_lstm_cell", TORCH_FN(lstm_cell));
  aten.impl("_thnn_fused_gru_cell", TORCH_FN(gru_cell));
}

}  // namespace lockstep::global

#include <lockstep/global/even_split.h>
#include <lockstep/global/local/local_call.h>

#include <unordered_map>

namespace lockstep::global {

std::size_t LocalCall::position(std::string_view argument) const {
  const auto& arguments = op.schema().arguments();
  for (std::size_t i = 0; i < arguments.size(); ++i) {
    if (arguments[i].name() == argument) return i;
  }
  throw std::logic_error(op.schema().name() + " has no argument " + std::string(argument));
}

std::vector<std::int64_t> LocalCall::local_output_sizes(std::size_t index) const {
  return local_sizes(plan.outputs[index].shape.sizes, output(index), mesh.sizes(), mesh.coordinate());
}

void LocalCall::give(at::Tensor result) const {
  stack.clear();
  stack.emplace_back(std::move(result));
}

void run_operator(LocalCall& call) { call.op.callBoxed(call.stack); }

LocalForm find_local_form(std::string_view op) {
  static const std::unordered_map<std::string_view, LocalForm> forms{
      {"view", form_with_local_sizes},
      {"_unsafe_view", form_with_local_sizes},
      {"_reshape_alias", form_with_local_sizes},
      {"reshape", form_with_local_sizes},
      {"expand", form_with_local_sizes},
      {"mean", form_of_mean},
      {"addmm", form_of_sum_of_product},
      {"baddbmm", form_of_sum_of_product},
      {"normal", form_of_random},
      {"uniform", form_of_random},
      {"random", form_of_random},
      {"bernoulli", form_of_random},
      {"exponential", form_of_random},
      {"select_backward", form_of_cut_backward},
      {"slice_backward", form_of_cut_backward},
  };
  const auto found = forms.find(op);
  return found == forms.end() ? nullptr : found->second;
}

}  // namespace lockstep::global

// An autograd node that runs a block's forward again in backward, with its random numbers and casts of before.
#include <lockstep/compat/libtorch.h>
#include <lockstep/kernels/tuning.h>

#include <ATen/CPUGeneratorImpl.h>
#include <ATen/ThreadLocalState.h>
#include <torch/csrc/autograd/functions/utils.h>
#include <torch/csrc/autograd/saved_variable.h>
#include <torch/torch.h>

#include <mutex>
#include <utility>
#include <vector>

namespace lockstep {
namespace {

using torch::autograd::variable_list;

/// The generator that random operators on `input` draw from. Global tensors draw from that of their parts, on CPUs.
at::Generator generator_of(const at::Tensor& input) {
  return input.is_cuda() ? at::globalContext().defaultGenerator(input.device()) : at::detail::getDefaultCPUGenerator();
}

at::Tensor state_of(at::Generator& generator) {
  const std::lock_guard lock(generator.mutex());
  return generator.get_state();
}

void set_state(at::Generator& generator, const at::Tensor& state) {
  const std::lock_guard lock(generator.mutex());
  generator.set_state(state);
}

/// A generator in the state of an earlier time, as a scope.
class EarlierRandomNumbers {
 public:
  EarlierRandomNumbers(const at::Tensor& input, const at::Tensor& state)
      : generator_(generator_of(input)), now_(state_of(generator_)) {
    set_state(generator_, state);
  }
  ~EarlierRandomNumbers() { set_state(generator_, now_); }
  EarlierRandomNumbers(const EarlierRandomNumbers&) = delete;
  EarlierRandomNumbers& operator=(const EarlierRandomNumbers&) = delete;

 private:
  at::Generator generator_;
  at::Tensor now_;
};

/// Cached casts without gradients must not be used by operators that need gradients, nor casts of backward by the next
/// forward.
class NoCachedCasts {
 public:
  NoCachedCasts() : before_(at::autocast::is_autocast_cache_enabled()) {
    at::autocast::set_autocast_cache_enabled(false);
  }
  ~NoCachedCasts() { at::autocast::set_autocast_cache_enabled(before_); }
  NoCachedCasts(const NoCachedCasts&) = delete;
  NoCachedCasts& operator=(const NoCachedCasts&) = delete;

 private:
  bool before_;
};

/// The inputs of backward for the second forward of the block.
struct RecomputedCall {
  std::shared_ptr<torch::nn::Module> block;
  BlockForward forward;
  std::vector<at::Tensor> parameters;  ///< those that get gradients
  at::Tensor random_state;
  at::ThreadLocalState thread_state{};
  compat::AutocastDtypes autocast = compat::autocast_dtypes();
};

std::vector<at::Tensor> copies_of_buffers(const torch::nn::Module& block) {
  std::vector<at::Tensor> copies;
  for (const auto& buffer : block.buffers()) copies.push_back(buffer.detach().clone());
  return copies;
}

void restore_buffers(const torch::nn::Module& block, const std::vector<at::Tensor>& copies) {
  const torch::NoGradGuard no_grad;
  auto buffers = block.buffers();
  for (std::size_t i = 0; i < buffers.size(); ++i) buffers[i].copy_(copies[i]);
}

/// The gradients of the input and of the parameters, from a second forward. (They are returned rather than added to
/// `.grad()`, so that hooks on gradients, as those of DataParallel, run for one backward pass.)
variable_list gradients_again(const RecomputedCall& call, const at::Tensor& kept, const at::Tensor& of_output) {
  const at::ThreadLocalStateGuard as_before(call.thread_state);
  const compat::AutocastDtypesGuard dtypes(call.autocast);
  const NoCachedCasts no_cached_casts;
  const at::AutoGradMode with_gradients(true);
  const EarlierRandomNumbers random_numbers(kept, call.random_state);
  const auto buffers = copies_of_buffers(*call.block);
  const auto input = kept.detach().requires_grad_(kept.requires_grad());
  const auto output = call.forward(input);
  variable_list wanted = call.parameters;
  if (input.requires_grad()) wanted.insert(wanted.begin(), input);
  auto gradients = torch::autograd::grad({output}, wanted, {of_output}, /*retain_graph=*/c10::nullopt,
                                         /*create_graph=*/false, /*allow_unused=*/true);
  if (!input.requires_grad()) gradients.insert(gradients.begin(), at::Tensor());
  restore_buffers(*call.block, buffers);
  return gradients;
}

/// The node of autograd's graph that replaces the block's nodes: its inputs are the block's input and parameters.
struct RecomputeNode final : torch::autograd::Node {
  variable_list apply(variable_list&& of_outputs) override {
    if (!of_outputs.at(0).defined()) return variable_list(call.parameters.size() + 1);
    return gradients_again(call, input.unpack(), of_outputs[0]);
  }

  void release_variables() override {
    input.reset_data();
    call.forward = nullptr;
  }

  RecomputedCall call;
  torch::autograd::SavedVariable input;
};

torch::autograd::Edge edge_of(const at::Tensor& tensor) {
  return tensor.requires_grad() ? torch::autograd::impl::gradient_edge(tensor) : torch::autograd::Edge();
}

}  // namespace

at::Tensor recompute_in_backward(const std::shared_ptr<torch::nn::Module>& block, const at::Tensor& input,
                                 BlockForward forward) {
  std::vector<at::Tensor> parameters;
  for (const auto& parameter : block->parameters()) {
    if (parameter.requires_grad()) parameters.push_back(parameter);
  }
  if (!at::GradMode::is_enabled() || (parameters.empty() && !input.requires_grad())) return forward(input);
  auto generator = generator_of(input);
  const std::shared_ptr<RecomputeNode> node(new RecomputeNode(), torch::autograd::deleteNode);
  node->call = {
      .block = block, .forward = std::move(forward), .parameters = parameters, .random_state = state_of(generator)};
  node->input = torch::autograd::SavedVariable(input, /*is_output=*/false);
  torch::autograd::edge_list edges{edge_of(input)};
  for (const auto& parameter : parameters) edges.push_back(edge_of(parameter));
  node->set_next_edges(std::move(edges));
  at::Tensor output;
  {
    const torch::NoGradGuard no_grad;
    const NoCachedCasts no_cached_casts;
    output = node->call.forward(input);
    if (output.is_view() || output.is_same(input)) output = output.clone();
  }
  torch::autograd::set_history(output, node);
  return output;
}

}  // namespace lockstep

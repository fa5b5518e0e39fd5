// The recording of a training step after three steps as written; if it fails, all steps run as written.
#include <lockstep/base/error.h>
#include <lockstep/kernels/step_graph.h>
#include <lockstep/kernels/tuning.h>
#include <lockstep/mirrored/data_parallel.h>

#include <torch/torch.h>

#include <fmt/format.h>

#include <algorithm>
#include <exception>
#include <utility>

namespace lockstep {
namespace {

// Libtorch and its libraries choose algorithms and allocate in the first steps.
constexpr int kStepsAsWritten = 3;

bool are_alike(const std::vector<at::Tensor>& inputs, const std::vector<at::Tensor>& recorded) {
  return std::ranges::equal(inputs, recorded, [](const at::Tensor& a, const at::Tensor& b) {
    return a.sizes() == b.sizes() && a.scalar_type() == b.scalar_type();
  });
}

std::vector<at::Tensor> on_device(const std::vector<at::Tensor>& inputs, c10::Device device) {
  std::vector<at::Tensor> moved;
  for (const auto& input : inputs) moved.push_back(input.to(device, /*non_blocking=*/true));
  return moved;
}

}  // namespace

struct GraphedStep::State {
  const DataParallel& parallel;
  torch::optim::Optimizer& optimizer;
  Loss loss;
  c10::Device device;
  std::optional<std::string> why_not;
  int steps_as_written = 0;

  // Once recorded.
  std::vector<at::Tensor> inputs;
  at::Tensor recorded_loss;
  std::optional<detail::RecordedUpdate> update;
  std::function<void()> replay;

  at::Tensor step_as_written(const std::vector<at::Tensor>& from);
  void record(const std::vector<at::Tensor>& from);
  at::Tensor step_recorded(const std::vector<at::Tensor>& from);
};

at::Tensor GraphedStep::State::step_as_written(const std::vector<at::Tensor>& from) {
  parallel.module().zero_grad(/*set_to_none=*/true);
  const auto value = loss(on_device(from, device));
  value.backward();
  lockstep::update(optimizer);
  return value.detach();
}

void GraphedStep::State::record(const std::vector<at::Tensor>& from) {
  try {
    for (const auto& input : on_device(from, device)) inputs.push_back(input.clone());
    update.emplace(optimizer);
    parallel.module().zero_grad(/*set_to_none=*/true);  // so that gradients are in memory of the graph
    replay = detail::record_graph(device, [this] {
      const auto value = loss(inputs);
      value.backward();
      update->run();
      recorded_loss = value.detach();
    });
  } catch (const std::exception& error) {
    why_not = fmt::format("the step could not be recorded: {}", error.what());
    update.reset();
    inputs.clear();
    recorded_loss.reset();
  }
}

at::Tensor GraphedStep::State::step_recorded(const std::vector<at::Tensor>& from) {
  const torch::NoGradGuard no_grad;
  for (std::size_t i = 0; i < from.size(); ++i) inputs[i].copy_(from[i], /*non_blocking=*/true);
  update->take_rates();
  replay();
  update->count();
  return recorded_loss;
}

GraphedStep::GraphedStep(const DataParallel& parallel, torch::optim::Optimizer& optimizer, Loss loss) {
  const auto parameters = parallel.module().parameters();
  if (parameters.empty()) fail(ErrorKind::invalid_argument, "graphed_step", "the module has no parameters");
  state_ = std::make_unique<State>(
      State{parallel, optimizer, std::move(loss), parameters.front().device(), {}, 0, {}, {}, {}, {}});
  auto& why_not = state_->why_not;
  why_not = detail::why_no_graph(state_->device);
  if (!why_not) why_not = why_no_fused_update(optimizer);
  if (!why_not && parallel.group().size() > 1) {
    why_not = "with several ranks the reduction of gradients waits on the host";
  }
}

GraphedStep::~GraphedStep() = default;

at::Tensor GraphedStep::run(const std::vector<at::Tensor>& inputs) {
  auto& state = *state_;
  if (!state.why_not && !state.replay) {
    if (state.steps_as_written < kStepsAsWritten) {
      ++state.steps_as_written;
      at::Tensor loss;
      detail::on_side_stream(state.device, [&] { loss = state.step_as_written(inputs); });
      return loss;
    }
    state.record(inputs);
  }
  if (!state.replay) return state.step_as_written(inputs);
  if (are_alike(inputs, state.inputs)) return state.step_recorded(inputs);
  auto loss = state.step_as_written(inputs);
  state.update->follow_other();
  return loss;
}

bool GraphedStep::is_recorded() const { return static_cast<bool>(state_->replay); }
const std::optional<std::string>& GraphedStep::why_not_recorded() const { return state_->why_not; }

}  // namespace lockstep

#include <lockstep/train/checkpoint_writer.h>

#include <lockstep/train/resume.h>
#include <lockstep/train/sharded/all_or_none.h>

#include <torch/torch.h>

#include <chrono>
#include <functional>
#include <utility>

namespace lockstep::train {
namespace {

/// The values now, in memory of their own.
NamedTensors copies_of(NamedTensors tensors) {
  const torch::NoGradGuard no_grad;
  for (auto& [name, tensor] : tensors) tensor = tensor.detach().clone();
  return tensors;
}

}  // namespace

CheckpointWriter::CheckpointWriter(const CheckpointConfig& config, std::filesystem::path folder, const Group& group)
    : config_(config), folder_(std::move(folder)), group_(group) {}

void CheckpointWriter::begin(std::function<void()> write) {
  writing_ = std::async(config_.async ? std::launch::async : std::launch::deferred, std::move(write));
}

void CheckpointWriter::save(const RunState& state, ParallelRun& run) {
  finish();
  if (const auto divided = run.divided_state()) {
    // Before any rank writes: none does before rank 0 has said where to.
    if (group_.rank() == 0) remove_remains(folder_);
    parts_ = std::make_unique<DividedSave>(divided_checkpoint(folder_, state.step), state, *divided, group_,
                                           config_.async ? SavedValues::copied : SavedValues::in_place);
    begin([parts = parts_.get()] { parts->write(); });
  } else {
    auto whole = take_checkpoint(state, run.model_state(), run.optimizer_state(), group_);
    if (group_.rank() != 0) return;
    if (config_.async) whole.tensors = copies_of(std::move(whole.tensors));
    begin([this, whole = std::move(whole)] { save_into_folder(folder_, whole, config_.keep); });
  }
  if (!config_.async) finish();
}

bool CheckpointWriter::is_writing() const {
  return writing_.valid() && writing_.wait_for(std::chrono::seconds(0)) == std::future_status::timeout;
}

void CheckpointWriter::finish() {
  const auto parts = std::move(parts_);
  if (writing_.valid()) writing_.get();
  if (!parts) return;
  parts->commit();
  all_or_none(&group_, problem_of([this] {
    if (group_.rank() == 0) remove_all_but(folder_, config_.keep);
  }));
}

}  // namespace lockstep::train

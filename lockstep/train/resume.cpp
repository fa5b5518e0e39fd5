#include <lockstep/base/error.h>
#include <lockstep/base/json_integer.h>
#include <lockstep/comm/collectives.h>
#include <lockstep/comm/texts.h>
#include <lockstep/train/checkpoint_folder.h>
#include <lockstep/train/config_keys.h>
#include <lockstep/train/resume.h>
#include <lockstep/train/runtime.h>
#include <lockstep/train/sharded/index.h>
#include <lockstep/train/share_checkpoint.h>

#include <torch/torch.h>
#include <nlohmann/json.hpp>

namespace lockstep::train {
namespace {

constexpr const char* kGenerators = "generators";

void require_none_after(const std::filesystem::path& folder, std::int64_t step, std::string_view resume) {
  const auto files = list_checkpoints(folder);
  if (files.empty() || files.front().step <= step) return;
  fail(
      ErrorKind::config, "checkpoint.resume",
      "with {} this run would write among the checkpoints of another course of training: {} is already there; use "
      "checkpoint.resume=auto to go on from it, or another system.work_dir (or checkpoint.folder), or move that folder "
      "away",
      resume, files.front().file.string());
}

ResumePoint from_file(const std::filesystem::path& file, const std::filesystem::path& folder) {
  std::error_code ignored;
  if (!std::filesystem::exists(file, ignored)) {
    fail(ErrorKind::config, "checkpoint.resume", "there is no file {}; give a checkpoint, or auto or none",
         file.string());
  }
  if (std::filesystem::is_directory(file, ignored) && !std::filesystem::exists(file / kIndexName, ignored)) {
    fail(ErrorKind::config, "checkpoint.resume",
         "{} is a folder, and no checkpoint in parts; give one of step_*.safetensors or step_*.sharded in it, or set "
         "checkpoint.folder to it and checkpoint.resume to auto",
         file.string());
  }
  ResumePoint point{load_any_checkpoint(file), {}, {}, {}};
  require_none_after(folder, point.checkpoint.state.step, fmt::format("checkpoint.resume={}", file.string()));
  point.remarks.push_back(fmt::format("going on from {}", file.string()));
  return point;
}

std::optional<ResumePoint> look(const RunConfig& config) {
  const auto folder = checkpoint_folder_of(config);
  const auto& resume = config.checkpoint.resume;
  if (resume == "none") {
    require_none_after(folder, -1, "checkpoint.resume=none");
    return std::nullopt;
  }
  if (resume != "auto") return from_file(resume, folder);
  auto found = find_newest_intact(folder);
  if (!found) return std::nullopt;
  ResumePoint point{std::move(found->checkpoint), std::move(found->skipped), {}, {}};
  point.remarks.push_back(fmt::format("going on from {}", found->file.string()));
  return point;
}

/// An error of rank 0 becomes everybody's, so that none of them seems to have failed for another's sake.
void throw_on_all(const std::optional<Error>& error, const Group& group) {
  nlohmann::json json;
  if (error)
    json = {static_cast<int>(error->kind()), error->where(), error->message(), error->position().file,
            error->position().line};
  const auto shared =
      nlohmann::json::parse(share_text(json.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace), group, 0));
  if (error) throw *error;
  if (shared.is_null()) return;
  throw Error(static_cast<ErrorKind>(integer_of<int>(shared[0])), shared[1].get<std::string>(),
              shared[2].get<std::string>(), {shared[3].get<std::string>(), integer_of<int>(shared[4])});
}

std::string origin_of(const RunConfig& config, std::int64_t step) {
  const auto& resume = config.checkpoint.resume;
  return resume == "auto" ? fmt::format("the checkpoint of step {} in {}", step, checkpoint_folder_of(config).string())
                          : fmt::format("{} (step {})", resume, step);
}

}  // namespace

std::optional<ResumePoint> find_resume_point(const RunConfig& config, const Group& group) {
  std::optional<ResumePoint> own;
  std::optional<Error> error;
  if (group.rank() == 0) {
    try {
      own = look(config);
    } catch (const Error& found) {
      if (found.kind() == ErrorKind::io) throw;  // of this host perhaps: the others may find another rank 0
      error = found;
    }
  }
  throw_on_all(error, group);
  auto shared = share_checkpoint(own ? std::optional(std::move(own->checkpoint)) : std::nullopt, group);
  if (!shared) return std::nullopt;
  auto origin = origin_of(config, shared->state.step);
  return ResumePoint{
      std::move(*shared), own ? std::move(own->remarks) : std::vector<std::string>(), std::move(origin), {}};
}

Checkpoint take_checkpoint(const RunState& state, const NamedTensors& model_state, const NamedTensors& optimizer_state,
                           const Group& group) {
  const auto generators = gather(generator_state().unsqueeze(0), group, 0);
  Checkpoint checkpoint{state, {}};
  if (group.rank() != 0) return checkpoint;
  add_part(checkpoint.tensors, "model", model_state);
  add_part(checkpoint.tensors, "optimizer", optimizer_state);
  checkpoint.tensors.emplace(kGenerators, generators);
  return checkpoint;
}

void restore_generator(const Checkpoint& checkpoint, int rank, std::int64_t seed) {
  const auto found = checkpoint.tensors.find(kGenerators);
  if (found == checkpoint.tensors.end() || rank >= found->second.size(0)) {
    seed_rank(seed, rank, checkpoint.state.step);
  } else {
    set_generator_state(found->second[rank].clone());
  }
}

}  // namespace lockstep::train

// Reading a state from memory or files by boxes; the choice of a checkpoint by rank 0, and its tensors on all ranks.
#include <lockstep/base/error.h>
#include <lockstep/base/json.h>
#include <lockstep/comm/texts.h>
#include <lockstep/state/checkpoint_folder.h>
#include <lockstep/state/resume.h>
#include <lockstep/state/safetensors.h>
#include <lockstep/state/tensors.h>

#include <fmt/format.h>
#include <torch/torch.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <utility>

namespace lockstep::state {
namespace {

at::Tensor without_values(at::IntArrayRef sizes, at::ScalarType dtype) {
  return torch::empty(sizes, torch::TensorOptions(dtype).device(torch::kMeta));
}

void require_none_after(const std::filesystem::path& folder, std::int64_t step, std::string_view resume) {
  const auto files = list_checkpoints(folder);
  if (files.empty() || files.front().step <= step) return;
  fail(ErrorKind::config, "checkpoint.resume",
       "with {} this run would write among the checkpoints of another training run: {} is already there; use "
       "checkpoint.resume=auto to go on from it, or another system.work_dir (or checkpoint.folder), or move that "
       "folder away",
       resume, files.front().path.string());
}

FoundCheckpoint named(const std::filesystem::path& path, const std::filesystem::path& folder) {
  std::error_code ignored;
  if (!std::filesystem::exists(path, ignored)) {
    fail(ErrorKind::config, "checkpoint.resume", "there is no file {}; give a checkpoint, or auto or none",
         path.string());
  }
  if (std::filesystem::is_directory(path, ignored) && !std::filesystem::exists(path / kIndexName, ignored)) {
    fail(ErrorKind::config, "checkpoint.resume",
         "{} is a folder, and no checkpoint in parts; give one of step_*.sharded in it, or set checkpoint.folder to it "
         "and checkpoint.resume to auto",
         path.string());
  }
  FoundCheckpoint found{open_checkpoint(path), {}};
  require_intact(found.saved);
  require_none_after(folder, found.saved.step, fmt::format("checkpoint.resume={}", path.string()));
  return found;
}

std::optional<FoundCheckpoint> look(const std::filesystem::path& folder, const std::string& resume) {
  if (resume == "none") {
    require_none_after(folder, -1, "checkpoint.resume=none");
    return std::nullopt;
  }
  auto found = resume == "auto" ? find_newest_intact(folder) : named(resume, folder);
  if (found) found->remarks.push_back(fmt::format("going on from {}", found->saved.path.string()));
  return found;
}

/// All ranks throw the error of rank 0, so that every rank reports the cause and not only the failure of another rank.
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

std::string origin_of(const std::filesystem::path& folder, const std::string& resume, std::int64_t step) {
  return resume == "auto" ? fmt::format("the checkpoint of step {} in {}", step, folder.string())
                          : fmt::format("{} (step {})", resume, step);
}

}  // namespace

StateSource::StateSource(NamedTensors in_memory) : in_memory_(std::move(in_memory)) {
  for (const auto& [name, tensor] : in_memory_) {
    outline_.emplace(name, without_values(tensor.sizes(), tensor.scalar_type()));
  }
}

StateSource::StateSource(ShardReader files) : files_(std::move(files)) {
  for (const auto& [name, tensor] : files_->index().tensors) {
    outline_.emplace(name, without_values(tensor.shape, scalar_type_of(tensor.dtype)));
  }
}

NamedTensors StateSource::outline(std::string_view part) const { return part_of(outline_, part); }

void StateSource::read(const std::string& name, const Box& box, at::Tensor& into) {
  if (files_) return files_->read(name, box, into);
  auto values = in_memory_.at(name);
  for (std::size_t dim = 0; dim < box.sizes.size(); ++dim) {
    values = values.narrow(static_cast<std::int64_t>(dim), box.offset[dim], box.sizes[dim]);
  }
  into.copy_(values);
}

at::Tensor StateSource::read(const std::string& name) {
  if (!files_) return in_memory_.at(name);
  return files_->read(name, whole_box(files_->index().tensors.at(name).shape));
}

NamedTensors StateSource::read_part(std::string_view part) {
  NamedTensors tensors;
  for (const auto& [name, outline] : outline(part)) tensors.emplace(name, read(fmt::format("{}.{}", part, name)));
  return tensors;
}

std::optional<ResumePoint> find_resume_point(const std::filesystem::path& folder, const std::string& resume,
                                             const Group& group) {
  std::optional<FoundCheckpoint> own;
  std::optional<Error> error;
  if (group.rank() == 0) {
    try {
      own = look(folder, resume);
    } catch (const Error& found) {
      if (found.kind() == ErrorKind::io) throw;  // of this host perhaps: another rank may become rank 0
      error = found;
    }
  }
  throw_on_all(error, group);
  const std::filesystem::path path = share_text(own ? own->saved.path.string() : "", group);
  if (path.empty()) return std::nullopt;
  auto remarks = own ? std::move(own->remarks) : std::vector<std::string>();
  const auto seen = gather_texts(fingerprint(path), group);
  if (std::ranges::all_of(seen, [&](const std::string& text) { return !text.empty() && text == seen.front(); })) {
    auto saved = open_checkpoint(path);
    return ResumePoint{.step = saved.step,
                       .record = std::move(saved.record),
                       .tensors = StateSource(saved.reader(Checksums::compared_already)),
                       .remarks = std::move(remarks),
                       .origin = origin_of(folder, resume, saved.step)};
  }
  auto record = share_text(own ? own->saved.record : "", group);
  auto tensors = own ? read_whole(own->saved) : NamedTensors();
  broadcast_tensors(tensors, group, 0);
  const auto step = step_of(record);
  return ResumePoint{.step = step,
                     .record = std::move(record),
                     .tensors = StateSource(std::move(tensors)),
                     .remarks = std::move(remarks),
                     .origin = origin_of(folder, resume, step)};
}

}  // namespace lockstep::state

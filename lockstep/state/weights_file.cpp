// The detection of a weights format and its reading: safetensors, torch.save, MindSpore, several files with an index,
// folders of Hugging Face, checkpoints of a run.
#include <lockstep/base/error.h>
#include <lockstep/base/text.h>
#include <lockstep/state/checkpoint_folder.h>
#include <lockstep/state/pth/archive.h>
#include <lockstep/state/pth/load.h>
#include <lockstep/state/pth/mindspore.h>
#include <lockstep/state/resume.h>
#include <lockstep/state/safetensors.h>
#include <lockstep/state/safetensors_header.h>
#include <lockstep/state/saved_checkpoint.h>
#include <lockstep/state/weights_file.h>

#include <ATen/core/Tensor.h>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <torch/torch.h>

#include <algorithm>
#include <array>
#include <fstream>
#include <optional>
#include <set>
#include <string_view>
#include <system_error>
#include <utility>

namespace lockstep::state {
namespace {

constexpr std::size_t kMostListed = 10;

/// The only checkpoint in the folder, the best of several if best.json names it, or the path itself.
std::filesystem::path checkpoint_in(const std::filesystem::path& folder, std::vector<std::string>& remarks) {
  std::error_code unknown;
  if (!std::filesystem::is_directory(folder, unknown)) return folder;
  auto found = list_checkpoints(folder);
  if (found.size() == 1) return found.front().path;
  if (found.empty()) return folder;  // the path is a checkpoint itself, or there is none
  if (const auto best = noted_best(folder)) {
    for (const auto& each : found) {
      if (each.path.filename() != best->name) continue;
      remarks.push_back(fmt::format("of the {} checkpoints in {}, {} is the best by {}, {:.6g}", found.size(),
                                    folder.string(), best->name, best->metric, best->value));
      return each.path;
    }
  }
  std::vector<std::string> names;
  for (const auto& each : found) names.push_back(each.path.filename().string());
  const auto more = names.size() > kMostListed ? ", ..." : "";
  names.resize(std::min(names.size(), kMostListed));
  throw Error(ErrorKind::data, "load_weights",
              fmt::format("there are {} checkpoints in this folder; give one of them: {}{}", found.size(),
                          fmt::join(names, ", "), more),
              {folder.string(), 0});
}

/// Replaces the parameters that are averaged.
void put_average(StateSource& source, const std::filesystem::path& path, NamedTensors& weights) {
  const auto part = fmt::format("{}.{}", kCallbacksPart, kAverageCallback);
  auto average = source.read_part(part);
  if (average.empty()) {
    throw Error(ErrorKind::data, "load_weights",
                "this checkpoint has no average of the weights: its run did not have ema in callbacks.use; take the "
                "trained ones, without model.weights_average (--average)",
                {path.string(), 0});
  }
  for (auto& [name, tensor] : average) weights.insert_or_assign(name, std::move(tensor));
}

/// Parameters and buffers of the model in a checkpoint: a folder of parts (step_00000123.sharded), the file that
/// `lockstep checkpoint merge` makes of it, or a folder with one checkpoint, such as the folder of best_checkpoints.
/// `average`: parameters have the values of the average that the callback ema keeps there; other tensors, such as
/// buffers, are the model's.
NamedTensors load_checkpoint_weights(const std::filesystem::path& path, bool average,
                                     std::vector<std::string>& remarks) {
  const auto saved = open_checkpoint(checkpoint_in(path, remarks));
  if (saved.is_file) require_intact(saved);
  remarks.push_back(fmt::format("the weights are {} of the checkpoint {} after step {}",
                                average ? "the average (ema)" : "those", saved.path.string(), saved.step));
  StateSource source(saved.reader(Checksums::compare));
  auto weights = source.read_part("model");
  if (average) put_average(source, saved.path, weights);
  return weights;
}

namespace fs = std::filesystem;

template <typename... Args>
[[noreturn]] void wrong_file(const fs::path& path, fmt::format_string<Args...> format, Args&&... args) {
  throw Error(ErrorKind::data, "load_weights", fmt::format(format, std::forward<Args>(args)...), {path.string(), 0});
}

std::string first_bytes(const fs::path& path, std::size_t most) {
  std::string begin(most, '\0');
  std::ifstream stream(path, std::ios::binary);
  stream.read(begin.data(), static_cast<std::streamsize>(begin.size()));
  begin.resize(static_cast<std::size_t>(stream.gcount()));
  return begin;
}

WeightsFormat format_of_file(const fs::path& path) {
  std::error_code unknown;
  if (!fs::is_regular_file(path, unknown)) return WeightsFormat::safetensors;  // its reader reports the error
  return weights_format(first_bytes(path, kFormatBytes));
}

// ---- one file

WeightsFile read_safetensors(const fs::path& path) {
  SafetensorsReader reader(path);
  WeightsFile file;
  for (const auto& entry : reader.header().entries) {
    if (safetensors_element_bytes(entry.dtype) == 0) {
      file.others.emplace(entry.name, fmt::format("a tensor of dtype {}", cut_text(entry.dtype)));
    } else {
      file.tensors.emplace(entry.name, reader.read(entry));
    }
  }
  return file;
}

WeightsFile read_pth(const fs::path& path, const std::string& key) {
  auto read = load_pth(path, key);
  WeightsFile file{std::move(read.tensors), std::move(read.others), {}};
  if (!read.place.empty()) {
    file.remarks.push_back(fmt::format("the weights are those under \"{}\" in the file", read.place));
  }
  return file;
}

/// Entries of MindSpore's optimizers and callbacks beside the weights: a copy of each parameter under such a prefix,
/// and numbers.
bool is_of_training(const std::string& name, const NamedTensors& tensors) {
  constexpr std::array<std::string_view, 6> kPrefixes = {"moments.", "moment1.", "moment2.",
                                                         "adam_m.",  "adam_v.",  "accum."};
  constexpr std::array<std::string_view, 10> kNumbers = {"epoch_num",   "step_num",
                                                         "global_step", "learning_rate",
                                                         "loss_scale",  "current_iterator_step",
                                                         "beta1_power", "beta2_power",
                                                         "momentum",    "last_overflow_iterator_step"};
  if (std::ranges::find(kNumbers, name) != kNumbers.end()) return true;
  return std::ranges::any_of(kPrefixes, [&](std::string_view prefix) {
    return name.starts_with(prefix) && tensors.contains(name.substr(prefix.size()));
  });
}

void leave_out_training(WeightsFile& file) {
  std::vector<std::string> names;
  for (const auto& [name, tensor] : file.tensors) {
    if (is_of_training(name, file.tensors)) names.push_back(name);
  }
  for (const auto& name : names) {
    file.others.emplace(name, "a part of the training's state");
    file.tensors.erase(name);
  }
}

WeightsFile read_mindspore(const fs::path& path) {
  std::error_code failed;
  const auto size = fs::file_size(path, failed);
  std::ifstream stream(path, std::ios::binary);
  if (failed || !stream) fail(ErrorKind::io, "load_weights", "cannot read {}", path.string());
  const ByteSource source{size, [&](std::uint64_t from, std::span<char> into) {
                            stream.seekg(static_cast<std::streamoff>(from));
                            stream.read(into.data(), static_cast<std::streamsize>(into.size()));
                            if (!stream) fail(ErrorKind::io, "load_weights", "cannot read {}", path.string());
                          }};
  auto read = read_mindspore_file(source, PthError(path));
  WeightsFile file{{}, std::move(read.others), {}};
  for (const auto& each : read.tensors) {
    auto tensor = torch::empty(each.sizes, scalar_type_of(each.dtype));
    auto* at = static_cast<char*>(tensor.data_ptr());
    for (const auto& piece : each.pieces) {
      source.read(piece.begin, {at, piece.bytes});
      at += piece.bytes;
    }
    const std::string_view bytes(static_cast<const char*>(tensor.data_ptr()), tensor.nbytes());
    if (each.dtype == "BOOL" && std::ranges::any_of(bytes, [](char byte) { return byte != 0 && byte != 1; })) {
      wrong_file(path, "tensor \"{}\" is Bool and has bytes other than 0 and 1", cut_text(each.name));
    }
    file.tensors.emplace(each.name, std::move(tensor));
  }
  leave_out_training(file);
  return file;
}

WeightsFile read_one_file(const fs::path& path, const std::string& key) {
  const auto format = format_of_file(path);
  if (!key.empty() && format != WeightsFormat::pth && format != WeightsFormat::old_pth) {
    wrong_file(path, "model.weights_key is '{}', and only .pth files of torch.save have keys that lead to a state dict",
               key);
  }
  switch (format) {
    case WeightsFormat::safetensors: return read_safetensors(path);
    case WeightsFormat::pth:
    case WeightsFormat::old_pth: return read_pth(path, key);
    case WeightsFormat::mindspore: return read_mindspore(path);
    case WeightsFormat::oldest_pth: break;
  }
  wrong_file(path,
             "this is a tar archive, as torch.save wrote before PyTorch 0.1.10, which is not read; write it again with "
             "Python: torch.save(torch.load(\"old.pth\", map_location=\"cpu\"), \"new.pth\")");
}

// ---- several files

constexpr std::string_view kIndexEnd = ".index.json";

bool is_index(const fs::path& path) { return path.filename().string().ends_with(kIndexEnd); }

/// The weights file of a Hugging Face folder, the usual name first; nullopt: there is none.
std::optional<fs::path> find_weights(const fs::path& folder) {
  std::error_code unknown;
  for (const auto* name :
       {"model.safetensors", "model.safetensors.index.json", "pytorch_model.bin", "pytorch_model.bin.index.json"}) {
    if (fs::is_regular_file(folder / name, unknown)) return folder / name;
  }
  // With a variant in its name, such as model.fp16.safetensors.index.json.
  std::set<fs::path> found;
  for (fs::directory_iterator entry(folder, unknown), end; !unknown && entry != end; entry.increment(unknown)) {
    if (is_index(entry->path())) found.insert(entry->path());
  }
  if (found.size() == 1) return *found.begin();
  return std::nullopt;
}

/// Links may lead out of the folder, and an index must not name files there.
void require_inside(const fs::path& shard, const fs::path& index) {
  const auto folder = fs::weakly_canonical(index.parent_path().empty() ? "." : index.parent_path());
  const auto relative = fs::weakly_canonical(shard).lexically_relative(folder);
  if (!relative.empty() && *relative.begin() != "..") return;
  // Caches of downloads have this form: a folder of links to files that are named by their content.
  const auto of_cache = [](const fs::path& path) { return path.parent_path().filename() == "blobs"; };
  if (of_cache(fs::weakly_canonical(shard))) return;
  wrong_file(index, "the file {} that it names is a link that leaves the folder", shard.filename().string());
}

bool equal_values(const at::Tensor& a, const at::Tensor& b) {
  return a.sizes() == b.sizes() && a.scalar_type() == b.scalar_type() && a.equal(b);
}

class ShardedFiles {
 public:
  explicit ShardedFiles(const fs::path& index) : index_(index) {}

  WeightsFile read() {
    std::error_code failed;
    const auto size = fs::file_size(index_, failed);
    if (failed) fail(ErrorKind::io, "load_weights", "cannot read {}: {}", index_.string(), failed.message());
    if (size > kMaxShardIndex) wrong_file(index_, "the index has {} bytes; at most {} are read", size, kMaxShardIndex);
    const auto places = parse_shard_index(first_bytes(index_, size), index_);
    std::map<std::string, std::size_t> files;
    for (const auto& [name, file] : places) ++files[file];
    require_all(files);
    for (const auto& [file, count] : files) add(file);
    require_tensors(places);
    found_.remarks.insert(found_.remarks.begin(),
                          fmt::format("the weights are in {} files, which {} lists", files.size(), index_.string()));
    if (const auto more = found_.tensors.size() + found_.others.size(); more > places.size()) {
      found_.remarks.push_back(fmt::format("{} tensors of these files are not in their index", more - places.size()));
    }
    return std::move(found_);
  }

 private:
  void require_all(const std::map<std::string, std::size_t>& files) const {
    std::vector<std::string> missing;
    std::error_code unknown;
    for (const auto& [file, count] : files) {
      const auto shard = index_.parent_path() / file;
      if (fs::is_regular_file(shard, unknown)) {
        require_inside(shard, index_);
      } else {
        missing.push_back(fmt::format("{} ({} tensors)", file, count));
      }
    }
    if (missing.empty()) return;
    constexpr std::size_t kMostShown = 10;
    const auto count = missing.size();
    missing.resize(std::min(count, kMostShown));
    wrong_file(index_, "{} of the {} files that it names are not there: {}{}; download them into the same folder",
               count, files.size(), fmt::join(missing, ", "), count > kMostShown ? ", ..." : "");
  }

  void add(const std::string& file) {
    auto shard = read_one_file(index_.parent_path() / file, "");
    for (auto& [name, tensor] : shard.tensors) {
      const auto [known, is_new] = found_.tensors.emplace(name, tensor);
      if (is_new) {
        from_.emplace(name, file);
      } else if (!equal_values(known->second, tensor)) {
        wrong_file(index_, "tensor \"{}\" is in {} and in {}, with other values", cut_text(name), from_.at(name), file);
      }
    }
    found_.others.merge(shard.others);
  }

  void require_tensors(const ShardFiles& places) const {
    for (const auto& [name, file] : places) {
      if (found_.tensors.contains(name) || found_.others.contains(name)) continue;
      wrong_file(index_, "tensor \"{}\" should be in {}, and is in none of the files", cut_text(name), file);
    }
  }

  const fs::path& index_;
  WeightsFile found_;
  std::map<std::string, std::string, std::less<>> from_;
};

// ---- checkpoints of a run

/// Whether the file is a whole checkpoint of a run, and not only weights.
bool is_checkpoint(const fs::path& path) {
  std::error_code unknown;
  if (fs::is_directory(path, unknown)) return true;
  return format_of_file(path) == WeightsFormat::safetensors &&
         SafetensorsReader(path).header().metadata.contains(kVersionKey);
}

}  // namespace

WeightsFile read_weights_file(const fs::path& given, const std::string& key, bool average) {
  std::error_code unknown;
  auto path = given;
  if (fs::is_directory(path, unknown)) path = find_weights(path).value_or(path);
  const bool several = is_index(path);
  if (!several && is_checkpoint(path)) {
    if (!key.empty()) {
      wrong_file(path, "model.weights_key is '{}', and this is a checkpoint of a run, which has one model", key);
    }
    WeightsFile file;
    file.tensors = load_checkpoint_weights(path, average, file.remarks);
    return file;
  }
  if (average) {
    wrong_file(
        path,
        "this is not a checkpoint of a run, and model.weights_average (--average) takes the average in one; give "
        "a checkpoint, or leave that out for a file that is an average itself, such as ema.safetensors");
  }
  return several ? ShardedFiles(path).read() : read_one_file(path, key);
}

}  // namespace lockstep::state

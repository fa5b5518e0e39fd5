// A sharded save by all ranks: agree on folder and plan, write own shards, gather checksums; rank 0 writes the index
// last. Ranks that do not see the folder send their shards to others.
#include <lockstep/base/crypto.h>
#include <lockstep/base/error.h>
#include <lockstep/comm/collectives.h>
#include <lockstep/comm/texts.h>
#include <lockstep/global/global_tensor.h>
#include <lockstep/global/placement.h>
#include <lockstep/state/checkpoint.h>
#include <lockstep/state/safetensors.h>
#include <lockstep/state/sharded/index.h>
#include <lockstep/state/sharded/load.h>
#include <lockstep/state/sharded/save.h>

#include <torch/torch.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <utility>

namespace lockstep::state {
namespace {

/// name -> [dtype, shape]
std::string outline_of(const NamedTensors& tensors) {
  auto outline = nlohmann::json::object();
  for (const auto& [name, tensor] : tensors) outline[name] = {safetensors_dtype(name, tensor), tensor.sizes().vec()};
  return outline.dump();
}

/// The index without number, shards and metadata.
ShardedIndex describe_save(const SavedState& state) {
  ShardedIndex index{.save = 0, .mesh = state.mesh, .metadata = {}, .tensors = {}};
  const auto axes = state.mesh.sizes.size();
  for (const auto& [name, tensor] : state.tensors) {
    index.tensors.emplace(name, SavedTensor{.dtype = safetensors_dtype(name, tensor),
                                            .shape = tensor.sizes().vec(),
                                            .placements = finished_placements(tensor, axes),
                                            .shards = {}});
  }
  for (const auto& [name, tensor] : state.in_parts) {
    index.tensors.emplace(
        name, SavedTensor{.dtype = tensor.dtype, .shape = tensor.shape, .placements = Placements(axes), .shards = {}});
  }
  return index;
}

/// Ranks with different states would wait for each other, or write inconsistent files.
void require_same_everywhere(const ShardedIndex& index, const Group& group) {
  const auto own = format_index(index);
  Sha256 hash;
  hash.update(own);
  const auto hashes = gather_texts(hash.hex(), group);
  if (std::ranges::all_of(hashes, [&](const std::string& each) { return each == hashes.front(); })) return;
  const auto indices = gather_texts(own, group);
  const auto other = std::ranges::find_if(indices, [&](const std::string& text) { return text != indices.front(); });
  const auto rank = other - indices.begin();
  const auto first = nlohmann::json::parse(indices.front()).at("tensors");
  const auto theirs = nlohmann::json::parse(*other).at("tensors");
  auto either = first;
  either.update(theirs);
  std::string what;
  for (const auto& [name, tensor] : either.items()) {
    const bool same = first.contains(name) && theirs.contains(name) && first.at(name) == theirs.at(name);
    if (!same && what.empty()) what = name;
  }
  fail(ErrorKind::mismatch, "sharded checkpoint",
       "ranks 0 and {} do not save the same tensors: \"{}\" is on one of them only, or of another shape, dtype or "
       "placement there; every rank passes the same names and global tensors",
       rank, what);
}

/// This rank's part, with partial values finished. A collective for partial tensors.
at::Tensor finished_part(const at::Tensor& tensor) {
  if (!is_global(tensor)) return tensor.detach();
  const auto finished = finished_placements(tensor, 0);
  return to_local(finished == placements_of(tensor) ? tensor : redistribute(tensor, finished)).detach();
}

at::Tensor inside(at::Tensor values, const Box& outer, const Box& inner) {
  for (std::size_t dim = 0; dim < inner.sizes.size(); ++dim) {
    values = values.narrow(static_cast<std::int64_t>(dim), inner.offset[dim] - outer.offset[dim], inner.sizes[dim]);
  }
  return values;
}

at::Tensor as_bytes(const at::Tensor& tensor) { return tensor.view({-1}).view(torch::kByte); }

}  // namespace

SavedState held_by_some(NamedTensors own, const Group& group) {
  SavedState state{.group = group, .mesh = {.sizes = {group.size()}, .names = {"data"}}, .tensors = {}, .in_parts = {}};
  const auto outlines = gather_texts(outline_of(own), group);
  for (std::size_t rank = 0; rank < outlines.size(); ++rank) {
    const auto outline = nlohmann::json::parse(outlines[rank]);
    for (const auto& [name, form] : outline.items()) {
      const auto dtype = form.at(0).get<std::string>();
      const auto shape = form.at(1).get<BoxSizes>();
      const auto [place, is_new] =
          state.in_parts.try_emplace(name, TensorInParts{.dtype = dtype, .shape = shape, .holders = {}, .own = {}});
      if (!is_new && (place->second.dtype != dtype || place->second.shape != shape)) {
        fail(ErrorKind::mismatch, "checkpoint", "{} of rank {} is of another shape or dtype than that of a rank before",
             name, rank);
      }
      place->second.holders[whole_box(shape)].push_back(static_cast<int>(rank));
    }
  }
  for (auto& [name, tensor] : own) {
    state.in_parts.at(name).own.push_back({whole_box(tensor.sizes().vec()), std::move(tensor)});
  }
  return state;
}

ShardedSave::ShardedSave(std::filesystem::path folder, SavedState state, const SavedMetadata& metadata,
                         SavedValues values)
    : state_(std::move(state)), values_(values), index_(describe_save(state_)) {
  const torch::NoGradGuard no_grad;
  agree(folder);
  index_.metadata = metadata;
  if (values_ == SavedValues::in_place) return;
  for (const auto& planned : plan_) {
    auto own = values_of(planned);
    if (own.defined()) {
      copies_[planned.name] = own.to(torch::kCPU, /*non_blocking=*/false, /*copy=*/true).contiguous();
    }
  }
  state_.tensors.clear();
  state_.in_parts.clear();
  part_.reset();
}

// Rank 0 chooses the folder, and every rank that sees that folder writes to it.
void ShardedSave::agree(const std::filesystem::path& folder) {
  const auto& group = state_.group;
  require_same_everywhere(index_, group);
  std::filesystem::path mark;
  nlohmann::json said;
  std::optional<Error> problem;
  if (group.rank() == 0) {
    problem = problem_of([&] {
      const auto number = next_save_number(folder);
      mark = put_mark(folder, number);
      said = {folder.string(), mark.filename().string(), number};
    });
  }
  said = nlohmann::json::parse(share_text(said.dump(), group));
  std::error_code unseen;
  bool sees = false;
  if (!said.is_null()) {
    folder_ = said[0].get<std::string>();
    index_.save = said[2].get<std::int64_t>();
    sees = std::filesystem::exists(folder_ / said[1].get<std::string>(), unseen);
  }
  const nlohmann::json own{sees, problem_text(problem)};
  std::vector<int> writers;
  std::vector<std::string> problems;
  for (const auto& text : gather_texts(own.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace), group)) {
    const auto of_rank = nlohmann::json::parse(text);
    if (of_rank[0].get<bool>()) writers.push_back(static_cast<int>(problems.size()));
    problems.push_back(of_rank[1]);
  }
  if (group.rank() == 0 && !mark.empty()) std::filesystem::remove(mark, unseen);
  throw_problems(problem, problems);
  std::map<std::string, Holders> held;
  for (const auto& [name, tensor] : state_.in_parts) held.emplace(name, tensor.holders);
  plan_ = plan_shards(index_, held, writers);
  file_ = shard_file(index_.save, group.rank());
}

ShardedSave::~ShardedSave() {
  if (!committed_ && !file_.empty()) take_back(folder_, index_.save, file_);
}

void ShardedSave::write() noexcept {
  problem_ = problem_of([this] { write_shards(); });
}

at::Tensor ShardedSave::own_values(const std::string& name, const Box& box) const {
  const auto in_parts = state_.in_parts.find(name);
  if (in_parts == state_.in_parts.end()) return inside(part_->second.values, part_->second.box, box);
  const auto& parts = in_parts->second.own;
  at::Tensor values;
  for (const auto& part : parts) {
    const auto both = intersection(part.box, box);
    if (both == box) return inside(part.values, part.box, box);
    if (both.empty()) continue;
    if (!values.defined()) values = torch::empty(box.sizes, part.values.options());
    inside(values, box, both).copy_(inside(part.values, part.box, both));
  }
  return values;
}

/// The values of a shard on the rank that writes it, undefined on others. All ranks call it for all shards, in order.
at::Tensor ShardedSave::values_of(const PlannedShard& planned) {
  const auto& name = planned.tensor;
  const auto& tensor = index_.tensors.at(name);
  if (state_.tensors.contains(name) && (!part_ || part_->first != name)) {
    const auto place = global::coordinate_of(state_.group.rank(), state_.mesh.sizes);
    part_.emplace(name, HeldPart{.box = box_of(tensor.shape, tensor.placements, state_.mesh.sizes, place),
                                 .values = finished_part(state_.tensors.at(name))});
  }
  const bool holds = state_.group.rank() == planned.source;
  return carry(planned, holds ? own_values(name, tensor.shards[planned.shard].box) : at::Tensor());
}

at::Tensor ShardedSave::carry(const PlannedShard& planned, at::Tensor values) const {
  if (planned.source == planned.writer) return values;
  const auto& group = state_.group;
  if (group.rank() == planned.source) {
    send(as_bytes(values.cpu().contiguous()), group, planned.writer);
    return {};
  }
  if (group.rank() != planned.writer) return {};
  const auto& tensor = index_.tensors.at(planned.tensor);
  values = torch::empty(tensor.shards[planned.shard].box.sizes, scalar_type_of(tensor.dtype));
  auto bytes = as_bytes(values);
  receive(bytes, group, planned.source);
  return values;
}

// Fills in the checksums of this rank's shards.
void ShardedSave::write_shards() {
  const torch::NoGradGuard no_grad;
  const int rank = state_.group.rank();
  SafetensorsHeader header;
  for (const auto& planned : plan_) {
    if (planned.writer != rank) continue;
    const auto& tensor = index_.tensors.at(planned.tensor);
    header.entries.push_back(
        {.name = planned.name, .dtype = tensor.dtype, .shape = tensor.shards[planned.shard].box.sizes});
  }
  std::optional<SafetensorsWriter> writer;
  std::optional<Error> problem;
  if (!header.entries.empty()) problem = problem_of([&] { writer.emplace(folder_ / file_, std::move(header)); });
  // The loop processes all shards even after a problem: other ranks may wait for this rank to send, receive or reduce.
  for (const auto& planned : plan_) {
    at::Tensor own;
    if (values_ == SavedValues::in_place) {
      own = values_of(planned);
    } else if (planned.writer == rank) {
      own = copies_.extract(planned.name).mapped();
    }
    if (planned.writer != rank || problem) continue;
    problem = problem_of([&] {
      const auto values = own.cpu().contiguous();
      index_.tensors.at(planned.tensor).shards[planned.shard].sha256 = sha256_of_values(values);
      writer->write(values);
    });
  }
  part_.reset();
  if (problem) throw *problem;
  if (writer) writer->commit();
}

void ShardedSave::commit(const std::function<void()>& publish) {
  const auto& group = state_.group;
  state_.tensors.clear();
  state_.in_parts.clear();
  copies_.clear();
  nlohmann::json own{problem_text(problem_), nlohmann::json::array()};
  for (const auto& planned : plan_) {
    const auto& shard = index_.tensors.at(planned.tensor).shards[planned.shard];
    if (planned.writer == group.rank()) own[1].push_back(shard.sha256);
  }
  std::vector<std::string> problems;
  std::vector<nlohmann::json> checksums;
  for (const auto& text : gather_texts(own.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace), group)) {
    auto of_rank = nlohmann::json::parse(text);
    problems.push_back(of_rank[0]);
    checksums.push_back(std::move(of_rank[1]));
  }
  throw_problems(problem_, problems);
  all_or_none(&group, problem_of([&] {
    if (group.rank() != 0) return;
    std::vector<std::size_t> next(checksums.size());
    for (const auto& planned : plan_) {
      const auto writer = static_cast<std::size_t>(planned.writer);
      index_.tensors.at(planned.tensor).shards[planned.shard].sha256 = checksums[writer].at(next[writer]++);
    }
    finish_save(folder_, index_);
    if (publish) publish();
  }));
  committed_ = true;
}

void save_sharded(const std::filesystem::path& folder, const NamedTensors& tensors, const SavedMetadata& metadata) {
  const auto mesh = mesh_of_tensors(tensors);
  if (!mesh) {
    fail(ErrorKind::invalid_argument, "sharded checkpoint",
         "none of the {} tensors is global; torch::save writes ordinary ones, on one rank where all have the same",
         tensors.size());
  }
  ShardedSave save(folder, {.group = mesh->group(), .mesh = shape_of(*mesh), .tensors = tensors, .in_parts = {}},
                   metadata, SavedValues::in_place);
  save.write();
  save.commit();
}

}  // namespace lockstep::state

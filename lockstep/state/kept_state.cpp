// The agreement of ranks on a state in memory: summaries of all ranks, the choice, the parts assembled on one rank, and
// the whole state sent to all.
#include <lockstep/base/error.h>
#include <lockstep/base/text.h>
#include <lockstep/comm/texts.h>
#include <lockstep/state/kept_state.h>
#include <lockstep/state/recovery_choice.h>
#include <lockstep/state/tensors.h>

#include <fmt/format.h>
#include <torch/torch.h>

#include <utility>
#include <vector>

namespace lockstep::state {
namespace {

std::string hash_of(const NamedTensors& part) {
  auto compared = part;
  compared.erase(kOwnBuffers);
  return sha256_of(compared);
}

PartHashes hashes_of(const PartAndCopy& parts) { return {hash_of(parts.own), hash_of(parts.copy)}; }

RecoveryState summary_of(const std::optional<KeptState>& kept) {
  if (!kept) return {};
  RecoveryState summary{true, kept->step, kept->epoch, kept->evaluations, sha256_of(kept->shared)};
  if (!kept->parts) return summary;
  summary.parts = hashes_of(kept->parts->last);
  if (kept->parts->next) summary.next = hashes_of(*kept->parts->next);
  return summary;
}

/// The part after `step` that the choice takes from this rank, the `source`.
const NamedTensors& part_from(const KeptState& kept, const PartSource& source, std::int64_t step) {
  const auto& parts = kept.step == step ? kept.parts.value().last : kept.parts.value().next.value();
  return source.is_copy ? parts.copy : parts.own;
}

/// Adds one rank's part to the whole tensors.
void assemble(NamedTensors& whole, const NamedTensors& divided, const NamedTensors& part, int rank) {
  const torch::NoGradGuard no_grad;
  for (const auto& [place, tensor] : part) {
    if (place == kOwnBuffers) {
      whole.emplace(buffers_key(rank), tensor);
      continue;
    }
    const auto dot = place.find('.');
    const auto begin = parse_integer(place.substr(0, dot));
    const auto name = dot == std::string::npos ? "" : place.substr(dot + 1);
    if (begin && tensor.dim() == 0) {
      whole.insert_or_assign(name, tensor);
      continue;
    }
    const auto like = divided.find(name);
    if (!begin || like == divided.end()) fail(ErrorKind::data, "recovery", "no part of a state has a {}", place);
    auto found = whole.find(name);
    if (found == whole.end()) {
      const auto& form = like->second;
      found = whole.emplace(name, torch::empty_strided(form.sizes(), form.strides(), tensor.scalar_type())).first;
    }
    found->second.as_strided({tensor.numel()}, {1}, *begin).copy_(tensor);
  }
}

/// The tensors of the chosen state on the chosen rank, nothing on others. A collective.
NamedTensors chosen_tensors(const std::optional<KeptState>& kept, const StateChoice& choice, std::int64_t step,
                            const Group& group) {
  const bool is_chosen = group.rank() == choice.rank;
  NamedTensors whole;
  if (is_chosen) {
    whole = kept->shared;
    whole.insert(kept->unshared.begin(), kept->unshared.end());
  }
  for (std::size_t rank = 0; rank < choice.sources.size(); ++rank) {
    const auto& source = choice.sources[rank];
    auto part = group.rank() == source.rank ? part_from(*kept, source, step) : NamedTensors();
    broadcast_tensors(part, group, source.rank);
    if (is_chosen) assemble(whole, kept->parts->divided, part, static_cast<int>(rank));
  }
  return whole;
}

}  // namespace

std::string buffers_key(int rank) { return fmt::format("{}.{}", kOwnBuffers, rank); }

int rank_before(const Group& group) { return (group.rank() + group.size() - 1) % group.size(); }

Agreement agree_on_state(std::optional<KeptState>& kept, const Group& group) {
  std::vector<RecoveryState> summaries;
  for (const auto& text : gather_texts(to_json(summary_of(kept)), group)) {
    summaries.push_back(parse_recovery_state(text));
  }
  auto choice = choose_state(summaries);
  if (!choice.rank) {
    kept.reset();
    return {std::nullopt, std::move(choice.reason)};
  }
  const auto& chosen = summaries[static_cast<std::size_t>(*choice.rank)];
  auto tensors = chosen_tensors(kept, choice, chosen.step, group);
  auto record = share_text(group.rank() == *choice.rank ? kept->record : "", group, *choice.rank);
  broadcast_tensors(tensors, group, *choice.rank);
  kept = KeptState{.step = chosen.step,
                   .epoch = chosen.epoch,
                   .evaluations = chosen.evaluations,
                   .record = std::move(record),
                   .shared = std::move(tensors)};
  return {ResumePoint{.step = kept->step,
                      .record = kept->record,
                      .tensors = StateSource(kept->shared),
                      .remarks = {choice.reason},
                      .origin = "what ranks have in memory"},
          choice.reason};
}

}  // namespace lockstep::state

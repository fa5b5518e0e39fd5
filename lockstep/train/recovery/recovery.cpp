// The recovery loop of a rank: run, keep state after a loss of ranks, rejoin, agree on a state in memory, run again.
#include <lockstep/base/error.h>
#include <lockstep/base/log.h>
#include <lockstep/comm/rejoin.h>
#include <lockstep/comm/texts.h>
#include <lockstep/train/checkpoint/recovery_state.h>
#include <lockstep/train/recovery/recovery.h>

#include <c10/util/Exception.h>

#include <csignal>
#include <utility>

namespace lockstep::train {
namespace {

RecoveryState recovery_state_of(const Kept& kept) {
  return kept.state ? recovery_state_of(kept.state->state, kept.state->tensors) : RecoveryState();
}

// Each part is sent from the rank that has it to all ranks; one rank keeps the parts and assembles the whole state.
StateChoice agree_on_parts(Kept& kept, const Group& group) {
  std::vector<ShardRecoveryState> recovery_states;
  for (const auto& text : gather_texts(to_json(recovery_state_of(kept.parts)), group)) {
    recovery_states.push_back(parse_shard_recovery_state(text));
  }
  auto choice = choose_shards(recovery_states);
  if (!choice.rank) return {std::nullopt, std::move(choice.reason)};
  const auto step = recovery_states[static_cast<std::size_t>(*choice.rank)].shared.step;
  const bool assembles = group.rank() == *choice.rank;
  std::vector<NamedTensors> by_rank;
  for (const auto& source : choice.sources) {
    std::optional<Checkpoint> part;
    if (group.rank() == source.rank) part = Checkpoint{{}, part_from(*kept.parts, source, step)};
    part = broadcast_state(std::move(part), group, source.rank);
    if (assembles) by_rank.push_back(std::move(part.value().tensors));
  }
  std::optional<Checkpoint> whole;
  if (assembles) {
    whole = Checkpoint{kept.parts->state, kept.parts->shared};
    whole->tensors.merge(NamedTensors(kept.parts->other));
    whole->tensors.merge(assemble(kept.parts->parts.layout, by_rank));
  }
  by_rank.clear();
  kept.state = broadcast_state(std::move(whole), group, *choice.rank);
  return {choice.rank, std::move(choice.reason)};
}

}  // namespace

std::optional<ResumePoint> agree_on_state(Kept& kept, const Group& group, Console& console) {
  std::vector<RecoveryState> recovery_states;
  for (const auto& text : gather_texts(to_json(recovery_state_of(kept)), group)) {
    recovery_states.push_back(parse_recovery_state(text));
  }
  auto choice = choose_state(recovery_states);
  if (choice.rank) {
    auto shared = broadcast_state(kept.state, group, *choice.rank);
    kept.state = std::move(shared);
  } else if (choice.reason.empty()) {
    choice = agree_on_parts(kept, group);
  }
  kept.parts.reset();
  if (choice.rank) {
    return ResumePoint{.state = kept.state->state,
                       .tensors = StateSource(kept.state->tensors),
                       .remarks = {choice.reason},
                       .origin = "what ranks have in memory"};
  }
  kept.state.reset();
  if (!choice.reason.empty()) {
    const auto words = fmt::format("{}, the newest checkpoint is used instead", choice.reason);
    log_warning("{}", words);
    tell(console, words);
  }
  return std::nullopt;
}

RunResult run_with_recovery(std::optional<Group>& group, const std::function<RunResult(const Group&, Kept&)>& part) {
  Kept kept;
  for (;;) {
    std::string reason;
    try {
      const LossWatch watch(*group);
      return part(*group, kept);
    } catch (const Error& error) {
      if (!is_loss(error)) {
        group->abort(error.what());
        throw;
      }
      reason = error.what();
    } catch (const c10::Error& error) {
      group->abort(error.what_without_backtrace());
      throw;
    } catch (const std::exception& error) {
      group->abort(error.what());
      throw;
    }
    // The signal ends this process at once: while the rank waits for other ranks, which may never join, no code would
    // read the signal.
    if (kept.signal) std::raise(*std::exchange(kept.signal, std::nullopt));
    log_warning("ranks were lost; this one keeps its state and waits for those that take their places: {}", reason);
    Group lost = std::move(*group);
    group.reset();
    group = rejoin(std::move(lost), reason);
    if (!group && kept.result) return *kept.result;
    if (!group) fail(ErrorKind::peer_lost, "train", "the job was completed without this rank ({})", reason);
  }
}

}  // namespace lockstep::train

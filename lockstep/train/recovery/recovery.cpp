// The recovery loop of a rank: run, keep state after a loss of ranks, rejoin, agree on a state in memory, run again.
#include <lockstep/base/error.h>
#include <lockstep/base/log.h>
#include <lockstep/comm/group.h>
#include <lockstep/train/recovery/recovery.h>

#include <ATen/core/Tensor.h>
#include <c10/util/Exception.h>
#include <fmt/format.h>

#include <csignal>
#include <utility>

namespace lockstep::train {
std::optional<ResumePoint> agree_on_state(Kept& kept, const Group& group, Console& console) {
  auto agreed = state::agree_on_state(kept.state, group);
  if (!agreed.point && !agreed.reason.empty()) {
    const auto words = fmt::format("{}, the newest checkpoint is used instead", agreed.reason);
    log_warning("{}", words);
    tell(console, words);
  }
  return std::move(agreed.point);
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

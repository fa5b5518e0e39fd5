// A state machine of the end of a job: running, settling, asked (SIGTERM), killed (SIGKILL), given up.
#include <lockstep/cluster/processes/ending.h>

#include <csignal>

namespace lockstep::cluster {

void Ending::rank_failed(Time now) {
  if (stage_ != Stage::running) return;
  stage_ = Stage::settling;
  deadline_ = now + policy_.settle;
}

std::optional<int> Ending::user_signal(int signal, Time now) {
  if (stage_ == Stage::running) interrupted_by_ = signal;
  if (stage_ == Stage::asked || stage_ == Stage::killed) return kill(now);
  return ask(signal, now);
}

std::optional<int> Ending::ranks_ended(Time now) {
  if (stage_ == Stage::asked || stage_ == Stage::killed) return std::nullopt;
  return ask(SIGTERM, now);
}

std::optional<int> Ending::tick(Time now) {
  if (!deadline_ || now < *deadline_) return std::nullopt;
  switch (stage_) {
    case Stage::settling: return ask(SIGTERM, now);
    case Stage::asked: return kill(now);
    default: break;
  }
  gave_up_ = true;
  deadline_.reset();
  return std::nullopt;
}

std::optional<int> Ending::ask(int signal, Time now) {
  stage_ = Stage::asked;
  deadline_ = now + policy_.grace;
  return signal;
}

std::optional<int> Ending::kill(Time now) {
  stage_ = Stage::killed;
  deadline_ = now + policy_.after_kill;
  return SIGKILL;
}

}  // namespace lockstep::cluster

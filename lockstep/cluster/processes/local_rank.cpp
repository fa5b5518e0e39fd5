// A started rank: child, group keeper and two output streams, with the signals sent to it and its end.
#include <lockstep/base/this_host.h>
#include <lockstep/cluster/processes/local_rank.h>

#include <unistd.h>

#include <csignal>
#include <utility>

namespace lockstep::cluster {
LocalRank::LocalRank(int rank, Child child, const std::string& prefix, const RankOutlets& outlets,
                     const Lifeline& lifeline, Consoles& consoles)
    : rank_(rank),
      child_(std::move(child)),
      keeper_(std::in_place, child_.pid(), lifeline),
      out_(std::move(child_.out()), prefix, consoles.out, nullptr, outlets.out),
      err_(std::move(child_.err()), prefix, consoles.err, &tail_, outlets.err) {}

bool LocalRank::look_for_end() {
  if (status_) return false;
  status_ = child_.poll();
  if (!status_) return false;
  ended_ = std::chrono::steady_clock::now();
  ended_wall_ = std::chrono::system_clock::now();
  return true;
}

void LocalRank::keep_lines(std::size_t most) {
  lines_ = std::make_unique<LineTail>(most);
  out_.keep_in(*lines_);
  err_.keep_in(*lines_);
}

std::optional<std::vector<std::string>> LocalRank::new_lines() {
  if (!lines_ || lines_told_ == lines_->count()) return std::nullopt;
  lines_told_ = lines_->count();
  return lines_->lines();
}

bool LocalRank::was_killed() const {
  return asked_ == 0 && !killed_ && (status_->signal == SIGKILL || status_->code == 128 + SIGKILL);
}

void LocalRank::renew_keeper(const Lifeline& lifeline) {
  keeper_.reset();
  keeper_.emplace(child_.pid(), lifeline);
}

void LocalRank::signal(int signal) {
  if (!status_) asked_ = signal;
  killed_ = killed_ || signal == SIGKILL;
  child_.signal_group(signal);
  if (signal != SIGKILL) child_.signal_group(SIGCONT);  // otherwise a stopped process would not handle the signal
}

void LocalRank::mark_replaced() {
  replaced_ = true;
  child_.signal_group(SIGKILL);
}

RankEnd LocalRank::end(std::chrono::steady_clock::time_point start) const {
  RankEnd end;
  end.rank = rank_;
  end.pid = child_.pid();
  end.host = host_name().value_or("");
  end.status = *status_;
  end.when = ended_wall_;
  end.after = std::chrono::duration_cast<std::chrono::milliseconds>(ended_ - start);
  end.asked = asked_;
  end.cause = cause_;
  end.given_up = given_up_;
  end.last_lines = tail_.lines();
  return end;
}

}  // namespace lockstep::cluster

// The launcher's record of lost ranks: events of the job service, failures distinguished from decisions, repeated
// deaths.
#include <lockstep/cluster/rank_start.h>
#include <lockstep/cluster/replace/replacements.h>

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <csignal>
#include <optional>
#include <utility>

namespace lockstep::cluster {
namespace {

/// The time for a hanging rank to report its stack before it is killed.
constexpr std::chrono::seconds kLastWords(5);
constexpr std::chrono::seconds kLookForLosses(1);

bool is_decision(int signal) {
  constexpr std::array kDecisions = {SIGTERM, SIGINT, SIGHUP, SIGQUIT};
  return std::find(kDecisions.begin(), kDecisions.end(), signal) != kDecisions.end();
}

}  // namespace

Replacements::Replacements(const LaunchOptions& options, const Launch& job, Replacing how)
    : options_(options), job_(job), how_(std::move(how)) {}

void Replacements::read_losses() {
  if (!how_.losses) return;
  auto now = how_.losses->take();
  if (now == losses_) return;
  losses_ = std::move(now);
  if (how_.publish) how_.publish(losses_);
}

void Replacements::look(Clock::time_point now) {
  if (!how_.published || now < looked_ + kLookForLosses) return;
  losses_ = how_.published();
  looked_ = now;
}

std::optional<Replacements::Clock::time_point> Replacements::next_look() const {
  std::optional<Clock::time_point> next;
  if (how_.published) next = looked_ + kLookForLosses;
  for (const auto& [process, since] : lost_since_)
    next = std::min(next.value_or(since + kLastWords), since + kLastWords);
  return next;
}

bool Replacements::is_mishap(const LocalRank& rank) {
  const pid_t process = rank.child().pid();
  lost_since_.erase(process);
  if (!job_.service || !std::filesystem::exists(file_of(rank, session_file_of))) return false;
  read_losses();
  if (how_.published) losses_ = how_.published();
  const int signal = rank.status().signal;
  return (signal != 0 && !is_decision(signal)) || gave_up(rank);
}

bool Replacements::gave_up(const LocalRank& rank) const {
  return losses_.processes.contains({rank.rank(), rank.child().pid()});
}

Replacements::Started Replacements::start(const LocalRank& lost) {
  Started started;
  started.job = job_;
  started.local_rank = lost.rank() - job_.first_rank;
  if (!job_.folder.empty()) started.job.folder /= fmt::format("replacement_{}", count_ + 1);
  const auto prepared = prepare_replacement(options_, started.job, started.local_rank);
  if (auto forked = how_.fork ? how_.fork(prepared) : std::nullopt) {
    started.ranks = std::move(*forked);
  } else {
    started.ranks.children.emplace_back(prepared);
  }
  folders_[started.local_rank] = started.job.folder;
  ++count_;
  return started;
}

void Replacements::note_started(const LocalRank& replacement) {
  completed_before_[replacement.child().pid()] = losses_.completed;
}

std::filesystem::path Replacements::file_of(const LocalRank& rank,
                                            std::filesystem::path (*which)(const Launch&, int)) const {
  const int local_rank = rank.rank() - job_.first_rank;
  Launch job = job_;
  if (const auto found = folders_.find(local_rank); found != folders_.end()) job.folder = found->second;
  return which(job, local_rank);
}

RankEnd Replacements::end_of(const LocalRank& rank, Clock::time_point start) const {
  RankEnd end = rank.end(start);
  end.note = read_error_file(file_of(rank, error_file_of));
  end.progress = read_status_page(file_of(rank, status_file_of), start + end.after);
  end.calls = read_calls(file_of(rank, status_file_of), start + end.after);
  if (is_excused(rank)) end.status = {};
  end.again = repeated_.contains(end.pid);
  return end;
}

bool Replacements::repeats_a_death(const RankEnd& end) {
  const auto death = death_of(end);
  if (!death) return false;
  const auto same = [&](const Death& before) { return repeats(*death, before); };
  const bool again = std::any_of(deaths_.begin(), deaths_.end(), same);
  if (again) repeated_.insert(end.pid);
  deaths_.push_back(*death);
  return again;
}

bool Replacements::is_to_be_killed(const LocalRank& rank, Clock::time_point now) {
  const pid_t process = rank.child().pid();
  if (!gave_up(rank)) {
    lost_since_.erase(process);
    return false;
  }
  return now - lost_since_.try_emplace(process, now).first->second >= kLastWords;
}

bool Replacements::came_too_late(const LocalRank& rank) const {
  const auto before = completed_before_.find(rank.child().pid());
  return before != completed_before_.end() && before->second < losses_.completed &&
         !std::filesystem::exists(file_of(rank, status_file_of));
}

}  // namespace lockstep::cluster

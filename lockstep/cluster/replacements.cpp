#include <lockstep/cluster/rank_options.h>
#include <lockstep/cluster/replacements.h>

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <csignal>
#include <utility>

namespace lockstep::cluster {
namespace {

/// How long a rank that hangs may take to say where, until it is killed.
constexpr std::chrono::seconds kLastWords(5);

bool is_decision(int signal) {
  constexpr std::array kDecisions = {SIGTERM, SIGINT, SIGHUP, SIGQUIT};
  return std::find(kDecisions.begin(), kDecisions.end(), signal) != kDecisions.end();
}

}  // namespace

Replacements::Replacements(const LaunchOptions& options, const Job& job, Replacing how)
    : options_(options), job_(job), how_(std::move(how)) {}

std::optional<Replacements::Clock::time_point> Replacements::next_look() const {
  std::optional<Clock::time_point> next;
  for (const auto& [process, since] : lost_since_)
    next = std::min(next.value_or(since + kLastWords), since + kLastWords);
  return next;
}

bool Replacements::is_mishap(const LocalRank& rank) {
  const pid_t process = rank.child().pid();
  lost_since_.erase(process);
  if (!job_.service || !std::filesystem::exists(file_of(rank, session_file_of))) return false;
  how_.events.read_some();
  const int signal = rank.status().signal;
  return (signal != 0 && !is_decision(signal)) || how_.events.is_lost(process);
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
  completed_before_[replacement.child().pid()] = how_.events.completed();
}

std::filesystem::path Replacements::file_of(const LocalRank& rank,
                                            std::filesystem::path (*which)(const Job&, int)) const {
  const int local_rank = rank.rank() - job_.first_rank;
  Job job = job_;
  if (const auto found = folders_.find(local_rank); found != folders_.end()) job.folder = found->second;
  return which(job, local_rank);
}

bool Replacements::is_to_be_killed(const LocalRank& rank, Clock::time_point now) {
  const pid_t process = rank.child().pid();
  if (!how_.events.is_lost(process)) return false;
  return now - lost_since_.try_emplace(process, now).first->second >= kLastWords;
}

bool Replacements::came_too_late(const LocalRank& rank) const {
  const auto before = completed_before_.find(rank.child().pid());
  return before != completed_before_.end() && before->second < how_.events.completed() &&
         !std::filesystem::exists(file_of(rank, status_file_of));
}

}  // namespace lockstep::cluster

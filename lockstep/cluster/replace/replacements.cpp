// The launcher's record of lost ranks: events of the job service, failures distinguished from decisions, repeated
// deaths.
#include <lockstep/base/parse.h>
#include <lockstep/cluster/rank_environment.h>
#include <lockstep/cluster/replace/job_service.h>
#include <lockstep/cluster/replace/replacements.h>

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <csignal>
#include <optional>
#include <utility>

namespace lockstep::cluster {
namespace {

/// The time for a hanging rank to report its stack before it is killed.
constexpr std::chrono::seconds kLastWords(5);
constexpr std::chrono::seconds kLookForEvents(1);

bool is_decision(int signal) {
  constexpr std::array kDecisions = {SIGTERM, SIGINT, SIGHUP, SIGQUIT};
  return std::find(kDecisions.begin(), kDecisions.end(), signal) != kDecisions.end();
}

/// The rank and process in an event of this kind.
std::optional<std::pair<int, pid_t>> process_in(std::string_view line, std::string_view kind) {
  if (!line.starts_with(kind)) return std::nullopt;
  const auto words = line.substr(kind.size());
  const auto space = words.find(' ');
  if (space == std::string_view::npos) return std::nullopt;
  const auto rank = parse_integer(words.substr(0, space));
  const auto process = parse_integer(words.substr(space + 1));
  if (!rank || !process) return std::nullopt;
  return std::pair(static_cast<int>(*rank), static_cast<pid_t>(*process));
}

}  // namespace

ServiceEvents::ServiceEvents(UniqueFd pipe) : pipe_(std::move(pipe)) {
  if (pipe_) ::fcntl(pipe_.get(), F_SETFL, O_NONBLOCK);
}

bool ServiceEvents::read_some() {
  const auto before = log_.size();
  std::array<char, 4096> buffer;
  while (pipe_) {
    const ssize_t count = ::read(pipe_.get(), buffer.data(), buffer.size());
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) break;  // no more input at present
    if (count == 0) pipe_.reset();
    unread_.append(buffer.data(), static_cast<std::size_t>(count));
  }
  for (auto end = unread_.find('\n'); end != std::string::npos; end = unread_.find('\n')) {
    take(unread_.substr(0, end));
    unread_.erase(0, end + 1);
  }
  return log_.size() > before;
}

void ServiceEvents::take_log(const std::string& log) {
  while (log_.size() < log.size()) take(log.substr(log_.size(), log.find('\n', log_.size()) - log_.size()));
}

void ServiceEvents::take(const std::string& line) {
  log_.append(line).append("\n");
  if (line == kCompleted) {
    ++completed_;
    lost_.clear();
  } else if (const auto process = process_in(line, kLost)) {
    lost_.insert(*process);
  } else if (const auto back = process_in(line, kBack)) {
    lost_.erase(*back);
  }
}

Replacements::Replacements(const LaunchOptions& options, const Launch& job, Replacing how)
    : options_(options), job_(job), how_(std::move(how)) {}

void Replacements::read_events() {
  if (how_.events.read_some() && how_.publish) how_.publish(how_.events.log());
}

void Replacements::look(Clock::time_point now) {
  if (!how_.published || now < looked_ + kLookForEvents) return;
  how_.events.take_log(how_.published());
  looked_ = now;
}

std::optional<Replacements::Clock::time_point> Replacements::next_look() const {
  std::optional<Clock::time_point> next;
  if (how_.published) next = looked_ + kLookForEvents;
  for (const auto& [process, since] : lost_since_)
    next = std::min(next.value_or(since + kLastWords), since + kLastWords);
  return next;
}

bool Replacements::is_mishap(const LocalRank& rank) {
  const pid_t process = rank.child().pid();
  lost_since_.erase(process);
  if (!job_.service || !std::filesystem::exists(file_of(rank, session_file_of))) return false;
  read_events();
  if (how_.published) how_.events.take_log(how_.published());
  const int signal = rank.status().signal;
  return (signal != 0 && !is_decision(signal)) || how_.events.is_lost(rank.rank(), process);
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
  if (!how_.events.is_lost(rank.rank(), process)) {
    lost_since_.erase(process);
    return false;
  }
  return now - lost_since_.try_emplace(process, now).first->second >= kLastWords;
}

bool Replacements::came_too_late(const LocalRank& rank) const {
  const auto before = completed_before_.find(rank.child().pid());
  return before != completed_before_.end() && before->second < how_.events.completed() &&
         !std::filesystem::exists(file_of(rank, status_file_of));
}

}  // namespace lockstep::cluster

// The rules of blame (which rank failed first and why), the exit code of the job, and the text of its report.
#include <lockstep/base/status_page.h>
#include <lockstep/cluster/last_calls.h>
#include <lockstep/cluster/report.h>

#include <fmt/core.h>

#include <algorithm>
#include <csignal>
#include <iterator>
#include <string_view>
#include <tuple>

namespace lockstep::cluster {
namespace {

/// The number of further failed ranks in a report, limited because a screen is small.
constexpr std::size_t kMostOthers = 64;
/// A rank that was in a call for so long when the user ended the job may have waited for one that hangs.
constexpr std::chrono::milliseconds kHangs(3000);

/// The last lines of programs that leave no note, such as Python's, when another rank has ended.
bool says_it_lost_a_peer(const RankEnd& end) {
  constexpr std::string_view kWords[] = {"Connection closed by peer", "Connection reset by peer", "Broken pipe"};
  if (end.last_lines.empty()) return false;
  const auto found = [&](std::string_view words) { return end.last_lines.back().find(words) != std::string::npos; };
  return std::any_of(std::begin(kWords), std::end(kWords), found);
}

auto order_of_blame(const RankEnd& end) {
  const bool obeyed = end.asked != 0 && (!end.note || end.note->is_early_end());
  const bool consequence = end.note ? end.note->is_consequence() : says_it_lost_a_peer(end);
  const auto when = end.note && end.note->when ? *end.note->when : end.when;
  return std::tuple(obeyed, consequence, when);
}

/// Indents every line of `text` after the first one.
std::string indented(std::string_view text, std::string_view margin) {
  std::string out;
  for (const char c : text) {
    out += c;
    if (c == '\n') out += margin;
  }
  return out;
}

std::string describe_reason(const RankEnd& end) {
  if (end.note) return fmt::format("  reason: {}\n", indented(end.note->message, "          "));
  if (!end.cause.empty()) {
    return fmt::format("  reason: {}; use a smaller batch or fewer ranks on a node, or give the job more memory\n",
                       end.cause);
  }
  if (end.last_lines.empty()) return "  reason: not known; it wrote neither an error file nor a line to stderr\n";
  std::string text = "  reason: it wrote no error file; its last lines on stderr:\n";
  for (const std::string& line : end.last_lines) text += fmt::format("    {}\n", line);
  return text;
}

std::string identity_of(const RankEnd& end) {
  return end.host.empty() ? fmt::format("pid {}", end.pid) : fmt::format("pid {} on {}", end.pid, end.host);
}

std::string progress_of(const RankEnd& end) { return end.progress ? describe(*end.progress) : ""; }

/// Reports the progress of a rank only where it differs from that of the first failed rank.
std::string describe_other(const RankEnd& end, const RankEnd* first) {
  std::string text = fmt::format("  rank {} ({}): {}", end.rank, identity_of(end), how_it_ended(end));
  if (end.asked != 0 && end.status.signal == end.asked) text += ", sent by the launcher";
  if (end.note && end.note->is_consequence()) {
    text += ", because it lost another rank";
  } else if (end.note && first != nullptr && first->note && first->note->message == end.note->message) {
    text += ", for the same reason";
  } else if (end.note) {
    text += fmt::format(", {}", indented(end.note->message, "    "));
  }
  const bool as_far =
      first != nullptr && first->progress && end.progress && same_place(*first->progress, *end.progress);
  if (const auto progress = progress_of(end); !progress.empty() && !as_far) text += fmt::format("; it {}", progress);
  return text + "\n";
}

/// The first calls that not all ranks have made, as far as their pages are known, at the time `at` after the start.
std::string describe_calls(std::span<const RankEnd> ends, std::chrono::milliseconds at,
                           std::chrono::milliseconds least_wait = {}) {
  std::vector<RankCalls> ranks;
  for (const auto& end : ends) {
    if (!end.calls) continue;
    ranks.push_back(*end.calls);
    ranks.back().rank = end.rank;
    ranks.back().until -= end.after - at;
  }
  const auto text = compare_calls(ranks, least_wait);
  if (text.empty()) return "";
  return fmt::format("  calls: {}\n", indented(std::string_view(text).substr(0, text.size() - 1), "         "));
}

std::string describe_failed_job(std::span<const RankEnd> ends, std::size_t first) {
  const RankEnd& end = ends[first];
  std::string text = fmt::format("lockstep run: rank {} ({}) {} first, {:.1f} s after the start: {}\n", end.rank,
                                 identity_of(end), end.note && end.note->is_early_end() ? "ended" : "failed",
                                 static_cast<double>(end.after.count()) / 1000.0, describe(end.status));
  if (const auto progress = progress_of(end); !progress.empty()) text += fmt::format("  it {}\n", progress);
  if (end.again) text += "  it is not tried again: the process before it died in the same way at the same step\n";
  text += describe_reason(end);
  std::size_t told = 1;
  for (std::size_t i = 0; i < ends.size() && told <= kMostOthers; ++i) {
    if (i == first) continue;
    text += describe_other(ends[i], &end);
    ++told;
  }
  if (told < ends.size()) text += fmt::format("  and {} more ranks\n", ends.size() - told);
  return text + describe_calls(ends, end.after);
}

std::string describe_interrupted_job(std::span<const RankEnd> ends, int signal) {
  std::string text = fmt::format("lockstep run: ended by {}; {} rank{} ended:\n", signal_name(signal), ends.size(),
                                 ends.size() == 1 ? "" : "s");
  for (const RankEnd& end : ends) text += describe_other(end, nullptr);
  if (ends.empty()) return text;
  // Ranks that compute are at different calls for moments; users end a job that hangs.
  const auto first = std::ranges::min(ends, {}, &RankEnd::after).after;
  return text + describe_calls(ends, first, kHangs);
}

int code_of_interrupted(std::span<const RankEnd> ends, int signal) {
  const auto own = std::find_if(ends.begin(), ends.end(), [](const RankEnd& end) { return end.status.code != 0; });
  return own != ends.end() ? own->status.code : 128 + signal;
}

// A rank that had left its reason before the launcher signalled it to end has failed all the same.
bool is_cut_short(const RankEnd& end) { return end.asked != 0 && end.status.signal == end.asked; }

}  // namespace

bool is_users_mistake(const RankEnd& end) {
  return (end.status.code == kUsage || is_cut_short(end)) && end.note && end.note->is_users_mistake();
}

std::optional<Death> death_of(const RankEnd& end) {
  constexpr int kCrashes[] = {SIGSEGV, SIGABRT, SIGBUS, SIGFPE, SIGILL, SIGTRAP, SIGSYS};
  const bool crashed = std::find(std::begin(kCrashes), std::end(kCrashes), end.status.signal) != std::end(kCrashes);
  if ((!crashed && end.cause.empty()) || end.asked != 0 || !end.progress) return std::nullopt;
  return Death{end.rank, end.status.signal, !end.cause.empty(), end.progress->step};
}

bool repeats(const Death& now, const Death& before) {
  if (now.signal != before.signal || now.of_memory != before.of_memory) return false;
  if (!now.of_memory && now.rank != before.rank) return false;
  return !now.step || (before.step && *now.step <= *before.step);
}

std::string how_it_ended(const RankEnd& end) {
  auto text = describe(end.status);
  for (const auto& why : {end.cause, end.given_up}) text += why.empty() ? "" : ", " + why;
  return text;
}

int exit_code_of(const ExitStatus& status) { return status.signal != 0 ? 128 + status.signal : status.code; }

std::optional<std::size_t> first_failure(std::span<const RankEnd> ends) {
  std::optional<std::size_t> first;
  for (std::size_t i = 0; i < ends.size(); ++i) {
    if (ends[i].status.ok()) continue;
    if (!first || order_of_blame(ends[i]) < order_of_blame(ends[*first])) first = i;
  }
  return first;
}

RunOutcome judge(std::span<const RankEnd> ends, std::optional<int> interrupted_by) {
  if (interrupted_by) {
    return {code_of_interrupted(ends, *interrupted_by), std::nullopt, describe_interrupted_job(ends, *interrupted_by)};
  }
  const auto first = first_failure(ends);
  if (!first) return {};
  const RankEnd& end = ends[*first];
  const int code = is_users_mistake(end) ? kUsage : is_cut_short(end) ? 1 : exit_code_of(end.status);
  return {code, end.rank, describe_failed_job(ends, *first)};
}

}  // namespace lockstep::cluster

// The ends of a node's ranks as JSON, put on one clock, and the job's outcome over the nodes of a round.
#include <lockstep/base/json.h>
#include <lockstep/cluster/elastic/job_json.h>
#include <lockstep/cluster/elastic/rank_ends.h>
#include <lockstep/cluster/last_calls.h>

#include <fmt/format.h>

#include <algorithm>
#include <csignal>

namespace lockstep::cluster::elastic {
namespace {

using nlohmann::json;
using std::chrono::milliseconds;
using std::chrono::system_clock;

std::int64_t milliseconds_of(system_clock::time_point time) {
  return std::chrono::duration_cast<milliseconds>(time.time_since_epoch()).count();
}

system_clock::time_point time_of(const json& value) {
  return system_clock::time_point(milliseconds(integer_of<std::int64_t>(value)));
}

json json_of(const FailureNote& note) {
  json value = {{"message", note.message}, {"kind", note.kind}};
  if (note.when) value["when_ms"] = milliseconds_of(*note.when);
  return value;
}

FailureNote note_of(const json& value) {
  FailureNote note;
  value.at("message").get_to(note.message);
  value.at("kind").get_to(note.kind);
  if (value.contains("when_ms")) note.when = time_of(value["when_ms"]);
  return note;
}

json json_of(const CollectiveMark& mark) { return {{"op", mark.op}, {"number", mark.number}, {"group", mark.group}}; }

CollectiveMark mark_of(const json& value) {
  return {value.at("op").get<std::string>(), integer_of<std::uint64_t>(value.at("number")),
          value.at("group").get<std::string>()};
}

json json_of(const RankProgress& progress) {
  json value = {{"backwards", progress.backwards}, {"since_begun_ms", progress.since_begun.count()}};
  if (progress.step) value["step"] = *progress.step;
  if (progress.begun) value["begun"] = json_of(*progress.begun);
  if (progress.ended) value["ended"] = json_of(*progress.ended);
  return value;
}

RankProgress progress_of(const json& value) {
  RankProgress progress;
  value.at("backwards").get_to(progress.backwards);
  progress.since_begun = milliseconds(integer_of<std::int64_t>(value.at("since_begun_ms")));
  if (value.contains("step")) progress.step = integer_of<std::int64_t>(value["step"]);
  if (value.contains("begun")) progress.begun = mark_of(value["begun"]);
  if (value.contains("ended")) progress.ended = mark_of(value["ended"]);
  return progress;
}

// Of the calls, a report needs the last ones.
constexpr std::size_t kSentCalls = 4;
constexpr std::size_t kSentGroups = 4;
/// The time of a rank's end on the clock of its calls, which is not that of the machine that reads them.
constexpr RankCalls::Time kTheEnd{std::chrono::hours(24 * 365 * 100)};

json age_of(RankCalls::Time time, RankCalls::Time until) {
  return std::chrono::duration_cast<milliseconds>(until - time).count();
}

RankCalls::Time time_before(const json& age) {
  constexpr std::int64_t kMostAge = std::int64_t{1000} * 3600 * 24 * 365 * 10;
  return kTheEnd - milliseconds(std::clamp<std::int64_t>(integer_of<std::int64_t>(age), 0, kMostAge));
}

json json_of(const CallRecord& call, RankCalls::Time until) {
  json value = {{"op", call.op},       {"number", call.number}, {"element", call.element},
                {"bytes", call.bytes}, {"place", call.place},   {"asked_ms", age_of(call.asked, until)}};
  if (call.step) value["step"] = *call.step;
  if (call.begun) value["begun_ms"] = age_of(*call.begun, until);
  if (call.completed) value["completed_ms"] = age_of(*call.completed, until);
  return value;
}

CallRecord call_of(const json& value) {
  CallRecord call;
  value.at("op").get_to(call.op);
  call.number = integer_of<std::uint64_t>(value.at("number"));
  value.at("element").get_to(call.element);
  call.bytes = integer_of<std::uint64_t>(value.at("bytes"));
  value.at("place").get_to(call.place);
  call.asked = time_before(value.at("asked_ms"));
  if (value.contains("step")) call.step = integer_of<std::int64_t>(value["step"]);
  if (value.contains("begun_ms")) call.begun = time_before(value["begun_ms"]);
  if (value.contains("completed_ms")) call.completed = time_before(value["completed_ms"]);
  return call;
}

json json_of(const RankCalls& calls) {
  json groups = json::array();
  for (const auto& group : newest_calls(calls.groups, kSentCalls, kSentGroups)) {
    json sent = json::array();
    for (const auto& call : group.calls) sent.push_back(json_of(call, calls.until));
    groups.push_back({{"group", group.group}, {"calls", std::move(sent)}});
  }
  return groups;
}

RankCalls calls_of(const json& groups, int rank) {
  RankCalls calls{.rank = rank, .groups = {}, .until = kTheEnd};
  for (const auto& group : groups) {
    auto& taken = calls.groups.emplace_back(GroupCalls{group.at("group").get<std::string>(), {}});
    for (const auto& call : group.at("calls")) taken.calls.push_back(call_of(call));
  }
  return calls;
}

json json_of(const RankEnd& end) {
  json value = {{"rank", end.rank},
                {"pid", end.pid},
                {"code", end.status.code},
                {"signal", end.status.signal},
                {"when_ms", milliseconds_of(end.when)},
                {"after_ms", end.after.count()},
                {"asked", end.asked},
                {"last_lines", end.last_lines}};
  if (!end.cause.empty()) value["cause"] = end.cause;
  if (!end.given_up.empty()) value["given_up"] = end.given_up;
  if (end.again) value["again"] = true;
  if (end.note) value["note"] = json_of(*end.note);
  if (end.progress) value["progress"] = json_of(*end.progress);
  if (end.calls) value["calls"] = json_of(*end.calls);
  return value;
}

RankEnd end_of(const json& value) {
  RankEnd end;
  value.at("rank").get_to(end.rank);
  value.at("pid").get_to(end.pid);
  value.at("code").get_to(end.status.code);
  value.at("signal").get_to(end.status.signal);
  end.when = time_of(value.at("when_ms"));
  end.after = milliseconds(integer_of<std::int64_t>(value.at("after_ms")));
  value.at("asked").get_to(end.asked);
  value.at("last_lines").get_to(end.last_lines);
  if (value.contains("cause")) value["cause"].get_to(end.cause);
  if (value.contains("given_up")) value["given_up"].get_to(end.given_up);
  if (value.contains("again")) value["again"].get_to(end.again);
  if (value.contains("note")) end.note = note_of(value["note"]);
  if (value.contains("progress")) end.progress = progress_of(value["progress"]);
  if (value.contains("calls")) end.calls = calls_of(value["calls"], end.rank);
  return end;
}

/// The delay until an agent reads of the round is less than this.
constexpr milliseconds kClocksAgree(1000);

RankEnd put_right(RankEnd end, milliseconds ahead) {
  if (std::chrono::abs(ahead) < kClocksAgree) return end;
  end.when -= ahead;
  if (end.note && end.note->when) *end.note->when -= ahead;
  return end;
}

}  // namespace

std::int64_t wall_clock_milliseconds() { return milliseconds_of(system_clock::now()); }

nlohmann::json json_of(const NodeEnds& node) {
  json ends = json::array();
  for (const RankEnd& end : node.ends) ends.push_back(json_of(end));
  return {{"host", node.host}, {"error", node.error}, {"ends", ends}, {"ahead_ms", node.ahead.count()}};
}

NodeEnds ends_from(const nlohmann::json& value) {
  NodeEnds node;
  value.at("host").get_to(node.host);
  value.at("error").get_to(node.error);
  node.ahead = milliseconds(integer_of<std::int64_t>(value.at("ahead_ms")));
  for (const json& end : value.at("ends")) {
    node.ends.push_back(end_of(end));
    node.ends.back().host = node.host;
  }
  return node;
}

bool failed_by_itself(const RankEnd& end) { return !end.status.ok() && (end.asked == 0 || end.asked == SIGUSR1); }

std::optional<int> obeyed_notice_signal(std::span<const RankEnd> ends) {
  const auto obeyed = [](const RankEnd& end) { return end.asked == SIGUSR1 && end.note && end.note->is_early_end(); };
  if (std::none_of(ends.begin(), ends.end(), obeyed)) return std::nullopt;
  return SIGUSR1;
}

bool any_ended_early(std::span<const RankEnd> ends) {
  return std::any_of(ends.begin(), ends.end(), [](const RankEnd& end) { return end.note && end.note->is_early_end(); });
}

bool all_ended_well(const NodeEnds& node) {
  const auto ok = [](const RankEnd& end) { return end.status.ok(); };
  return node.error.empty() && std::all_of(node.ends.begin(), node.ends.end(), ok);
}

NodeReport report_of(const NodeEnds& node, int round, bool stopped) {
  NodeReport report{.round = round};
  report.fatal = !node.error.empty() || std::any_of(node.ends.begin(), node.ends.end(), is_users_mistake);
  report.failed = report.fatal || std::any_of(node.ends.begin(), node.ends.end(), failed_by_itself);
  if (!report.fatal && all_ended_well(node) && !stopped) report.stage = Stage::ended;
  return report;
}

std::string why_no_restart(std::span<const NodeEnds> nodes) {
  for (const NodeEnds& node : nodes) {
    const auto mistaken = std::find_if(node.ends.begin(), node.ends.end(), is_users_mistake);
    if (mistaken == node.ends.end()) continue;
    return fmt::format(
        ", because rank {} reports that its command line, configuration or environment is wrong (exit code 2), which "
        "another start would not change",
        mistaken->rank);
  }
  return "";
}

std::optional<Death> death_in(std::span<const NodeEnds> nodes) {
  const auto first = judge_all(nodes).first_failed;
  for (const NodeEnds& node : nodes) {
    for (const RankEnd& end : node.ends) {
      if (end.rank == first) return death_of(end);
    }
  }
  return std::nullopt;
}

bool is_repeated(std::span<const NodeEnds> nodes) {
  return std::any_of(nodes.begin(), nodes.end(), [](const NodeEnds& node) {
    return std::any_of(node.ends.begin(), node.ends.end(), [](const RankEnd& end) { return end.again; });
  });
}

RunOutcome judge_all(std::span<const NodeEnds> nodes) {
  std::vector<RankEnd> ends;
  std::string errors;
  for (const NodeEnds& node : nodes) {
    for (const RankEnd& end : node.ends) ends.push_back(put_right(end, node.ahead));
    if (!node.error.empty()) errors += fmt::format("lockstep run: {}: {}\n", node.host, node.error);
  }
  if (!errors.empty()) return {1, std::nullopt, errors};
  const auto by_itself = [](const RankEnd& end) { return failed_by_itself(end) || (!end.status.ok() && end.note); };
  if (std::none_of(ends.begin(), ends.end(), by_itself)) return {};
  std::sort(ends.begin(), ends.end(), [](const RankEnd& a, const RankEnd& b) { return a.rank < b.rank; });
  return judge(ends, std::nullopt);
}

}  // namespace lockstep::cluster::elastic

// The page's messages as JSON: whole views, changes, lines, answers; and a strict reader of the page's requests.
#include <lockstep/base/error.h>
#include <lockstep/base/json.h>
#include <lockstep/dashboard/job_json.h>

#include <cmath>
#include <nlohmann/json.hpp>

namespace lockstep::dashboard {
namespace {

using nlohmann::json;

constexpr int kProtocol = 1;

// Output of ranks may have bytes that are not UTF-8.
std::string print(const json& value) { return value.dump(-1, ' ', false, json::error_handler_t::replace); }

template <typename T>
json or_null(const std::optional<T>& value) {
  return value ? json(*value) : json(nullptr);
}

json or_null(const std::string& text) { return text.empty() ? json(nullptr) : json(text); }

/// Seconds and rates with few digits, because there are many of them.
json rounded(const std::optional<double>& value) {
  if (!value || !std::isfinite(*value)) return nullptr;
  return std::round(*value * 1000) / 1000;
}

const char* name(RankState state) {
  switch (state) {
    case RankState::starting: return "starting";
    case RankState::running: return "running";
    case RankState::lost: return "lost";
    case RankState::ended: return "ended";
    case RankState::failed: return "failed";
  }
  return "";
}

const char* state_of(const JobView& view) {
  if (view.end) return "ended";
  return view.generation == 0 ? "starting" : "running";
}

json job_of(const JobView& view) {
  const auto& job = view.job;
  return {{"name", job.name},
          {"program", job.program},
          {"started", job.started},
          {"now", rounded(view.now)},
          {"state", state_of(view)},
          {"exit_code", view.end ? or_null(view.end->exit_code) : json(nullptr)},
          {"end", view.end ? json(view.end->text) : json(nullptr)},
          {"hosts", job.hosts},
          {"world", job.world},
          {"can_kill", job.can_kill && !view.end},
          {"has_output", job.has_output},
          {"version", job.version},
          {"notes", job.notes}};
}

json progress_of(const JobProgress& progress) {
  return {{"step", or_null(progress.step)},
          {"steps", or_null(progress.steps)},
          {"epoch", or_null(progress.epoch)},
          {"samples_per_s", rounded(progress.samples_per_s)},
          {"seconds_left", rounded(progress.seconds_left)},
          {"stands", rounded(progress.stands)},
          {"why", or_null(progress.why)}};
}

json goodput_of(const JobView& view) {
  json goodput = {{"wall", rounded(view.now)}};
  const auto parts = parts_of(view.goodput, view.now);
  if (!parts) return goodput;
  json& named = goodput["parts"] = json::object();
  for (std::size_t i = 0; i < parts->size(); ++i) named[std::string(kTimeParts.at(i))] = rounded((*parts)[i]);
  goodput["ettr"] = rounded(effective_ratio(*parts));
  return goodput;
}

json row_of(const JobView& view, int number) {
  const auto& row = view.ranks.at(number).row;
  return {{"rank", number},
          {"host", row.host.empty() ? view.job.host : row.host},
          {"pid", row.pid},
          {"generation", row.generation},
          {"state", name(row.state)},
          {"step", or_null(row.step)},
          {"rate", rounded(row.rate)},
          {"waits", rounded(row.waits)},
          {"memory", or_null(row.memory)},
          {"straggler", or_null(row.straggler)},
          {"call", or_null(row.call)},
          {"activity", or_null(row.activity)}};
}

// A value that is not a number is null.
json points_of(const Points& points) {
  json list = json::array();
  for (const auto& [step, value] : points) list.push_back({step, std::isfinite(value) ? json(value) : json(nullptr)});
  return list;
}

json event_of(const Event& event) {
  return {{"id", event.id},
          {"at", rounded(event.at)},
          {"kind", event.kind},
          {"rank", or_null(event.rank)},
          {"text", event.text}};
}

json events_after(const JobView& view, std::int64_t last) {
  json list = json::array();
  for (const auto& event : view.events) {
    if (event.id > last) list.push_back(event_of(event));
  }
  return list;
}

json whole(const JobView& view) {
  json rows = json::array();
  json curves = json::object();
  for (const auto& [number, rank] : view.ranks) rows.push_back(row_of(view, number));
  for (const auto& [name, points] : view.curves) curves[name] = points_of(points);
  return {{"type", "job"},
          {"protocol", kProtocol},
          {"job", job_of(view)},
          {"progress", progress_of(view.progress)},
          {"goodput", goodput_of(view)},
          {"ranks", std::move(rows)},
          {"curves", std::move(curves)},
          {"events", events_after(view, 0)}};
}

[[noreturn]] void refuse(const std::string& why) { fail(ErrorKind::data, "message", "a request of a page {}", why); }

PageRequest read_request(const json& value) {
  if (!value.is_object() || value.size() != 2) refuse("must have a type and a rank, and nothing else");
  const auto& type = value.at("type").get_ref<const std::string&>();
  const auto& rank = value.at("rank");
  PageRequest request;
  if (type == "kill") {
    request.kind = PageRequest::Kind::kill;
  } else if (type != "lines") {
    refuse("has an unknown type");
  }
  if (rank.is_null() && request.kind == PageRequest::Kind::lines) return request;
  request.rank = integer_of<int>(rank);
  return request;
}

}  // namespace

std::string whole_json(const JobView& view) { return print(whole(view)); }

std::string ended_json(const JobView& view) {
  json all = whole(view);
  json& lines = all["lines"] = json::object();
  for (const auto& [number, rank] : view.ranks) lines[std::to_string(number)] = rank.lines;
  return print(all);
}

std::string changes_json(const JobView& view, const Changes& changes) {
  json update = {{"type", "update"},
                 {"job", job_of(view)},
                 {"progress", progress_of(view.progress)},
                 {"goodput", goodput_of(view)}};
  for (const int number : changes.rows) update["ranks"].push_back(row_of(view, number));
  for (const auto& [name, points] : changes.points) update["curves"][name] = points_of(points);
  if (view.events_so_far > changes.events_before) update["events"] = events_after(view, changes.events_before);
  return print(update);
}

std::string lines_json(const JobView& view, int rank) {
  const auto found = view.ranks.find(rank);
  const auto lines = found == view.ranks.end() ? std::vector<std::string>() : found->second.lines;
  return print({{"type", "lines"}, {"rank", rank}, {"lines", lines}});
}

std::string answer_json(int rank, bool ok, const std::string& text) {
  return print({{"type", "answer"}, {"to", "kill"}, {"rank", rank}, {"ok", ok}, {"text", text}});
}

PageRequest parse_request(const std::string& text) {
  constexpr std::size_t kDeepest = 2;
  if (text.size() > kLongestRequest) refuse(fmt::format("is longer than {} bytes", kLongestRequest));
  const auto parsed = parse_strict_json(text, kDeepest);
  if (const auto* mistake = std::get_if<std::string>(&parsed)) refuse(*mistake);
  try {
    return read_request(std::get<json>(parsed));
  } catch (const json::exception& error) {
    refuse("cannot be used: " + json_mistake(error));
  }
}

}  // namespace lockstep::dashboard

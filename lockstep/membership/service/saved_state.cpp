// A job's membership as JSON.
#include <lockstep/base/error.h>
#include <lockstep/base/json.h>
#include <lockstep/membership/decisions.h>
#include <lockstep/membership/messages.h>
#include <lockstep/membership/service/saved_state.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <set>
#include <utility>

namespace lockstep::membership {
namespace {

using nlohmann::json;

constexpr int kFormat = 1;

const char* text_of(Phase phase) {
  switch (phase) {
    case Phase::waiting: return "waiting";
    case Phase::running: return "running";
    case Phase::finished: return "finished";
    case Phase::failed: return "failed";
  }
  return "?";
}

Phase phase_of(const std::string& text) {
  for (const Phase phase : {Phase::waiting, Phase::running, Phase::finished, Phase::failed}) {
    if (text == text_of(phase)) return phase;
  }
  fail(ErrorKind::data, "state", "'{}' is no phase of a worker", text);
}

template <typename T>
json or_null(const std::optional<T>& value) {
  return value ? json(*value) : json(nullptr);
}

template <typename Int>
std::optional<Int> maybe(const json& value) {
  return value.is_null() ? std::nullopt : std::optional<Int>(integer_of<Int>(value));
}

json print_member(const Member& member) {
  return {{"node_id", member.node_id},
          {"named", member.named},
          {"life", member.life},
          {"host", member.host},
          {"machine", member.machine},
          {"address", member.address},
          {"pid", member.pid},
          {"server", member.server},
          {"rank", or_null(member.rank)},
          {"generation", member.generation},
          {"restarts", member.restarts},
          {"phase", text_of(member.phase)},
          {"connected", member.link != Link::closed},
          {"step", or_null(member.step)},
          {"last_error", member.last_error}};
}

Member read_member(const json& saved, Time now) {
  Member member;
  member.node_id = saved.at("node_id").get<std::string>();
  member.named = saved.at("named").get<bool>();
  member.life = saved.at("life").get<std::string>();
  member.host = saved.at("host").get<std::string>();
  member.machine = saved.at("machine").get<std::string>();
  member.address = saved.at("address").get<std::string>();
  member.pid = integer_of<std::int64_t>(saved.at("pid"));
  member.server = saved.value("server", false);
  member.rank = maybe<int>(saved.at("rank"));
  member.generation = integer_of<std::int64_t>(saved.at("generation"));
  member.restarts = integer_of<int>(saved.at("restarts"));
  member.phase = phase_of(saved.at("phase").get<std::string>());
  member.link = saved.at("connected").get<bool>() ? Link::unknown : Link::closed;
  member.heard = now;
  member.step = maybe<std::int64_t>(saved.at("step"));
  member.last_error = saved.at("last_error").get<std::string>();
  return member;
}

void check(const Membership& membership) {
  if (static_cast<int>(membership.members.size()) > membership.wanted)
    fail(ErrorKind::data, "state", "it has too many workers");
  std::set<int> ranks;
  std::set<std::string> ids;
  for (const Member& member : membership.members) {
    if (!ids.insert(member.node_id).second) fail(ErrorKind::data, "state", "a node id occurs twice");
    if (!member.rank) continue;
    if (*member.rank < 0 || *member.rank >= membership.wanted || !ranks.insert(*member.rank).second) {
      fail(ErrorKind::data, "state", "the ranks are not those of {} workers", membership.wanted);
    }
  }
}

}  // namespace

std::string print_state(const Membership& membership) {
  json members = json::array();
  for (const Member& member : membership.members) members.push_back(print_member(member));
  const json state = {{"format", kFormat},
                      {"job", membership.job},
                      {"worker_num", membership.wanted - membership.servers},
                      {"server_num", membership.servers},
                      {"generation", membership.generation},
                      {"saved_generation", membership.saved_generation},
                      {"store_key", membership.store_key},
                      {"store_host", membership.store_host},
                      {"store_port", membership.store_port},
                      {"last_error", membership.last_error},
                      {"workers", std::move(members)}};
  return state.dump(2, ' ', false, json::error_handler_t::replace) + "\n";
}

void read_state(std::string_view text, Membership& membership, Time now) {
  try {
    const json state = json::parse(text);
    if (state.at("format") != kFormat) fail(ErrorKind::data, "state", "it was written by another version of Lockstep");
    const int wanted = integer_of<int>(state.at("worker_num"));
    if (wanted != membership.wanted - membership.servers) {
      fail(ErrorKind::data, "state", "it belongs to a job with {} workers, and this job has {} (MS_WORKER_NUM)", wanted,
           membership.wanted - membership.servers);
    }
    Membership read = membership;
    read.servers = state.contains("server_num") ? integer_of<int>(state.at("server_num")) : 0;
    if (read.servers < 0 || read.servers > kMostWorkers) {
      fail(ErrorKind::data, "state", "it belongs to a job with {} parameter servers", read.servers);
    }
    read.wanted = wanted + read.servers;
    read.job = state.at("job").get<std::string>();
    read.generation = integer_of<std::int64_t>(state.at("generation"));
    read.saved_generation =
        state.contains("saved_generation") ? integer_of<std::int64_t>(state.at("saved_generation")) : read.generation;
    read.store_key = state.at("store_key").get<std::string>();
    read.store_host = state.at("store_host").get<std::string>();
    read.store_port = integer_of<int>(state.at("store_port"));
    read.last_error = state.at("last_error").get<std::string>();
    read.members.clear();
    for (const json& member : state.at("workers")) read.members.push_back(read_member(member, now));
    read.changed = now;
    // The others of its generation may hang, and then nothing else would show that.
    const auto is_out = [](const Member& member) {
      return member.phase == Phase::waiting || member.phase == Phase::failed;
    };
    const auto is_lost = [](const Member& member) {
      return member.phase == Phase::running && member.link == Link::closed;
    };
    const auto has = [&](auto condition) {
      return read.generation > 0 && std::any_of(read.members.begin(), read.members.end(), condition);
    };
    if (has(is_lost)) read.broken = now;
    if (has(is_out)) note_over(read, now);
    check(read);
    membership = std::move(read);
  } catch (const json::exception& error) {
    fail(ErrorKind::data, "state", "it is not the state of a scheduler: {}", json_mistake(error));
  }
}

}  // namespace lockstep::membership

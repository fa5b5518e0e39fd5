#include <lockstep/comm/rank_info.h>

#include <lockstep/base/environment.h>
#include <lockstep/base/error.h>
#include <lockstep/base/this_host.h>

#include <fmt/format.h>
#include <unistd.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <cstdlib>
#include <fstream>
#include <sstream>

namespace lockstep::detail {
namespace {

using nlohmann::json;

std::string given_host_id() { return find(current_environment(), "LOCKSTEP_HOST_ID").value_or(""); }

std::string namespace_of(const char* file) { return namespace_id(file).value_or("none"); }

/// What ranks of one host share.
json place_of(const RankInfo& info) { return {info.host, info.host_identity, info.pid_namespace, info.address}; }

/// What is each rank's own; `place` is an index.
json person_of(const RankInfo& info, std::size_t place) { return {place, info.pid, info.started_ticks}; }

RankInfo rank_info_of(int rank, const json& place, const json& person) {
  RankInfo info;
  info.rank = rank;
  info.host = place.at(0).get<std::string>();
  info.host_identity = place.at(1).get<std::string>();
  info.pid_namespace = place.at(2).get<std::string>();
  info.address = place.at(3).get<std::string>();
  info.pid = person.at(1).get<std::int64_t>();
  info.started_ticks = person.at(2).get<std::uint64_t>();
  return info;
}

template <typename Read>
auto parsed(const std::string& text, const Read& read) {
  try {
    return read(json::parse(text));
  } catch (const json::exception& error) {
    fail(ErrorKind::invalid_argument, "connect", "the store holds no list of ranks of this version of Lockstep: {}",
         error.what());
  }
}

}  // namespace

std::string describe(const RankInfo& info) {
  return fmt::format("rank {} (pid {} on {})", info.rank, info.pid, info.host);
}

std::uint64_t started_ticks(std::int64_t pid) {
  std::string line;
  std::getline(std::ifstream(fmt::format("/proc/{}/stat", pid)), line);
  // The second field is the program's name in parentheses and may itself hold any character; the 22nd is the start.
  const auto name_end = line.rfind(')');
  if (name_end == std::string::npos) return 0;
  std::istringstream fields(line.substr(name_end + 1));
  std::string field;
  for (int i = 3; i <= 22; ++i) fields >> field;
  return std::strtoull(field.c_str(), nullptr, 10);
}

std::string host_identity() {
  if (auto given = given_host_id(); !given.empty()) return given;
  return boot_id() + "/" + namespace_of("/proc/self/ns/net") + "/" + namespace_of("/proc/self/ns/user");
}

RankInfo this_rank(const World& world, const std::string& address) {
  RankInfo info;
  info.rank = world.rank;
  info.host = world.host.empty() ? host_name().value_or("?") : world.host;
  info.host_identity = host_identity();
  info.pid = ::getpid();
  // Behind a given identity this is to look like another machine in everything.
  info.pid_namespace = boot_id() + "/" + namespace_of("/proc/self/ns/pid") + "/" + given_host_id();
  info.started_ticks = started_ticks(info.pid);
  info.address = address;
  return info;
}

std::string encode(const RankInfo& info) {
  return json{{"rank", info.rank}, {"place", place_of(info)}, {"person", person_of(info, 0)}}.dump();
}

RankInfo decode_rank_info(const std::string& text) {
  return parsed(
      text, [](const json& one) { return rank_info_of(one.at("rank").get<int>(), one.at("place"), one.at("person")); });
}

std::string encode(const std::vector<RankInfo>& ranks) {
  auto places = json::array();
  auto people = json::array();
  for (const RankInfo& info : ranks) {
    const auto known = std::find(places.begin(), places.end(), place_of(info)) - places.begin();
    const auto index = static_cast<std::size_t>(known);
    if (index == places.size()) places.push_back(place_of(info));
    people.push_back(person_of(info, index));
  }
  return json{{"places", places}, {"people", people}}.dump();
}

std::vector<RankInfo> decode_ranks(const std::string& text) {
  return parsed(text, [](const json& all) {
    std::vector<RankInfo> ranks;
    const json& places = all.at("places");
    for (const json& person : all.at("people")) {
      ranks.push_back(rank_info_of(static_cast<int>(ranks.size()), places.at(person.at(0).get<std::size_t>()), person));
    }
    return ranks;
  });
}

}  // namespace lockstep::detail

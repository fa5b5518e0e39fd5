// The identity of a rank and process, and the JSON text of a list of ranks, which holds each host's data once.
#include <lockstep/comm/meet/rendezvous.h>

#include <lockstep/base/error.h>
#include <lockstep/base/this_host.h>

#include <fmt/format.h>
#include <unistd.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <charconv>
#include <cstdlib>
#include <fstream>
#include <random>
#include <sstream>
#include <string_view>

namespace lockstep::detail {
namespace {

using nlohmann::json;

std::uint64_t random_number() {
  std::random_device random;
  return static_cast<std::uint64_t>(random()) << 32U | random();
}

/// The values that ranks of one host share.
json place_of(const RankInfo& info) {
  return {info.host, info.host_identity, info.pid_namespace, info.address, info.address_chosen_by};
}

RankInfo info_at(const json& place) {
  RankInfo info;
  info.host = place.at(0).get<std::string>();
  info.host_identity = place.at(1).get<std::string>();
  info.pid_namespace = place.at(2).get<std::string>();
  info.address = place.at(3).get<std::string>();
  info.address_chosen_by = place.at(4).get<std::string>();
  return info;
}

[[noreturn]] void refuse(const char* why) {
  fail(ErrorKind::invalid_argument, "connect", "the store holds no list of ranks of this version of Lockstep: {}", why);
}

// Numbers in a text, each with a leading space.
class Numbers {
 public:
  explicit Numbers(std::string_view text) : text_(text) {}

  bool done() const { return text_.empty(); }

  template <typename Number>
  Number take() {
    Number number{};
    if (text_.empty() || text_.front() != ' ') refuse("a number is missing");
    const auto [end, error] = std::from_chars(text_.data() + 1, text_.data() + text_.size(), number);
    if (error != std::errc()) refuse("a field is not a number");
    text_.remove_prefix(static_cast<std::size_t>(end - text_.data()));
    return number;
  }

 private:
  std::string_view text_;
};

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

RankInfo this_rank(const World& world, const std::string& address) {
  RankInfo info;
  info.rank = world.rank;
  info.host = world.host.empty() ? host_name().value_or("?") : world.host;
  info.host_identity = host_identity();
  info.pid = ::getpid();
  // With a given host identity, all values must look like those of another machine.
  info.pid_namespace =
      boot_id() + "/" + namespace_id("/proc/self/ns/pid").value_or("none") + "/" + given_host_identity();
  info.started_ticks = started_ticks(info.pid);
  info.address = address;
  info.encrypts = world.tls != nullptr;
  info.hello = random_number();
  return info;
}

std::string encode(const std::vector<RankInfo>& ranks) {
  auto places = json::array();
  std::string people;
  for (const RankInfo& info : ranks) {
    const auto place = std::find(places.begin(), places.end(), place_of(info)) - places.begin();
    if (static_cast<std::size_t>(place) == places.size()) places.push_back(place_of(info));
    people += fmt::format(" {} {} {} {} {} {}", info.rank, place, info.pid, info.started_ticks, info.encrypts ? 1 : 0,
                          info.hello);
  }
  return json{{"places", places}, {"people", people}}.dump();
}

std::vector<RankInfo> decode_ranks(const std::string& text) try {
  const auto all = json::parse(text);
  std::vector<RankInfo> places;
  for (const json& place : all.at("places")) places.push_back(info_at(place));
  std::vector<RankInfo> ranks;
  for (Numbers people(all.at("people").get_ref<const std::string&>()); !people.done();) {
    const int rank = people.take<int>();
    const auto place = people.take<std::size_t>();
    if (place >= places.size()) refuse("the host of a rank is missing");
    RankInfo& info = ranks.emplace_back(places[place]);
    info.rank = rank;
    info.pid = people.take<std::int64_t>();
    info.started_ticks = people.take<std::uint64_t>();
    info.encrypts = people.take<int>() != 0;
    info.hello = people.take<std::uint64_t>();
  }
  return ranks;
} catch (const json::exception& error) {
  refuse(error.what());
}

}  // namespace lockstep::detail

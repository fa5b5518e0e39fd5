// The variables that several launcher detections read: rank and size, and the rendezvous.
#include <lockstep/base/error.h>
#include <lockstep/base/shown_text.h>
#include <lockstep/base/text.h>
#include <lockstep/world/launcher_variables.h>

#include <fmt/format.h>

#include <cctype>
#include <limits>
#include <string_view>

namespace lockstep::detail {
namespace {

constexpr std::int64_t kMostRanks = std::numeric_limits<int>::max();

std::optional<int> find_int(const Environment& environment, std::string_view name, int low) {
  const auto value = find_integer(environment, name, low, kMostRanks);
  if (!value) return std::nullopt;
  return static_cast<int>(*value);
}

}  // namespace

std::optional<World> read_rank_and_size(const Environment& environment, const RankVariables& names) {
  const auto rank = find_int(environment, names.rank, 0);
  const auto size = find_int(environment, names.size, 1);
  if (!rank && !size) return std::nullopt;
  if (!rank || !size) {
    fail(ErrorKind::environment, "world", "{} is set but {} is not; set both, or unset {}",
         rank ? names.rank : names.size, rank ? names.size : names.rank, rank ? names.rank : names.size);
  }
  if (*rank >= *size) {
    fail(ErrorKind::environment, "world", "{}={} is not below {}={}; ranks count from 0 to {}", names.rank, *rank,
         names.size, *size, *size - 1);
  }
  World world;
  world.rank = *rank;
  world.size = *size;
  world.evidence = fmt::format("{}={} {}={}", names.rank, *rank, names.size, *size);
  return world;
}

bool read_local(const Environment& environment, const RankVariables& names, World& world) {
  const auto rank = find_int(environment, names.local_rank, 0);
  const auto size = find_int(environment, names.local_size, 1);
  if (!rank || !size) return false;
  if (*rank >= *size) {
    fail(ErrorKind::environment, "world", "{}={} is not below {}={}; local ranks count from 0 to {}", names.local_rank,
         *rank, names.local_size, *size, *size - 1);
  }
  if (*size > world.size) {
    fail(ErrorKind::environment, "world", "{}={} is above {}={}; one host cannot hold more ranks than there are",
         names.local_size, *size, names.size, world.size);
  }
  world.local_rank = *rank;
  world.local_size = *size;
  return true;
}

void add_evidence(World& world, std::string_view name, std::string_view value) {
  world.evidence += fmt::format(" {}={}", name, value);
}

void add_master(World& world) { add_evidence(world, "master", host_and_port(world.master_addr, world.master_port)); }

namespace {

constexpr std::string_view kVariable = "LOCKSTEP_INIT_METHOD";
constexpr auto kOwnStore = "LOCKSTEP_STORE";
constexpr std::string_view kEnvironment = "env://";
constexpr std::string_view kTcp = "tcp://";
constexpr std::string_view kFile = "file://";
constexpr std::string_view kRank = "rank";
constexpr std::string_view kSize = "world_size";
constexpr std::int64_t kHighestPort = 65535;

std::string without_brackets(std::string_view host) {
  if (host.size() > 2 && host.front() == '[' && host.back() == ']') host = host.substr(1, host.size() - 2);
  return std::string(host);
}

[[noreturn]] void fail_method(const std::string& method, std::string_view rule) {
  fail(ErrorKind::environment, "world",
       "{}='{}' {}; it must be env://, tcp://HOST:PORT or file:///PATH, with ?rank=R&world_size=N or without",
       kVariable, cut_text(method), rule);
}

std::string_view place_of(std::string_view method) { return method.substr(0, method.find('?')); }

std::string find_method(const Environment& environment) { return find(environment, kVariable).value_or("env://"); }

void meet_by_tcp(const std::string& method, World& world) {
  const auto place = parse_host_and_port(place_of(method).substr(kTcp.size()));
  if (!place || place->port.value_or(0) == 0) {
    fail_method(method, "has no host and port from 1 to 65535 (an IPv6 address in brackets)");
  }
  world.rendezvous = Rendezvous::tcp;
  world.master_addr = place->host;
  world.master_port = *place->port;
}

void meet_by_file(const std::string& method, World& world) {
  const std::string path(place_of(method).substr(kFile.size()));
  if (path.size() < 2 || path.front() != '/') fail_method(method, "names no absolute path");
  world.rendezvous = Rendezvous::file;
  world.store_path = path;
}

}  // namespace

std::string note_of_service(const Environment& environment, std::string_view name) {
  const auto found = environment.find(name);
  if (found == environment.end() || find(environment, name)) return "";
  std::string service(name.substr(0, name.size() - std::string_view("_PORT").size()));
  for (char& c : service) c = c == '_' ? '-' : static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  return fmt::format(" ({}={} is Kubernetes' own, of a Service named '{}', and is ignored)", name, found->second,
                     service);
}

std::uint16_t port_of_job(std::string_view job) {
  constexpr std::uint32_t kLowest = 20480;
  constexpr std::uint32_t kPorts = 8192;
  std::uint32_t hash = 2166136261U;  // FNV-1a
  for (const char c : job) hash = (hash ^ static_cast<unsigned char>(c)) * 16777619U;
  return static_cast<std::uint16_t>(kLowest + hash % kPorts);
}

std::optional<std::string> find_master_addr(const Environment& environment) {
  const auto address = find(environment, "MASTER_ADDR");
  if (!address || address->empty()) return std::nullopt;
  return without_brackets(*address);
}

std::optional<std::uint16_t> find_master_port(const Environment& environment) {
  const auto port = find_integer(environment, "MASTER_PORT", 1, kHighestPort);
  if (!port) return std::nullopt;
  return static_cast<std::uint16_t>(*port);
}

void meet_at_own_store(const Environment& environment, World& world) {
  const auto text = find(environment, kOwnStore).value_or("");
  if (text.empty()) return;
  const auto place = parse_host_and_port(text);
  if (!place || place->port.value_or(0) == 0) {
    fail(ErrorKind::environment, "world",
         "{}='{}' must be HOST:PORT, with a port from 1 to 65535; launchers set it, so leave it out", kOwnStore,
         cut_text(text));
  }
  world.master_addr = place->host;
  world.master_port = *place->port;
  world.store_is_own = true;
  add_evidence(world, kOwnStore, cut_text(text));
}

bool has_init_method(const Environment& environment) { return find_method(environment) != kEnvironment; }

std::optional<World> rank_of_init_method(const Environment& environment) {
  const std::string method = find_method(environment);
  const auto mark = method.find('?');
  if (mark == std::string::npos) return std::nullopt;
  const auto refuse = [&](std::string_view rule) { fail_method(method, rule); };
  Environment query;
  for (std::string_view rest = std::string_view(method).substr(mark + 1);;) {
    const auto setting = rest.substr(0, rest.find('&'));
    const auto equals = setting.find('=');
    const auto key = setting.substr(0, equals);
    const bool known = equals != std::string_view::npos && (key == kRank || key == kSize);
    if (!known || !query.emplace(key, setting.substr(equals + 1)).second) refuse("has a query of another form");
    if (setting.size() == rest.size()) break;
    rest.remove_prefix(setting.size() + 1);
  }
  if (query.size() != 2) refuse("has only one of rank and world_size");
  for (const auto name : {"RANK", "WORLD_SIZE"}) {
    if (find(environment, name)) refuse(fmt::format("gives the rank, and {} does too: leave one out", name));
  }
  return read_rank_and_size(query, {kRank, kSize, "", ""});
}

bool meet_by_init_method(const Environment& environment, World& world) {
  const std::string method = find_method(environment);
  const auto said = rank_of_init_method(environment);
  if (said && (said->rank != world.rank || said->size != world.size)) {
    fail_method(method, fmt::format("contradicts {}", world.evidence));
  }
  const auto place = place_of(method);
  if (place == kEnvironment) return false;
  if (place.starts_with(kTcp)) {
    meet_by_tcp(method, world);
  } else if (place.starts_with(kFile)) {
    meet_by_file(method, world);
  } else {
    fail_method(method, "has an unknown scheme");
  }
  add_evidence(world, kVariable, method);
  return true;
}

}  // namespace lockstep::detail

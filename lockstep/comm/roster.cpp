#include <lockstep/comm/roster.h>

#include <lockstep/base/environment.h>
#include <lockstep/base/error.h>

#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <cstdlib>
#include <fstream>
#include <sstream>
#include <thread>

namespace lockstep::detail {
namespace {

using Clock = std::chrono::steady_clock;

constexpr auto kRosterKey = "roster";
constexpr auto kReadersKey = "roster_readers";

std::string boot_id() {
  std::string id;
  std::getline(std::ifstream("/proc/sys/kernel/random/boot_id"), id);
  return id;
}

// The inode of a namespace file is the namespace's identity.
std::string namespace_id(const char* file) {
  struct stat info {};
  return ::stat(file, &info) == 0 ? std::to_string(info.st_ino) : "none";
}

std::string given_host_id() { return find(current_environment(), "LOCKSTEP_HOST_ID").value_or(""); }

std::string host_name() {
  std::string name(256, '\0');
  if (::gethostname(name.data(), name.size() - 1) != 0) return "?";
  name.resize(name.find('\0'));
  return name;
}

std::string presence_key(int rank) { return fmt::format("presence/{}", rank); }

// Polls, because a TCPStore of libtorch 1.13 cannot take back a wait that timed out: the late answer would be read as
// that of the next request.
bool appears(c10d::Store& store, const std::string& key, Clock::time_point deadline) {
  auto pause = std::chrono::milliseconds(2);
  while (!store.check({key})) {
    if (Clock::now() >= deadline) return false;
    std::this_thread::sleep_for(pause);
    pause = std::min(pause * 2, std::chrono::milliseconds(100));
  }
  return true;
}

std::vector<int> find_missing(c10d::Store& store, int size) {
  std::vector<int> missing;
  for (int rank = 0; rank < size; ++rank) {
    if (!store.check({presence_key(rank)})) missing.push_back(rank);
  }
  return missing;
}

[[noreturn]] void fail_missing(const std::vector<int>& missing, int size, std::chrono::milliseconds timeout) {
  fail(ErrorKind::timeout, "connect",
       "{} of {} ranks did not come within {:.1f} s: rank {}. Look into their logs, check that all were started with "
       "the same master address and world size, or raise LOCKSTEP_START_TIMEOUT_S",
       missing.size(), size, static_cast<double>(timeout.count()) / 1000, fmt::join(missing, ", "));
}

nlohmann::json to_json(const RankInfo& info) {
  return {{"rank", info.rank},      {"host", info.host},          {"host_identity", info.host_identity},
          {"pid", info.pid},        {"pids", info.pid_namespace}, {"ticks", info.started_ticks},
          {"address", info.address}};
}

RankInfo from_json(const nlohmann::json& json) {
  RankInfo info;
  info.rank = json.at("rank").get<int>();
  info.host = json.at("host").get<std::string>();
  info.host_identity = json.at("host_identity").get<std::string>();
  info.pid = json.at("pid").get<std::int64_t>();
  info.pid_namespace = json.at("pids").get<std::string>();
  info.started_ticks = json.at("ticks").get<std::uint64_t>();
  info.address = json.at("address").get<std::string>();
  return info;
}

// Rank 0 collects all and publishes them, so that the number of requests grows linearly with that of ranks; or it
// publishes who is missing, and stays a moment for the others to read it, as the store may live in its process.
void publish_roster(c10d::Store& store, int size, Clock::time_point deadline) {
  auto all = nlohmann::json::array();
  for (int rank = 0; rank < size; ++rank) {
    if (!appears(store, presence_key(rank), deadline)) break;
    all.push_back(nlohmann::json::parse(to_text(store.get(presence_key(rank)))));
  }
  if (all.size() == static_cast<std::size_t>(size)) {
    store.set(kRosterKey, to_bytes(all.dump()));
    return;
  }
  const auto missing = find_missing(store, size);
  store.set(kRosterKey, to_bytes(nlohmann::json{{"missing", missing}}.dump()));
  const auto readers = size - static_cast<std::int64_t>(missing.size()) - 1;
  const auto patience = Clock::now() + std::chrono::seconds(2);
  while (store.add(kReadersKey, 0) < readers && Clock::now() < patience) {
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  }
}

std::vector<RankInfo> read_roster(c10d::Store& store, const RankInfo& self, int size,
                                  std::chrono::milliseconds timeout) {
  const auto json = nlohmann::json::parse(to_text(store.get(kRosterKey)));
  if (json.is_object()) {
    if (self.rank != 0) store.add(kReadersKey, 1);
    fail_missing(json.at("missing").get<std::vector<int>>(), size, timeout);
  }
  std::vector<RankInfo> all;
  for (const auto& one : json) all.push_back(from_json(one));
  return all;
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
  return boot_id() + "/" + namespace_id("/proc/self/ns/net") + "/" + namespace_id("/proc/self/ns/user");
}

RankInfo this_rank(const World& world, const std::string& address) {
  RankInfo info;
  info.rank = world.rank;
  info.host = world.host.empty() ? host_name() : world.host;
  info.host_identity = host_identity();
  info.pid = ::getpid();
  // Behind a given identity this is to look like another machine in everything.
  info.pid_namespace = boot_id() + "/" + namespace_id("/proc/self/ns/pid") + "/" + given_host_id();
  info.started_ticks = started_ticks(info.pid);
  info.address = address;
  return info;
}

std::string encode(const RankInfo& info) { return to_json(info).dump(); }

RankInfo decode_rank_info(const std::string& text) { return from_json(nlohmann::json::parse(text)); }

std::vector<RankInfo> meet(c10d::Store& store, const RankInfo& self, int size, std::chrono::milliseconds timeout) {
  const auto deadline = Clock::now() + timeout;
  try {
    store.set(presence_key(self.rank), to_bytes(encode(self)));
    // Answered at once by a real store. It also limits how long the requests below wait for an answer.
    store.wait({presence_key(self.rank)}, timeout);
    if (self.rank == 0) publish_roster(store, size, deadline);
    // A moment more than rank 0 has, which finds out at its own deadline who is missing.
    if (!appears(store, kRosterKey, deadline + std::chrono::seconds(1))) {
      fail_missing(find_missing(store, size), size, timeout);
    }
    return read_roster(store, self, size, timeout);
  } catch (const Error&) {
    throw;
  } catch (const std::exception& error) {
    const std::string text = error.what();
    fail(ErrorKind::peer_lost, "connect", "the store broke off while {} ranks met there; rank 0 may have ended: {}",
         size, text.substr(0, text.find('\n')));
  }
}

}  // namespace lockstep::detail

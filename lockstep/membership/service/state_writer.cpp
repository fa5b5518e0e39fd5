// A job's membership as JSON, states in files, and a thread that saves the newest state.
#include <lockstep/base/error.h>
#include <lockstep/base/files.h>
#include <lockstep/base/json.h>
#include <lockstep/base/log.h>
#include <lockstep/membership/decisions.h>
#include <lockstep/membership/messages.h>
#include <lockstep/membership/service/state_writer.h>

#include <nlohmann/json.hpp>

#include <algorithm>
#include <cerrno>
#include <set>
#include <system_error>
#include <utility>

namespace lockstep::membership {
namespace {

std::optional<std::string> read_if_there(const std::filesystem::path& file) {
  errno = 0;
  auto text = read_file(file);
  if (text || errno == ENOENT) return text;
  fail(ErrorKind::io, "scheduler", "cannot read the job's state from {}: {}", file.string(),
       std::generic_category().message(errno));
}

constexpr auto kTryAgain = std::chrono::seconds(1);

}  // namespace

StatePlace state_in_file(const std::filesystem::path& file) {
  std::error_code failed;
  std::filesystem::create_directories(file.parent_path(), failed);
  if (failed) {
    fail(ErrorKind::io, "scheduler", "cannot make the folder {} for the job's state (MS_RECOVERY_PATH): {}",
         file.parent_path().string(), failed.message());
  }
  return {file.string(), [file] { return read_if_there(file); },
          [file](const std::string& text) {
            write_file_atomically(file, text);
            return true;
          }};
}

StateWriter::StateWriter(StatePlace place, std::function<void(bool)> on_end)
    : place_(std::move(place)),
      on_end_(std::move(on_end)),
      thread_([this](const std::stop_token& stop) { work(stop); }) {}

StateWriter::~StateWriter() = default;

void StateWriter::put(std::string text) {
  const std::lock_guard lock(mutex_);
  waiting_ = std::move(text);
  ++put_;
  changed_.notify_all();
}

void StateWriter::drop() {
  const std::lock_guard lock(mutex_);
  waiting_.reset();
}

bool StateWriter::wait_for(std::chrono::milliseconds limit) {
  std::unique_lock lock(mutex_);
  return changed_.wait_for(lock, limit, [this] { return saved_ == put_; });
}

void StateWriter::work(const std::stop_token& stop) {
  std::unique_lock lock(mutex_);
  for (;;) {
    changed_.wait(lock, stop, [this] { return waiting_.has_value(); });
    if (!waiting_) return;
    const std::string text = *std::exchange(waiting_, std::nullopt);
    const auto number = put_;
    lock.unlock();
    const auto outcome = save(text);
    if (on_end_ && outcome != Outcome::failed) on_end_(outcome == Outcome::saved);
    lock.lock();
    if (outcome == Outcome::place_lost) return;
    if (outcome == Outcome::saved) {
      saved_ = number;
      changed_.notify_all();
    } else {
      if (stop.stop_requested()) return;
      changed_.wait_for(lock, stop, kTryAgain, [] { return false; });
      if (!waiting_) waiting_ = text;
    }
  }
}

StateWriter::Outcome StateWriter::save(const std::string& text) {
  try {
    if (!place_.save(text)) return Outcome::place_lost;
  } catch (const std::exception& error) {
    if (!std::exchange(failing_, true)) {
      log_error(
          "the state of the job is not saved, and saving is tried again every second; until it succeeds, a restarted "
          "scheduler would not have all of the state: {}",
          error.what());
    }
    return Outcome::failed;
  }
  if (std::exchange(failing_, false)) log_info("the state of the job is saved again, in {}", place_.name);
  return Outcome::saved;
}

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

// The state of a service, from which another service continues: as text, its storage (a file, etcd), and the thread
// that writes to it.
#pragma once

#include <lockstep/membership/membership.h>

#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <mutex>
#include <optional>
#include <stop_token>
#include <string>
#include <string_view>
#include <thread>

namespace lockstep::membership {

/// The storage of a state: any pair of functions that load and save a text.
struct StatePlace {
  std::string name;  ///< for messages
  /// Returns nullopt when nothing was ever saved. Throws an Error when that is unknown.
  std::function<std::optional<std::string>()> load;
  /// Saves all or nothing. False: another service has the place now, for good. Throws an Error where a later attempt
  /// may succeed.
  std::function<bool(const std::string&)> save;
};

/// State in a file. Makes the file's folder at once. Error(io) when that fails; `load` and `save` throw the same.
StatePlace state_in_file(const std::filesystem::path& file);

/// The writer of a state. It saves on its own thread, so that a slow or unreachable disk or etcd does not delay the
/// service. It saves only the newest waiting text. After a failure it retries every second, and logs the begin and
/// the end of the failures. Nothing throws: a failure to save must not end the job.
class StateWriter {
 public:
  /// `on_end` is called on the writer's thread after each text: true when it is saved, false when the place is lost.
  explicit StateWriter(StatePlace place, std::function<void(bool)> on_end = {});
  StateWriter(const StateWriter&) = delete;
  StateWriter& operator=(const StateWriter&) = delete;
  /// Tries to save a waiting text once more.
  ~StateWriter();

  void put(std::string text);

  /// Forgets a text that waits.
  void drop();

  /// Waits until all texts are saved, at most for `limit`; returns whether they are.
  bool wait_for(std::chrono::milliseconds limit);

 private:
  enum class Outcome { saved, failed, place_lost };

  void work(const std::stop_token& stop);
  Outcome save(const std::string& text);

  StatePlace place_;
  std::function<void(bool)> on_end_;
  std::mutex mutex_;
  std::condition_variable_any changed_;
  std::optional<std::string> waiting_;
  std::uint64_t put_ = 0;
  std::uint64_t saved_ = 0;
  bool failing_ = false;  ///< used only by the thread
  std::jthread thread_;   ///< last, because it uses all members above
};

/// The text form of a membership.
std::string print_state(const Membership& membership);

/// Fills in the state that `print_state` wrote, except the time limits. No member is connected: members that were
/// connected are expected to reconnect. Error(data) when the text is not a state, or is the state of another number of
/// workers.
void read_state(std::string_view text, Membership& membership, Time now);

}  // namespace lockstep::membership

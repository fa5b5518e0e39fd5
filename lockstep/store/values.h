// The keys and values of a store, and the requests that wait for keys. Contains the logic only, without network I/O.
#pragma once

#include <lockstep/store/protocol.h>

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

namespace lockstep::store {

struct Answer {
  std::uint64_t connection = 0;
  std::string message;
};

class Values {
 public:
  /// Executes a request. Returns its own answer, if it has one now, and the answers to requests that waited for a key
  /// that it set. BadMessage for an invalid request.
  std::vector<Answer> request(std::uint64_t connection, std::string_view body);

  /// Drops the requests of a connection that ended.
  void forget(std::uint64_t connection);

  /// The number of requests that wait for a key.
  std::size_t waiting() const { return waits_.size(); }

 private:
  /// A connection, and the number of one of its requests.
  using Asker = std::pair<std::uint64_t, std::uint64_t>;
  struct Wait {
    std::vector<std::string> keys;
    std::size_t next = 0;  ///< index of the first key that did not exist at the last check
    bool wants_value = false;
  };
  using Answers = std::vector<Answer>;

  void put(const std::string& key, std::string value, Answers& answers);
  void add(const Asker& asker, MessageReader& fields, Answers& answers);
  void compare_set(const Asker& asker, MessageReader& fields, Answers& answers);
  void begin_wait(const Asker& asker, Wait wait, Answers& answers);
  void go_on(const Asker& asker, Answers& answers);
  void cancel(const Asker& asker);
  bool has_all(const std::vector<std::string>& keys) const;

  std::unordered_map<std::string, std::string> values_;
  std::map<Asker, Wait> waits_;
  std::unordered_map<std::string, std::vector<Asker>> waiting_for_;  ///< by Wait::keys[next]
};

}  // namespace lockstep::store

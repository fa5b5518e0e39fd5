// The lines of a watch: one JSON object each, split anywhere into the pieces that arrive.
#pragma once

#include <apps/operator/api/answer.h>

#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace lockstep::kube {

enum class Change { added, modified, deleted, bookmark };

struct WatchEvent {
  Change change = Change::added;
  nlohmann::json object;
  std::string version;  ///< the object's resourceVersion: a later watch continues from it
};

/// Not thread-safe.
class WatchLines {
 public:
  /// The events that are complete with this piece. Stops at an error from the server, and stores it in `error`.
  /// Error(data) for a line that is not an event, or longer than 4 MiB.
  std::vector<WatchEvent> take(std::string_view piece);

  const std::optional<Answer>& error() const { return error_; }

 private:
  std::string rest_;  ///< the incomplete last line
  std::optional<Answer> error_;
};

}  // namespace lockstep::kube

// The outcome of a request to an API server, classified by what the client can do about it; and the events of a
// watch: lines of one JSON object each, split anywhere into the pieces that arrive.
#pragma once

#include <lockstep/net/http_messages.h>

#include <nlohmann/json.hpp>

#include <chrono>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace lockstep::kube {

enum class Outcome {
  done,
  unauthorized,  ///< 401: the token or certificate is not accepted
  forbidden,     ///< 403: RBAC, a quota, or a namespace that is being deleted
  missing,       ///< 404: the object, its namespace, or its kind
  exists,        ///< 409 for a creation: the name is taken
  conflict,      ///< 409: the object's version or uid is not the one that the client sent
  expired,       ///< 410: the version from which to continue is too old
  invalid,       ///< the request itself is wrong; it must not be repeated
  later,         ///< 429, 500, 503, 504: the server cannot do it now
  lost,          ///< no response: it is unknown whether the server executed the request
};

/// "done", "forbidden", ... for messages.
std::string_view name(Outcome outcome);

struct Answer {
  Outcome outcome = Outcome::lost;
  unsigned code = 0;      ///< of HTTP; 0 without a response
  std::string reason{};   ///< the server's reason code, e.g. "AlreadyExists"
  std::string message{};  ///< for people
  std::optional<std::chrono::seconds> retry_after{};
  nlohmann::json object{};  ///< with `done`: what the server returned

  bool ok() const { return outcome == Outcome::done; }
  /// "403 Forbidden: pods is forbidden: ...".
  std::string text() const;
};

/// Classifies a response. A body that is not a JSON object counts as `later`, because a proxy between client and server
/// wrote it.
Answer judge(const net::HttpResponse& response);

/// Classifies a Status object, the form of errors inside a watch.
Answer judge_status(const nlohmann::json& status);

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

// What an API server did with a request, sorted by what its client can do about it.
#pragma once

#include <lockstep/net/http_response.h>

#include <chrono>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>

namespace lockstep::kube {

enum class Outcome {
  done,
  unauthorized,  ///< 401: the token or certificate is not accepted
  forbidden,     ///< 403: RBAC, a quota, or a namespace that is being deleted
  missing,       ///< 404: the object, its namespace, or its kind
  exists,        ///< 409 for a creation: the name is taken
  conflict,      ///< 409: the object is another one than the client believes, by its version or its uid
  expired,       ///< 410: the version to go on from is too old
  invalid,       ///< the request itself is wrong; it must not be repeated
  later,         ///< 429, 500, 503, 504: the server cannot do it now
  lost,          ///< no answer: whether the server did it is unknown
};

/// "done", "forbidden", ... for messages.
std::string_view name(Outcome outcome);

struct Answer {
  Outcome outcome = Outcome::lost;
  unsigned code = 0;      ///< of HTTP; 0 without an answer
  std::string reason{};   ///< the server's word for it, e.g. "AlreadyExists"
  std::string message{};  ///< for people
  std::optional<std::chrono::seconds> retry_after{};
  nlohmann::json object{};  ///< with `done`: what the server returned

  bool ok() const { return outcome == Outcome::done; }
  /// "403 Forbidden: pods is forbidden: ...".
  std::string text() const;
};

/// Sorts a response. A body that is no JSON object counts as `later`: something between client and server wrote it.
Answer judge(const net::HttpResponse& response);

/// Sorts a Status object, as errors inside a watch have it.
Answer judge_status(const nlohmann::json& status);

}  // namespace lockstep::kube

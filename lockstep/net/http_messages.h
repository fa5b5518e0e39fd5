// HTTP messages: a request and the response to it as a client has them, and an answer as a server gives it.
#pragma once

#include <chrono>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace lockstep::net {

/// A request of any method. Without a content type it has no body.
struct HttpAsk {
  std::string method;
  std::string target;
  std::string content_type{};
  std::string body{};
  std::vector<std::pair<std::string, std::string>> fields{};  ///< more fields of the header
};

struct HttpResponse {
  unsigned status = 0;
  std::string body;
  bool keep_alive = false;                            ///< the connection can carry another request
  std::optional<std::chrono::seconds> retry_after{};  ///< the field Retry-After, where it is a number of seconds
};

/// What a server answers to a request.
struct HttpAnswer {
  unsigned status = 200;
  std::string content_type{};
  std::string body{};
  std::vector<std::pair<std::string, std::string>> fields{};  ///< more fields of the header
  bool close = false;                                         ///< the connection carries no other request after it
};

}  // namespace lockstep::net

// An HTTP response, as received by a client.
#pragma once

#include <chrono>
#include <optional>
#include <string>

namespace lockstep::net {

struct HttpResponse {
  unsigned status = 0;
  std::string body;
  bool keep_alive = false;                            ///< the connection can carry another request
  std::optional<std::chrono::seconds> retry_after{};  ///< the field Retry-After, where it is a number of seconds
};

}  // namespace lockstep::net

// An HTTP response, as a client sees it.
#pragma once

#include <string>

namespace lockstep::net {

struct HttpResponse {
  unsigned status = 0;
  std::string body;
  bool keep_alive = false;  ///< the connection can carry another request
};

}  // namespace lockstep::net

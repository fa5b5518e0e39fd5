// A request for the status of a scheduler's job.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

namespace boost::asio::ssl {
class context;
}

namespace lockstep::scheduler {

/// The document of GET /v1/status. `tls`: nullptr for plain HTTP. Error(io) or Error(timeout) naming the address when
/// there is no answer, or not one of a scheduler.
std::string fetch_status(const std::string& host, std::uint16_t port,
                         const std::shared_ptr<boost::asio::ssl::context>& tls);

}  // namespace lockstep::scheduler

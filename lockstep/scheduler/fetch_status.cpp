#include <lockstep/base/error.h>
#include <lockstep/net/http_client.h>
#include <lockstep/scheduler/fetch_status.h>

#include <utility>

namespace lockstep::scheduler {
namespace {

constexpr std::chrono::seconds kLimit(10);
constexpr std::size_t kLongestStatus = std::size_t{64} * 1024 * 1024;

net::HttpResponse ask(net::HttpClient& client) {
  try {
    return client.get("/v1/status", std::chrono::steady_clock::now() + kLimit);
  } catch (const Error& error) {
    throw Error(error.kind() == ErrorKind::timeout ? ErrorKind::timeout : ErrorKind::io, "status",
                fmt::format("no answer from a scheduler at {}: {}", client.server().text(), error.message()));
  }
}

}  // namespace

std::string fetch_status(const std::string& host, std::uint16_t port,
                         const std::shared_ptr<boost::asio::ssl::context>& tls) {
  net::HttpClient client({host, port}, tls, kLongestStatus);
  net::HttpResponse response = ask(client);
  if (response.status != 200) {
    fail(ErrorKind::io, "status", "whoever answers at {} is no scheduler: status {} of HTTP", client.server().text(),
         response.status);
  }
  return std::move(response.body);
}

}  // namespace lockstep::scheduler
